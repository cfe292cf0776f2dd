"""Several commands one after the other in one worker, seen from outside as one engine with one command."""

from collections.abc import Iterator, Sequence

from ...core.commands import BreakInput, Command, MendInput, Quit, RunAll, RunSweep, TryDynamicCapture
from ...core.events import Demonstration, DynamicCapture, Error, Event, PhaseEnd, Status, SweepEnd
from .headless import Engine


class Scripted:
    """An engine that carries out `steps` whatever it is first told, and lets `Quit` through after the last.

    A step that is refused, or fails in a way the worker survives, is left behind; after any other failure none follows.
    """

    def __init__(self, engine: Engine, steps: Sequence[Command]) -> None:
        self._engine = engine
        self._steps = list(steps)
        self._now: Command | None = None
        self._finished = False

    def send(self, command: Command) -> bool:
        """The first command starts the script; `Quit` is for its end."""
        if self._now is None and not isinstance(command, Quit):
            return self._next()
        return self._engine.send(command) if self._finished else True

    def events(self) -> Iterator[Event]:
        """The worker's events; sends the next step when one is over."""
        for event in self._engine.events():
            if isinstance(event, Error) and not event.recoverable:
                self._steps.clear()
                self._finished = True
            if not self._steps and isinstance(event, Status) and event.state in ("released", "failed"):
                self._finished = True
            if self._steps and self._now is not None and step_is_over(self._now, event):
                self._next()
            yield event

    def close(self) -> None:
        """End the worker."""
        self._engine.close()

    def _next(self) -> bool:
        self._now = self._steps.pop(0)
        return self._engine.send(self._now)


def step_is_over(step: Command, event: Event) -> bool:
    """Whether this event ends this step, well or not. Phases end with the replays that the phase is measured over."""
    match event:
        case Error():
            return True
        case Status(refused=str(refused)):
            return refused == step.__struct_config__.tag
        case PhaseEnd(phase="replay"):
            return isinstance(step, RunAll)
        case DynamicCapture():
            return isinstance(step, TryDynamicCapture)
        case Demonstration(stage=stage):
            return isinstance(step, BreakInput if stage == "broken" else MendInput)
        case SweepEnd(sweep=sweep):
            return isinstance(step, RunSweep) and step.sweep == sweep
    return False
