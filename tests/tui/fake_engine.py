"""An engine that plays a made-up stream, and `cgtop` on top of it: `python -m tests.tui.fake_engine STREAM ARGS…`."""

import os
import sys
import threading
import time
from collections.abc import Iterator

import msgspec

from cgtop.core.commands import Command
from cgtop.core.events import End, Error, Event, Log, Verification
from cgtop.core.settings import RunSettings
from cgtop.tui.commands import phases
from cgtop.tui.commands.headless import Engine
from tests.sample import sample_run

WAITING = "the engine hangs"
"""Its line on standard error when no more event will come by itself."""
HANGS_AFTER = 12
"""Events of the stream "hang": a few phases."""
SLOW_TO_CLOSE = "FAKE_ENGINE_CLOSES_IN"
"""An environment variable: seconds that closing takes, as a real worker's does."""


def stream(name: str) -> list[Event]:
    """Events of a run that goes as the name says."""
    events = sample_run(decode_events=5)
    end = End(t=events[-1].t, reason="quit")
    match name:
        case "fine":
            return [*events, end]
        case "mismatch":
            wrong = [
                msgspec.structs.replace(event, verdict="mismatch", first_mismatch_step=3)
                if isinstance(event, Verification)
                else event
                for event in events
            ]
            return [*wrong, end]
        case "out_of_memory":
            error = Error(kind="out_of_memory", headline="Out of memory", hint="--batch-size 1", phase="static_cache")
            return [*events[:HANGS_AFTER], error, end]
        case "wrong_architecture":
            return [
                Error(kind="wrong_architecture", headline="torch has no code for sm_70", hint="Install another"),
                end,
            ]
        case "died":
            died = Error(kind="worker_died", headline="The worker was killed by SIGKILL")
            return [*events[:HANGS_AFTER], Log(source="stderr", text="last words"), died, end]
        case "hang":
            return events[:HANGS_AFTER]
    raise ValueError(name)


class FakeEngine:
    """Plays events; a stream without `End` then waits until it is closed."""

    def __init__(self, events: list[Event]) -> None:
        self.sent: list[Command] = []
        self.closed = threading.Event()
        self._events = iter(events)

    def events(self) -> Iterator[Event]:
        for event in self._events:
            yield event
            if isinstance(event, End):
                return
        print(WAITING, file=sys.stderr, flush=True)  # noqa: T201
        self.closed.wait()
        yield End(reason="closed")

    def send(self, command: Command) -> bool:
        self.sent.append(command)
        return True

    def close(self) -> None:
        time.sleep(float(os.environ.get(SLOW_TO_CLOSE, "0")))
        self.closed.set()

    @property
    def asked_for(self) -> list[type[Command]]:
        return [type(command) for command in self.sent]


def main() -> None:
    from cgtop.tui import cli

    name = sys.argv.pop(1)

    def start(settings: RunSettings) -> Engine:
        return FakeEngine(stream(name))

    phases.start_engine = start
    cli.main()


if __name__ == "__main__":
    main()
