"""`cgtop scaling`: what a graph costs at each cache length."""

from ...core.commands import RunSweep
from .options import RunOptions
from .output import Format
from .plan import parsed_list
from .sweeping import sweep


def scaling(run: RunOptions, form: Format, *, cache_lens: str | None) -> None:
    """Sweep over cache lengths, "256,512,…"; None: the engine's own. Raises `typer.Exit` with the exit code."""
    values = () if cache_lens is None else parsed_list("--cache-lens", cache_lens, least=2)
    sweep(run, form, RunSweep(sweep="cache_lens", values=values))
