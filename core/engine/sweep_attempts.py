"""Rows that fail: what is told of them, and what is let go, so that the sweep and the session can go on."""

import gc
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from ..events import SweepKind, SweepRow
from ..memory_map import size_words
from ..settings import RunSettings
from .failures import error_from
from .graphs import pool_name
from .knobs import oom_hint
from .sweep_rig import Rig


class Wanted(NamedTuple):
    """The row that is to be made."""

    sweep: SweepKind
    strategy: str
    value: int


def attempt(rig: Rig, wanted: Wanted, make: Callable[[], SweepRow]) -> SweepRow:
    """The row that `make` measures, or one that says why there is none. Raises only where the device is lost."""
    try:
        return msgspec.structs.replace(make(), strategy=wanted.strategy, value=wanted.value)
    except Exception as exception:
        row, lost = _failed(rig, wanted, exception)
        if lost:
            rig.lab.emit(row)
            raise
        _forget_frames(exception)
    rig.tidy()
    leaked = _leaked(rig)
    if leaked:
        rig.lab.workflow.tainted_bytes = (rig.lab.workflow.tainted_bytes or 0) + leaked
    return row


def _failed(rig: Rig, wanted: Wanted, exception: Exception) -> tuple[SweepRow, bool]:
    """The row, and whether the device is lost, so that nothing can be asked of it any more."""
    error = error_from(exception, None)
    row = SweepRow(
        sweep=wanted.sweep,
        strategy=wanted.strategy,
        value=wanted.value,
        status="out_of_memory" if error.kind == "out_of_memory" else "failed",
        reason=error.headline,
        hint=error.hint,
    )
    if error.kind == "device_lost":
        return row, True
    if error.kind != "out_of_memory":
        return row, False
    rig.device.synchronize()
    free, reserved, pool = rig.device.free_and_total(), rig.device.counters().reserved, _private_bytes(rig)
    row = msgspec.structs.replace(
        row,
        reason=_shortage(error.needed_bytes, error.free_bytes if free is None else free[0], reserved, pool),
        free_bytes=error.free_bytes if free is None else free[0],
        needed_bytes=error.needed_bytes,
        reserved_bytes=reserved,
        pool_bytes=None if reserved is None else pool,
        hint=knob(wanted, error.free_bytes, error.needed_bytes, rig.lab.settings),
    )
    return row, False


def knob(wanted: Wanted, free: int | None, needed: int | None, settings: RunSettings) -> str:
    """After out of memory: the one option of the sweep's command to turn, and to what."""
    if wanted.sweep == "batches":
        return oom_hint("static_cache", free, needed, msgspec.structs.replace(settings, batch_size=1))
    if settings.batch_size > 1:
        return oom_hint("static_cache", free, needed, settings)
    return f"Try lengths up to {wanted.value // 2} in --cache-lens."


def _shortage(needed: int | None, free: int | None, reserved: int | None, pool: int) -> str:
    figures = [f"{size_words(needed)} needed"] if needed is not None else []
    figures += [f"{size_words(free)} free"] if free is not None else []
    figures += (
        [f"{size_words(reserved)} reserved, {size_words(pool)} of it in graphs' pools"] if reserved is not None else []
    )
    return "out of memory" + (f": {', '.join(figures)}" if figures else "")


def _private_bytes(rig: Rig) -> int:
    return sum(segment.size for segment in rig.device.snapshot() if any(segment.pool))


def _leaked(rig: Rig) -> int:
    """Reserved by private pools that no graph has: what a failed capture could not give back."""
    workflow = rig.lab.workflow
    graphs = [workflow.captured, *workflow.kept, *(served.captured for served in rig.served)]
    known = {graph.pool_id for graph in graphs if graph is not None}
    return sum(
        segment.size for segment in rig.device.snapshot() if any(segment.pool) and pool_name(segment.pool) not in known
    )


def _forget_frames(exception: BaseException) -> None:
    """Let go of the frames that an exception holds, and with them of every tensor of the row."""
    seen: set[int] = set()
    current: BaseException | None = exception
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        current.__traceback__ = None
        current = current.__cause__ or current.__context__
    gc.collect()
