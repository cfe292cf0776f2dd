"""`make results`: every experiment on this machine's GPU, one after the other, kept as recordings and as tables.

Runs the commands that a person would: phases (as `make record` does), bench, check, scaling, batches and, over all of
their recordings, claims. Recordings go to core/recordings/ under the name of the run of all phases, the tables to a
Markdown file of that name. Each is there as soon as its experiment has gone to its end, and stays until that is made
again, so a run that was cut short is finished by `--missing`. A command that fails is said and the rest goes on; the
exit code is then 1.
"""

import argparse
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
EXPERIMENTS = ("bench", "check", "scaling", "batches")
"""The longest last: what a run that is cut short loses is least then."""
ALL = ("phases", *EXPERIMENTS)
SECTIONS = (*ALL, "claims")
MARK = "<!-- {} -->\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is asked for; returns the exit code."""
    parser = argparse.ArgumentParser(prog="make results", description=__doc__)
    parser.add_argument("--only", action="append", choices=ALL, help="default: all of them")
    parser.add_argument("--missing", action="store_true", help="only what there is no table of yet")
    parser.add_argument("--into", type=Path, default=ROOT / "core" / "recordings", help="folder (default: %(default)s)")
    parser.add_argument("--name", default="gpu-qwen3-4b", help="how the recordings are called (default: %(default)s)")
    options = parser.parse_args(arguments)
    into: Path = options.into.resolve()  # the commands run elsewhere
    into.mkdir(parents=True, exist_ok=True)
    tables = Tables(into / f"{options.name}.md")
    targets = {what: into / f"{options.name}{'' if what == 'phases' else f'-{what}'}.jsonl.gz" for what in ALL}
    failed = []
    for what in options.only or ALL:
        if options.missing and tables.text(what) and targets[what].exists():
            say(f"{what}: there already")
            continue
        begun = time.monotonic()
        code, table = measured(what, targets[what])
        say(f"{what}: exit {code} after {time.monotonic() - begun:.0f} s{'' if table else ', nothing new is kept'}")
        failed += [what] if code else []
        if table:
            tables.put(what, table)
    kept = [target for target in targets.values() if target.exists()]
    if kept:
        code, table = run("claims", *map(str, kept), "--markdown")
        failed += ["claims"] if code else []
        tables.put("claims", table)
    return 1 if failed else 0


class Tables:
    """A Markdown file with a section for each experiment, written anew whenever one of them changes."""

    def __init__(self, path: Path) -> None:
        self._path = path
        text = path.read_text() if path.exists() else ""
        found = {what: text.partition(MARK.format(what))[2].partition("<!-- ")[0] for what in SECTIONS}
        self._sections = {what: table.strip("\n") for what, table in found.items()}

    def text(self, what: str) -> str:
        """The table of it; empty: none."""
        return self._sections[what]

    def put(self, what: str, table: str) -> None:
        """Take this table in the place of an earlier one; empty: none."""
        self._sections[what] = table.strip("\n")
        there = [MARK.format(name) + text + "\n" for name, text in self._sections.items() if text]
        self._path.write_text("\n".join(there))


def run(*command: str) -> tuple[int, str]:
    """Run `cgtop` with these arguments; returns its exit code and what it wrote."""
    done = subprocess.run(
        [sys.executable, "-m", "cgtop.tui.cli", *command], stdout=subprocess.PIPE, text=True, check=False, cwd=ROOT
    )
    return done.returncode, done.stdout


def say(line: str) -> None:
    """One line of progress."""
    sys.stderr.write(f"[results] {line}\n")


COMPLETE = (0, 1)
"""Exit codes of an experiment that went to its end: 1 where something it measured is not right."""


def measured(what: str, target: Path) -> tuple[int, str]:
    """Measure into this recording; returns the exit code, and the table that the recording gives.

    An earlier recording stays, and the table is empty, where the experiment did not go to its end or measured nothing.
    """
    fresh = target.with_name(f"unfinished-{target.name}")
    try:
        code = measure(what, fresh)
        if code not in COMPLETE or not fresh.exists():
            return code or 1, ""
        unreadable, table = run("play", str(fresh), "--once", "--markdown")
        if unreadable or not table:
            return code or unreadable or 1, ""
        fresh.replace(target)
        return code, table
    finally:
        fresh.unlink(missing_ok=True)


def measure(what: str, into: Path) -> int:
    """Run one experiment; returns its exit code."""
    if what == "phases":
        command = [sys.executable, "-m", "cgtop.core.record_bundled", str(into)]
        return subprocess.run(command, stdout=sys.stderr, check=False, cwd=ROOT).returncode
    return run(what, "--model", "qwen3-4b", "--record", str(into))[0]


if __name__ == "__main__":
    sys.exit(main())
