"""Which experiment carries out which command."""

import importlib
from collections.abc import Callable

from ..commands import BreakInput, Command, MendInput, RunBench, RunCheck, RunSweep, TryDynamicCapture
from .failures import EngineError
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
