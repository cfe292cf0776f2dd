"""`python -m cgtop.core.record_bundled [FILE]`: the run that is shipped as a recording, made on this machine's GPU.

All phases on qwen3-4b with random weights, a stretch of eager, dynamic and graph decoding each, a few switches between
eager and graph, the demonstrations, and release. Written to core/recordings/ unless FILE says otherwise.
"""

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path

from .client import EngineClient
from .commands import BreakInput, Command, MendInput, Pause, Quit, Resume, RunPhase, SetMode, TryDynamicCapture
from .events import Demonstration, DynamicCapture, End, Error, Event, Hello, PhaseEnd, PhaseId, Status, Verification
from .phases import PHASE_IDS
from .recorder import RecordingWriter
from .settings import Mode, RunSettings

STRETCH_S = 20.0
"""Seconds of each decode mode."""
SWITCH_S = 3.0
"""Seconds between the switches at the end."""
LIMIT_S = 300.0
"""A run that takes longer than this has failed."""


def main(arguments: list[str]) -> int:
    """Record; returns the exit code. Raises `SystemExit` for other arguments than a file."""
    parser = argparse.ArgumentParser(prog="python -m cgtop.core.record_bundled", description=__doc__)
    parser.add_argument("file", metavar="FILE", type=Path, nargs="?", help="default: core/recordings/DEVICE-MODEL")
    file: Path | None = parser.parse_args(arguments).file
    settings = RunSettings(model="qwen3-4b", device="cuda")
    client = EngineClient(settings)
    recorded: list[Event] = []
    try:
        problem = _drive(_Run(client, recorded.append))
    finally:
        client.close()
    if problem is not None:
        sys.stderr.write(f"not recorded: {problem}\n")
        return 1
    path = file or Path(__file__).parent / "recordings" / _name(recorded)
    writer = RecordingWriter(path, settings)
    for event in recorded:
        writer.write(event)
    writer.close()
    sys.stdout.write(f"{path}: {len(recorded):,} events, {path.stat().st_size / 1024:,.0f} KiB\n")
    return 0


class _Run:
    """A worker's events, waited for one kind after another."""

    def __init__(self, client: EngineClient, keep: Callable[[Event], None]) -> None:
        self._client = client
        self._keep = keep
        self._deadline = time.monotonic() + LIMIT_S
        self.failure: str | None = None

    def do(self, command: Command) -> None:
        """Send a command."""
        self._client.send(command)

    def until(self, wanted: Callable[[Event], bool]) -> bool:
        """Take events until a wanted one came; False after a failure or too long a time."""
        found = False
        while self.failure is None and time.monotonic() < self._deadline:
            for event in self._client.drain():  # to the end: what comes behind the wanted event belongs to the run too
                self._take(event)
                found = found or wanted(event)
            if found:
                return self.failure is None
            time.sleep(0.02)
        self.failure = self.failure or f"no end after {LIMIT_S:.0f} s"
        return False

    def during(self, seconds: float) -> bool:
        """Take events for a while; False after a failure."""
        end = time.monotonic() + seconds
        while self.failure is None and time.monotonic() < end:
            for event in self._client.drain():
                self._take(event)
            time.sleep(0.02)
        return self.failure is None

    def _take(self, event: Event) -> None:
        self._keep(event)
        if isinstance(event, Error):
            self.failure = f"{event.headline} {event.hint}"
        elif isinstance(event, Verification) and event.verdict == "mismatch":
            self.failure = "the replay's logits are not those of eager steps"
        elif isinstance(event, End) and event.exit_code:
            self.failure = event.reason


def _drive(run: _Run) -> str | None:
    """The run itself; returns what went wrong."""
    run.until(lambda event: isinstance(event, Hello))
    for phase in PHASE_IDS[:-1]:
        run.do(RunPhase(phase=phase))
        if not run.until(_ended(phase)):
            return run.failure
        run.during(1.0)
    run.during(STRETCH_S)
    run.do(SetMode(mode="eager"))
    run.during(STRETCH_S)
    run.do(SetMode(mode="dynamic"))
    run.during(STRETCH_S)
    switches: tuple[Mode, ...] = ("graph", "eager", "graph")
    for mode in switches:
        run.do(SetMode(mode=mode))
        run.during(SWITCH_S)
    run.do(Pause())
    run.during(1.0)
    run.do(Resume())
    run.during(SWITCH_S)
    shown: tuple[tuple[Command, type[Event]], ...] = (
        (TryDynamicCapture(), DynamicCapture),
        (BreakInput(), Demonstration),
        (MendInput(), Demonstration),
    )
    for command, outcome in shown:
        run.do(command)
        run.until(_is(outcome))
        run.during(1.0)
    run.do(SetMode(mode="graph"))
    run.during(SWITCH_S)
    run.do(RunPhase(phase="release"))
    run.until(lambda event: isinstance(event, Status) and event.state == "released")
    run.do(Quit())
    run.until(lambda event: isinstance(event, End))
    return run.failure


def _is(kind: type[Event]) -> Callable[[Event], bool]:
    return lambda event: isinstance(event, kind)


def _ended(phase: PhaseId) -> Callable[[Event], bool]:
    return lambda event: isinstance(event, PhaseEnd) and event.phase == phase


def _name(events: list[Event]) -> str:
    hello = next(event for event in events if isinstance(event, Hello))
    device = hello.device.name.lower().removeprefix("nvidia ").replace(" ", "-")
    model = hello.model.name if hello.model is not None else "model"
    return f"{device}-{model}.jsonl.gz"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
