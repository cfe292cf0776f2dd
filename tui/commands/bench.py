"""`cgtop bench`: decode modes compared, interleaved, then the report."""

import typer

from ...core.commands import RunBench
from ...core.settings import Mode, RunSettings
from ..report import Origin, bench_report
from .failures import CommandError, Exit
from .gpu import instead_of_a_gpu
from .options import BenchMode, RunOptions
from .output import Format, write_report
from .phases import measure, require_device, tell_trouble

MODES: dict[BenchMode, tuple[Mode, ...]] = {
    "eager": ("eager",),
    "dynamic": ("dynamic",),
    "graph": ("graph",),
    "both": ("eager", "graph"),
    "all": ("eager", "dynamic", "graph"),
}


def bench(run: RunOptions, form: Format, *, mode: BenchMode | None, tokens: int, rounds: int | None) -> None:
    """Compare modes live and write what came of it. Raises `typer.Exit` with the exit code."""
    settings = run.settings.validated()
    require_device(settings, instead_of_a_gpu("bench", first=on_a_cpu(mode)))
    modes = chosen_modes(settings, mode)
    outcome = measure(settings, run.record, form, RunBench(modes=modes, tokens=tokens, rounds=rounds))
    found = outcome.state.comparison
    if found is not None:
        write_report(outcome.state, Origin(), form, bench_report)
    tell_trouble(outcome)
    failed = found is None or not found.final or found.verdict == "mismatch"
    raise typer.Exit(int(outcome.exit_code or (Exit.RUN_FAILED if failed else Exit.FINE)))


def chosen_modes(settings: RunSettings, mode: BenchMode | None) -> tuple[Mode, ...]:
    """The modes to compare; by default and for "all" those that the device has.

    Raises `CommandError` for a graph on a CPU.
    """
    if settings.device != "cpu":
        return MODES[mode or "both"]
    if mode in (None, "all"):
        return ("eager", "dynamic")
    if mode in ("graph", "both"):
        raise CommandError(f"--mode {mode} takes a graph, and CUDA graphs need CUDA", on_a_cpu(mode), Exit.NO_DEVICE)
    return MODES[mode]


def on_a_cpu(mode: BenchMode | None) -> str:
    """What works without a GPU, as near as can be to the mode that was asked for."""
    if mode in (None, "all"):
        return "--device cpu compares eager and dynamic"
    return f"--mode {'dynamic' if mode == 'dynamic' else 'eager'} --device cpu runs without a GPU"
