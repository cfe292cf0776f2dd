"""Experiments: which command is which, and carrying one out."""

import importlib
from collections.abc import Callable

from ..commands import BreakInput, Cancel, Command, MendInput, RunBench, RunCheck, RunSweep, TryDynamicCapture
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

    Commands that come meanwhile wait, but for `Cancel` and `Quit`, which end it.
    """

    def __init__(self, lab: Lab, commands: CommandQueue, tell: Callable[[], None]) -> None:
        """`tell` says what the session does, once an experiment has begun."""
        self._lab = lab
        self._commands = commands
        self._tell = tell
        self.at_work: str | None = None
        """The name of the command that is being carried out."""

    def carry_out(self, command: Command) -> None:
        """No step may be in flight. Raises what `run_experiment` raises."""
        self.at_work = str(type(command).__struct_config__.tag)
        self._tell()
        try:
            run_experiment(command, self._lab)
        finally:
            self.at_work = None
            self._commands.discard(Cancel)  # it was for this experiment
