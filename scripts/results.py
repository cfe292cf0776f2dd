"""`make results`: every experiment on this machine's GPU, one after the other, kept as recordings and as tables.

Runs the commands that a person would: phases (as `make record` does), scaling, batches, bench, check and, over all of
their recordings, claims. Recordings go to core/recordings/ under the name of the run of all phases, the tables to
core/recordings/results.md. A command that fails is said and the rest goes on; the exit code is then 1.
"""

import argparse
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
EXPERIMENTS = ("scaling", "batches", "bench", "check")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is asked for; returns the exit code."""
    parser = argparse.ArgumentParser(prog="make results", description=__doc__)
    parser.add_argument("--only", action="append", choices=("phases", *EXPERIMENTS), help="default: all of them")
    parser.add_argument("--into", type=Path, default=ROOT / "core" / "recordings", help="folder (default: %(default)s)")
    parser.add_argument("--name", default="gpu-qwen3-4b", help="how the recordings are called (default: %(default)s)")
    options = parser.parse_args(arguments)
    wanted = options.only or ["phases", *EXPERIMENTS]
    main_run = options.into / f"{options.name}.jsonl.gz"
    failed, sections, kept = [], [], []
    for what in wanted:
        target = main_run if what == "phases" else options.into / f"{options.name}-{what}.jsonl.gz"
        begun = time.monotonic()
        code, table = _phases(target) if what == "phases" else _experiment(what, target)
        say(f"{what}: exit {code} after {time.monotonic() - begun:.0f} s")
        failed += [what] if code else []
        kept += [target] if target.exists() else []
        sections.append(table)
    if kept:
        code, table = run("claims", *map(str, kept), "--markdown")
        failed += ["claims"] if code else []
        sections.append(table)
    (options.into / "results.md").write_text("\n".join(sections))
    return 1 if failed else 0


def run(*command: str) -> tuple[int, str]:
    """Run `cgtop` with these arguments; returns its exit code and what it wrote."""
    done = subprocess.run(
        [sys.executable, "-m", "cgtop.tui.cli", *command], stdout=subprocess.PIPE, text=True, check=False, cwd=ROOT
    )
    return done.returncode, done.stdout


def say(line: str) -> None:
    """One line of progress."""
    sys.stderr.write(f"[results] {line}\n")


def _phases(target: Path) -> tuple[int, str]:
    command = [sys.executable, "-m", "cgtop.core.record_bundled", str(target)]
    code = subprocess.run(command, stdout=sys.stderr, check=False, cwd=ROOT).returncode
    return (code, "") if code else run("play", str(target), "--once", "--markdown")


def _experiment(what: str, target: Path) -> tuple[int, str]:
    return run(what, "--model", "qwen3-4b", "--record", str(target), "--markdown")


if __name__ == "__main__":
    sys.exit(main())
