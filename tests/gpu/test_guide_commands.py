"""The guide's commands on a real GPU, as a reader types them."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def typed(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        (sys.executable, *command), cwd=ROOT, env=os.environ, capture_output=True, text=True, timeout=280
    )


def test_the_memory_analysis_prints_the_phases_beside_the_guides() -> None:
    result = typed("tests/test_cudagraph_memory.py", "--model", "qwen3-0.6b", "--max-cache-len", "256")
    assert result.returncode == 0, result.stderr
    assert "Beside the guide" in result.stdout and "capture" in result.stdout


def test_the_speed_demonstration_compares_both_modes() -> None:
    result = typed("tests/data/test_cudagraph_demo.py", "--mode", "both", "--model", "qwen3-0.6b", "--rounds", "2")
    assert result.returncode == 0, result.stderr
    assert "eager" in result.stdout and "graph" in result.stdout
