"""What `cgtop scaling` and `cgtop batches` have in common: a sweep made live, then its report."""

import typer

from ...core.commands import RunSweep
from ..report import Origin, sweep_report
from ..report.sweeps import is_sound
from .failures import CommandError, Exit, tell
from .gpu import instead_of_a_gpu
from .options import RunOptions
from .output import Format, write_report
from .phases import measure, require_device, tell_trouble


def sweep(run: RunOptions, form: Format, command: RunSweep) -> None:
    """Make a sweep live and write what came of it; an interrupted one keeps its rows.

    Raises `typer.Exit`: 0 every row measured and right, 1 not, 3 where there is no GPU to measure on.
    """
    settings = run.settings.validated()
    instead = instead_of_a_gpu("scaling" if command.sweep == "cache_lens" else "batches")
    require_device(settings, instead)
    if settings.device == "cpu":
        raise CommandError(
            "CUDA graphs need CUDA, and --device is cpu",
            f"name a GPU with --device cuda; {instead}",
            Exit.NO_DEVICE,
        )
    outcome = measure(settings, run.record, form, command)
    made = outcome.state.sweeps.get(command.sweep)
    if made is not None:
        write_report(outcome.state, Origin(), form, sweep_report)
        for row in made.rows:
            if row.reason:
                tell(f"{row.strategy}, {row.value:,}: {row.reason}", row.hint)
    tell_trouble(outcome)
    sound = made is not None and is_sound(made)
    raise typer.Exit(int(outcome.exit_code or (Exit.FINE if sound else Exit.RUN_FAILED)))
