"""`cgtop batches`: what graphs of several batch sizes cost, by every way of serving them."""

from ...core.commands import RunSweep
from .options import RunOptions, StrategyChoice
from .output import Format
from .plan import parsed_list
from .sweeping import sweep


def batches(run: RunOptions, form: Format, *, batch_sizes: str | None, strategy: StrategyChoice) -> None:
    """Sweep over batch sizes, "1,2,…"; None: the engine's own.

    Raises `typer.Exit` with the exit code.
    """
    values = () if batch_sizes is None else parsed_list("--batch-sizes", batch_sizes, least=1)
    names = () if strategy == "all" else (strategy,)
    sweep(run, form, RunSweep(sweep="batches", values=values, strategies=names))
