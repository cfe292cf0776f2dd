"""The guide's `python tests/data/test_cudagraph_demo.py --mode eager|graph|both`: decode speeds, by cgtop's own bench.

A front: what runs, and how it is measured, is `cgtop bench`. Needs an NVIDIA GPU; without one it says so and exits 3.
"""

import argparse
import sys
from collections.abc import Sequence

import typer

from cgtop.core.settings import RunSettings
from cgtop.tui.commands.bench import bench
from cgtop.tui.commands.failures import told
from cgtop.tui.commands.options import RunOptions
from cgtop.tui.commands.output import Format


def main(arguments: Sequence[str] | None = None) -> int:
    """Run; returns the exit code."""
    parser = argparse.ArgumentParser(description="Eager steps against a replayed CUDA graph.")
    parser.add_argument("--mode", choices=("eager", "graph", "both"), default="both")
    parser.add_argument("--model", help="a preset, a checkpoint folder or a hub id")
    parser.add_argument("--max-cache-len", type=int, default=RunSettings().max_cache_len, metavar="N")
    parser.add_argument("--batch-size", type=int, default=1, metavar="B")
    parser.add_argument("--device", default="auto", help="auto, cuda, cuda:N or cpu")
    parser.add_argument("--rounds", type=int, metavar="N", help="of all modes (default: until the ratio is known)")
    given = parser.parse_args(arguments)
    if given.rounds is not None and given.rounds < 1:
        parser.error("--rounds takes 1 or more")
    settings = RunSettings(
        model=given.model, device=given.device, max_cache_len=given.max_cache_len, batch_size=given.batch_size
    )
    try:
        with told(debug=False):
            bench(RunOptions(settings=settings), Format.REPORT, mode=given.mode, tokens=64, rounds=given.rounds)
    except typer.Exit as over:
        return over.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
