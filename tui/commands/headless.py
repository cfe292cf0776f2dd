"""A run without a screen: every event to the sinks in turn, until the run is over or a signal ends it."""

import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn, Protocol

import msgspec

from ...core.commands import Command, Quit
from ...core.events import End, Error, Event, Status
from ...core.state import RunState, fold
from ..report.decode import is_mismatch
from .failures import Exit

Sink = Callable[[Event], None]
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
AGAIN_S = 0.2
"""Signals closer together are one: `timeout` sends its own twice, and keys bounce."""
LAST_WORDS_S = 4.0
"""More than a worker takes to end, whatever it does."""
NO_DEVICE_KINDS = ("no_cuda", "driver_too_old", "no_device", "wrong_architecture", "missing_package")


class Engine(Protocol):
    """What is needed of `core.client.EngineClient`."""

    def events(self) -> Iterator[Event]:
        """Wait for each event up to `End`; once closed, those that were not taken yet."""

    def send(self, command: Command) -> bool:
        """Send a command; false if there is no worker any more."""

    def close(self) -> None:
        """End the worker, whatever it does."""


class Outcome(msgspec.Struct, frozen=True):
    """The state that a run ended in, and what the command returns for it."""

    state: RunState
    exit_code: int


def run_command(engine: Engine, command: Command, sinks: Sequence[Sink]) -> Outcome:
    """Carry one command out and end the worker. On SIGINT, SIGTERM or SIGHUP it is ended and an `End` says so."""
    state = RunState()
    interrupted: int | None = None
    started = False

    def take(event: Event) -> None:
        nonlocal state
        state = fold(state, event)
        for sink in sinks:
            sink(event)

    with _Signals() as signals:
        try:
            engine.send(command)
            for event in signals.waiting_for(engine.events()):
                take(event)
                started = started or (isinstance(event, Status) and event.state in ("running", "decoding"))
                if is_over(event, started=started, command=command):
                    engine.send(Quit())
        except _Interrupted as interruption:
            interrupted = interruption.number
        finally:
            signals.settle()
            engine.close()
        if interrupted is not None:
            for event in engine.events():
                if not isinstance(event, End):
                    take(event)
            reason = f"interrupted by {signal.Signals(interrupted).name}"
            take(End(t=state.t, reason=reason, exit_code=Exit.SIGNAL + interrupted, signal=interrupted))
    return Outcome(state, exit_code(state) if interrupted is None else Exit.SIGNAL + interrupted)


def is_over(event: Event, *, started: bool, command: Command) -> bool:
    """Whether nothing more will come of the command: the worker is done, refused, released, failed or stopped."""
    match event:
        case Status(state="released" | "failed"):
            return True
        case Status(state="idle", refused=None):
            return started
        case Status(refused=str(refused)):
            return refused == command.__struct_config__.tag
        case Error(recoverable=False):
            return True
    return False


def exit_code(state: RunState) -> int:
    """0 only for a command that was carried out to its end with no phase failed and no replay found wrong."""
    kinds = [error.kind for error in state.errors]
    if any(kind in NO_DEVICE_KINDS for kind in kinds):
        return Exit.NO_DEVICE
    if "settings" in kinds:
        return Exit.WRONG_USAGE
    refused = state.status is not None and state.status.refused is not None
    if (
        state.end is None
        or kinds
        or refused
        or is_mismatch(state)
        or any(phase.status == "failed" for phase in state.phases)
    ):
        return Exit.RUN_FAILED
    return state.end.exit_code


class _Interrupted(BaseException):
    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class _Signals:
    """Turns the first signal into `_Interrupted`, but only between two events: a sink is never cut in a line.

    One that comes `AGAIN_S` after it is somebody who does not want to wait, as where a pipe's reader has stopped
    reading, and interrupts at once. `_Interrupted` is raised once: what follows it, the worker's end and its last
    events, is short and is not cut off, unless it is still not over after `LAST_WORDS_S`. Then a signal ends the
    process, and the worker with it.
    """

    def __init__(self) -> None:
        self._pending: int | None = None
        self._arrived_at = 0.0
        self._waiting = False
        self._settled = False
        self._previous: dict[signal.Signals, object] = {}

    def __enter__(self) -> "_Signals":
        for number in SIGNALS:
            # A signal that the parent had ignored (nohup) stays ignored.
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._previous[number] = signal.signal(number, self._arrived)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._previous.items():
            # Of a run that was interrupted only the report is left: another signal ends it without a traceback.
            signal.signal(number, handler if self._pending is None else signal.SIG_DFL)  # type: ignore[arg-type]

    def settle(self) -> None:
        """From here on nothing is interrupted."""
        self._settled = True

    def waiting_for(self, events: Iterator[Event]) -> Iterator[Event]:
        """The events; interrupted while one is awaited."""
        while True:
            with self._interruptible():
                event = next(events, None)
            if event is None:
                return
            yield event

    @contextmanager
    def _interruptible(self) -> Iterator[None]:
        if self._pending is not None:
            self._raise(self._pending)
        self._waiting = True
        try:
            yield
        finally:
            self._waiting = False

    def _arrived(self, number: int, _frame: FrameType | None) -> None:
        now = time.monotonic()
        if self._pending is None:
            self._pending, self._arrived_at = number, now
        if self._settled:
            if now - self._arrived_at > LAST_WORDS_S:
                os._exit(Exit.SIGNAL + number)
        elif self._waiting or now - self._arrived_at > AGAIN_S:
            self._raise(self._pending)

    def _raise(self, number: int) -> NoReturn:
        self._waiting = False
        self._settled = True
        raise _Interrupted(number)
