"""The guide's table of cache lengths, measured: a StaticCache and a graph for each, and the line through them."""

from collections.abc import Sequence
from functools import partial

import msgspec

from ..events import SweepEnd, SweepRow
from ..fit import fit_line
from ..memory_map import MIB
from .strategies import OwnCaches
from .sweep_attempts import Wanted, attempt
from .sweep_rig import Rig
from .sweep_rows import measure, tokens_at_most

DEFAULT = (256, 512, 1024, 2048, 4096)


def sweep_lengths(rig: Rig, lengths: Sequence[int]) -> SweepEnd:
    """Measure one row after the other, emitting each; all graphs stand until the last is measured.

    Each row is told as if its graph were the only one: the stream's workspace, which they share, counts in every row.
    """
    rows: list[SweepRow] = []
    cancelled = False
    for length in lengths:
        if rig.lab.cancelled():
            cancelled = True
            break
        row = attempt(rig, Wanted("cache_lens", "own", length), partial(_row, rig, length))
        rows.append(row)
        rig.lab.emit(row)
        rig.tell_memory()
    rig.drop()
    return _end(rig, rows, cancelled=cancelled)


def _row(rig: Rig, length: int) -> SweepRow:
    device = rig.device.torch_device
    caches = OwnCaches(rig.loaded, device=device, max_cache_len=length, tokens=tokens_at_most(rig))
    row = measure(rig, "cache_lens", caches, rig.lab.settings.batch_size, None)
    return with_workspace(row, rig.workspace_bytes)


def with_workspace(row: SweepRow, workspace: int) -> SweepRow:
    """The row as if it had had the stream's workspace allocated, which an earlier one did."""
    missing = workspace - (row.workspace_bytes or 0)
    return msgspec.structs.replace(
        row,
        workspace_bytes=workspace,
        allocated_bytes=None if row.allocated_bytes is None else row.allocated_bytes + missing,
        total_bytes=None if row.total_bytes is None else row.total_bytes + missing,
    )


def _end(rig: Rig, rows: Sequence[SweepRow], *, cancelled: bool) -> SweepEnd:
    points = [(row.value, row.total_bytes) for row in rows if row.status == "done" and row.total_bytes is not None]
    end = SweepEnd(sweep="cache_lens", cancelled=cancelled, notes=rig.notes())
    if len({length for length, _ in points}) < 2:
        return end
    line = fit_line([length for length, _ in points], [total for _, total in points])
    notes = (
        f"slope: {line.slope:,.0f} B a token; by the closed form, its keys and values are {rig.token_bytes():,} B",
        f"intercept: {line.intercept / MIB:,.1f} MiB at no token: workspace, logits and inputs, the executable graph, "
        "and what the pool holds at any length",
        *_held(rows),
    )
    return msgspec.structs.replace(
        end,
        slope_bytes_per_token=line.slope,
        intercept_bytes=line.intercept,
        r_squared=line.r_squared,
        notes=(*notes, *end.notes),
    )


def _held(rows: Sequence[SweepRow]) -> tuple[str, ...]:
    """What pools hold beyond tensors that stay, where that grows: it makes the line steeper than the closed form."""
    told = {row.value: row.held_bytes for row in rows if row.status == "done" and row.held_bytes is not None}
    if not told or told[min(told)] == told[max(told)]:
        return ()
    figures = ", ".join(f"{held / MIB:,.1f} at {length:,}" for length, held in sorted(told.items()))
    return (
        f"held by the pool beyond tensors that stay, in MiB: {figures} tokens. A step needs it while it runs, and it "
        "comes in whole segments of the allocator: what it grows by is in the slope, beside keys and values",
    )
