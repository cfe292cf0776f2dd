"""The guide's `python tests/test_cudagraph_memory.py`: its memory tables, by cgtop's own engine.

    CUDA_VISIBLE_DEVICES=0 python tests/test_cudagraph_memory.py [--max-cache-len N] [--batch-size B] [--model M]
    CUDA_VISIBLE_DEVICES=0 python tests/test_cudagraph_memory.py --test-scaling

A front: what runs is `cgtop phases`, or `cgtop scaling`. Needs an NVIDIA GPU; without one it says so and exits 3. Under
pytest this file tests the guide's commands as a reader would type them; it needs no pytest to be run as a program.
"""

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import typer

from cgtop.core.settings import RunSettings
from cgtop.tui.commands.failures import told
from cgtop.tui.commands.options import RunOptions
from cgtop.tui.commands.output import Format
from cgtop.tui.commands.phases import phases
from cgtop.tui.commands.scaling import scaling

ROOT = Path(__file__).parents[1]
MEMORY, DEMO = "tests/test_cudagraph_memory.py", "tests/data/test_cudagraph_demo.py"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run; returns the exit code."""
    parser = argparse.ArgumentParser(description="What each phase of CUDA graph decoding costs in memory.")
    parser.add_argument("--max-cache-len", type=int, default=RunSettings().max_cache_len, metavar="N")
    parser.add_argument("--batch-size", type=int, default=1, metavar="B")
    parser.add_argument("--model", help="a preset, a checkpoint folder or a hub id")
    parser.add_argument("--device", default="auto", help="auto, cuda, cuda:N or cpu")
    parser.add_argument("--test-scaling", action="store_true", help="the table of cache lengths instead")
    given = parser.parse_args(arguments)
    run = RunOptions(
        settings=RunSettings(
            model=given.model, device=given.device, max_cache_len=given.max_cache_len, batch_size=given.batch_size
        )
    )
    try:
        with told(debug=False):
            if given.test_scaling:
                scaling(run, Format.REPORT, cache_lens=None)
            else:
                phases(run, Format.REPORT)
    except typer.Exit as over:
        return over.exit_code
    return 0


def typed(*command: str, gpus: str = "") -> subprocess.CompletedProcess[str]:
    """A command of the guide, run from the checkout with this Python; no GPU unless some are named."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("CGTOP_")}
    return subprocess.run(
        (sys.executable, *command),
        cwd=ROOT,
        env=kept | {"CUDA_VISIBLE_DEVICES": gpus},
        capture_output=True,
        text=True,
        timeout=240,
    )


def _says_that_it_needs_a_gpu(result: subprocess.CompletedProcess[str]) -> bool:
    return result.returncode == 3 and "GPU" in result.stderr and not result.stdout and "Traceback" not in result.stderr


def test_the_memory_analysis_says_without_a_gpu_that_it_needs_one() -> None:
    assert _says_that_it_needs_a_gpu(typed(MEMORY))
    assert _says_that_it_needs_a_gpu(typed(MEMORY, "--max-cache-len", "2048", "--batch-size", "2"))


def test_the_scaling_test_says_without_a_gpu_that_it_needs_one() -> None:
    assert _says_that_it_needs_a_gpu(typed(MEMORY, "--test-scaling"))


def test_the_speed_demonstration_says_without_a_gpu_that_it_needs_one() -> None:
    for mode in ("eager", "graph", "both"):
        assert _says_that_it_needs_a_gpu(typed(DEMO, "--mode", mode))


def test_a_graph_on_a_cpu_is_refused_with_a_command_that_runs() -> None:
    for mode in ("graph", "both"):
        result = typed(DEMO, "--mode", mode, "--device", "cpu")
        assert result.returncode == 3 and "need CUDA" in result.stderr and not result.stdout
        assert "--mode eager --device cpu runs" in result.stderr and "--device cpu compares" not in result.stderr


def test_the_memory_analysis_really_runs_the_engine() -> None:
    result = typed(MEMORY, "--device", "cpu", "--model", "tiny", "--max-cache-len", "96", "--batch-size", "2")
    assert result.returncode == 0, result.stderr
    assert "batch 2" in result.stdout and "cache 96 tokens" in result.stdout
    assert "Beside the guide" in result.stdout


def test_the_speed_demonstration_makes_the_rounds_that_it_is_told() -> None:
    result = typed(DEMO, "--mode", "eager", "--device", "cpu", "--model", "tiny", "--rounds", "1")
    assert result.returncode == 0, result.stderr
    assert "median of 1 round" in result.stdout


def test_wrong_usage_is_2_and_impossible_settings_are_told() -> None:
    assert typed(MEMORY, "--max-cache-len", "many").returncode == 2
    assert typed(DEMO, "--mode", "fast").returncode == 2
    assert typed(DEMO, "--rounds", "0").returncode == 2
    short = typed(MEMORY, "--device", "cpu", "--model", "tiny", "--max-cache-len", "8")
    assert short.returncode == 2 and "--max-cache-len" in short.stderr


if __name__ == "__main__":
    sys.exit(main())
