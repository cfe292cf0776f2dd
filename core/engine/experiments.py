"""Experiments: which command is which, and what decoding does meanwhile."""

import importlib
from collections.abc import Callable

from ..commands import BreakInput, Cancel, Command, MendInput, RunBench, RunCheck, RunSweep, TryDynamicCapture
from ..settings import Mode
from .decoding import Decoding
from .failures import EngineError
from .inbox import CommandQueue
from .lab import Lab

Experiment = Callable[[Command, Lab], None]

EXPERIMENTS: dict[type[Command], str] = {
    TryDynamicCapture: "demonstrations:try_dynamic_capture",
    BreakInput: "demonstrations:break_input",
    MendInput: "demonstrations:mend_input",
    RunSweep: "sweeps:run_sweep",
    RunBench: "compare:run_bench",
    RunCheck: "checks:run_check",
}
"""Command -> module of this package and function; imported at first use."""


def run_experiment(command: Command, lab: Lab) -> None:
    """Carry the command out. Raises `EngineError` where it cannot be done now, and what its libraries raise."""
    name = EXPERIMENTS.get(type(command))
    if name is None:
        raise EngineError("settings", f"Unknown experiment {type(command).__name__}", recoverable=True)
    module, _, function = name.partition(":")
    experiment: Experiment = getattr(importlib.import_module(f"{__package__}.{module}"), function)
    experiment(command, lab)


class Experimenter:
    """Carries out one experiment at a time. For the GPU thread.

    Commands that come meanwhile wait, but for `Cancel` and `Quit`, which end it. Decoding rests afterwards; where the
    experiment is refused it goes on as before.
    """

    def __init__(self, lab: Lab, decoding: Decoding, commands: CommandQueue, tell: Callable[[], None]) -> None:
        """`tell` says what the session does, once it has begun."""
        self._lab = lab
        self._decoding = decoding
        self._commands = commands
        self._tell = tell
        self.at_work = False

    def carry_out(self, command: Command) -> None:
        """Raises what `run_experiment` raises."""
        mode, paused = self._decoding.mode, self._decoding.paused
        self._decoding.stop()
        self.at_work = True
        self._tell()
        try:
            run_experiment(command, self._lab)
        except EngineError as reason:
            if reason.kind == "settings" and reason.recoverable:
                self._go_on(mode, paused=paused)
            raise
        finally:
            self.at_work = False
            self._commands.discard(Cancel)  # it was for this experiment

    def _go_on(self, mode: Mode | None, *, paused: bool) -> None:
        if mode is not None and self._decoding.can(mode):
            self._decoding.start(mode)
            if paused:
                self._decoding.pause()
