"""`cgtop check`: is this machine fit for what cgtop measures? One verdict a line, then the exit code."""

import typer

from ...core.checklist import passed
from ...core.commands import RunCheck
from ..report import Origin, check_report
from .failures import Exit, tell
from .gpu import instead_of_a_gpu
from .options import RunOptions
from .output import Format, write_report
from .phases import measure, require_device, tell_trouble


def check(run: RunOptions, form: Format, *, strict: bool) -> None:
    """Make the checks live and write them. Raises `typer.Exit`: 0 passed, 1 not, 3 where there is no GPU to check."""
    settings = run.settings.validated()
    require_device(settings, instead_of_a_gpu("check"))
    outcome = measure(settings, run.record, form, RunCheck(strict=strict))
    checks = outcome.state.checks
    if checks:
        write_report(outcome.state, Origin(), form, check_report)
    tell_trouble(outcome)
    if settings.device == "cpu" and not outcome.exit_code:
        tell("nothing was checked", "its checks are of a GPU; cgtop doctor says what works here")
        raise typer.Exit(int(Exit.NO_DEVICE))
    raise typer.Exit(int(outcome.exit_code or (Exit.FINE if passed(checks) else Exit.RUN_FAILED)))
