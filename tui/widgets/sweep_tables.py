"""The tables of the sweeps: closed form, measured and the guide's figures side by side, and bars."""

from collections.abc import Callable, Sequence

import msgspec
from textual.content import Content

from ...core.events import SweepRow, Verdict
from ...core.guide import BATCH_SIZE_BY_SIZE, CACHE_LENGTH_BY_TOKENS
from ...core.memory_map import MIB
from ..format import NA, clean, count, mib, significant, size, tok_s
from .buckets import look
from .columns import GAP, Column, bar, column, fitting, table_lines, table_width
from .sweep_slice import STRATEGIES, SweepSlice, added, per

BAR_MIN = 10
"""A bar of fewer cells tells nothing."""
BAR_KEPT = 20
"""Cells kept for bars from `BAR_FROM` columns on, before a column takes them."""
BAR_FROM = 100
REST = "▒"
GUIDE_MARK = "◇"
VERDICTS: dict[Verdict, tuple[str, str]] = {
    "identical": ("✓", "$text-success"),
    "within_eager_noise": ("≈", "$text-warning"),
    "mismatch": ("✗", "bold $text-error"),
}
STATUS_WORDS = {"out_of_memory": "out of memory", "failed": "failed", "skipped": "skipped", "done": "done"}


class Section(msgspec.Struct, frozen=True):
    """Lines of one strategy: all of them, and the one line that stands for them where there is no room."""

    strategy: str
    lines: tuple[Content, ...]
    summary: Content


def length_lines(view: SweepSlice, width: int) -> list[Content]:
    """The table of cache lengths with a line for each value, measured, failed or waited for."""
    done = [row for row in view.rows if row.status == "done"]
    columns = fitting(_length_columns(done), _room(width))
    top = max([*(row.total_bytes or 0 for row in done), *(_guide_total(row) or 0 for row in done)], default=0)
    return _table(view, done, columns, width, top, lambda row: (row.kv_bytes, row.total_bytes, _guide_total(row)))


def batch_sections(view: SweepSlice, width: int) -> tuple[Content, list[Section]]:
    """Heading of the table of batch sizes, and a section for each strategy."""
    done = [row for row in view.rows if row.status == "done"]
    columns = fitting(_batch_columns(done), _room(width))
    top = max([*(row.total_bytes or 0 for row in done), *(_guide_cumulative(row) or 0 for row in done)], default=0)
    heading = Content("")
    sections = []
    for strategy, rows in view.by_strategy.items():
        part = msgspec.structs.replace(view, rows=rows)
        if strategy != (view.rows[-1].strategy if view.rows else None):
            part = msgspec.structs.replace(part, begin=None)
        mine = tuple(_pick(column, [row in rows for row in done]) for column in columns)
        measured = [row for row in rows if row.status == "done"]
        parts = _table(part, measured, mine, width, top, lambda row: (None, row.total_bytes, _guide_cumulative(row)))
        heading = parts[0]
        title = Content.assemble(
            (clean(strategy), "bold $text-accent"), (f"  {STRATEGIES.get(strategy, '')}", "$muted")
        )
        sections.append(_section(strategy, [title, *parts[1:]], rows, width))
    return heading, sections


def _section(strategy: str, lines: Sequence[Content], rows: Sequence[SweepRow], width: int) -> Section:
    fitted = tuple(line.truncate(width, ellipsis=True) for line in lines)
    return Section(strategy, fitted, _summary(strategy, rows).truncate(width, ellipsis=True))


def _room(width: int) -> int:
    return width - BAR_KEPT - GAP if width >= BAR_FROM else width


def _pick(column: Column, keep: Sequence[bool]) -> Column:
    """The column with some of its cells, as wide as with all."""
    cells = tuple(cell for cell, kept in zip(column.cells, keep, strict=True) if kept)
    return msgspec.structs.replace(column, cells=cells, least=column.width)


def _length_columns(rows: Sequence[SweepRow]) -> tuple[Column, ...]:
    guide = [CACHE_LENGTH_BY_TOKENS.get(row.value) for row in rows]
    return (
        column("tokens", (count(row.value) for row in rows), 0),
        column("KV", (mib(row.kv_bytes) for row in rows), 3),
        column("closed form", (mib(row.kv_closed_form_bytes) for row in rows), 7),
        column("workspace", (mib(row.workspace_bytes) for row in rows), 9),
        column("pool", (mib(row.pool_bytes) for row in rows), 8),
        column("driver", (mib(row.driver_bytes) for row in rows), 10),
        column("overhead", (mib(row.total_bytes) for row in rows), 1),
        column("guide", (NA if row is None else count(row.total_mib) for row in guide), 2),
        column("/1,000", (_per(row, 1000) for row in rows), 5),
        column("guide's", (NA if row is None else count(row.per_1000_mib) for row in guide), 6),
        column("/1,024", (_per(row, 1024) for row in rows), 11),
        column("tok/s", (_speed(row) for row in rows), 4),
        *_differences(rows),
    )


def _batch_columns(rows: Sequence[SweepRow]) -> tuple[Column, ...]:
    guide = [BATCH_SIZE_BY_SIZE.get(row.value) if row.strategy == "own" else None for row in rows]
    paged = any(row.pages_in_use is not None for row in rows)
    columns = (
        column("batch", (count(row.value) for row in rows), 0),
        column("KV", (mib(row.kv_bytes) for row in rows), 4),
        # Of pages the closed form says little, and what was added is to be the sum of what stands before it.
        column("closed form", (mib(row.kv_closed_form_bytes) for row in rows), 11 if paged else 7),
        column("pool", (mib(row.pool_bytes) for row in rows), 6),
        column("workspace", (mib(row.workspace_bytes) for row in rows), 10),
        column("driver", (mib(row.driver_bytes) for row in rows), 9),
        column("added", map(mib, added(rows)), 5),
        column("cumulative", (mib(row.total_bytes) for row in rows), 1),
        column("guide", ("" if row is None else count(row.cumulative_mib) for row in guide), 2),
        column("peak", (mib(row.peak_bytes) for row in rows), 11),
        column("tok/s", (_speed(row) for row in rows), 3),
        *_differences(rows),
    )
    if paged:
        pages = column("pages in use", (_pages(row) for row in rows), 8)
        return (*columns, pages)
    return columns


def _differences(rows: Sequence[SweepRow]) -> tuple[Column, ...]:
    """The figures behind the verdicts, where the rows have them (recordings of older versions do not)."""
    if all(row.max_difference is None for row in rows):
        return ()
    return (
        column("off by", (significant(row.max_difference) for row in rows), 12),
        column("eager's own", (significant(row.eager_difference) for row in rows), 12),
    )


def _per(row: SweepRow, tokens: int) -> str:
    share = per(row, tokens)
    return NA if share is None else f"{share / MIB:,.1f}"


def _speed(row: SweepRow) -> Content:
    mark, style = VERDICTS[row.verdict] if row.verdict is not None else ("·", "$muted")
    wrong = row.verdict == "mismatch"
    return Content.assemble((f"{tok_s(row.tok_s)} ", "strike $muted" if wrong else ""), (mark, style))


def _pages(row: SweepRow) -> str:
    if row.pages_in_use is None:
        return ""
    each = f" × {size(row.page_bytes)}" if row.page_bytes is not None else ""
    return f"{count(row.pages_in_use)}{each}"


def _guide_total(row: SweepRow) -> int | None:
    guide = CACHE_LENGTH_BY_TOKENS.get(row.value)
    return guide.total_mib * MIB if guide is not None else None


def _guide_cumulative(row: SweepRow) -> int | None:
    guide = BATCH_SIZE_BY_SIZE.get(row.value) if row.strategy == "own" else None
    return guide.cumulative_mib * MIB if guide is not None else None


def _table(
    view: SweepSlice,
    done: Sequence[SweepRow],
    columns: Sequence[Column],
    width: int,
    top: int,
    figures: Callable[[SweepRow], tuple[int | None, int | None, int | None]],
) -> list[Content]:
    """Heading, then a line for each row in its order; bars where there is room: cache, the rest, the guide's mark."""
    lines = table_lines(columns)
    room = width - table_width(columns) - GAP
    if room >= BAR_MIN:
        bars = [_bar(*figures(row), top, room) for row in done]
        lines[1:] = [Content.assemble(line, " " * GAP, drawn) for line, drawn in zip(lines[1:], bars, strict=True)]
    values = iter(lines[1:])
    first = columns[0].width if columns else 6
    body = [next(values) if row.status == "done" else _failed(row, first) for row in view.rows]
    waiting = [
        Content.styled(f"{count(value).rjust(first)}  {'measuring …' if number == 0 else 'waiting'}", "$muted")
        for number, value in enumerate(view.waiting)
    ]
    return [lines[0], *body, *waiting]


def _failed(row: SweepRow, first: int) -> Content:
    text = [STATUS_WORDS[row.status]]
    if row.needed_bytes is not None:
        text.append(f"needed {size(row.needed_bytes)}")
    if row.free_bytes is not None:
        text.append(f"free {size(row.free_bytes)}")
    words = ", ".join(text) + "".join(f"; {clean(part)}" for part in (row.reason, row.hint) if part)
    style = "$muted" if row.status == "skipped" else "bold $text-error"
    return Content.assemble(f"{count(row.value).rjust(first)}  ", (words, style))


def _bar(cache: int | None, total: int | None, guide: int | None, top: int, width: int) -> Content:
    """`████▒▒ ◇`: the cache's bytes, what stands beside it, and where the guide's figure is on the same scale."""
    full = len(bar(total, top, width))
    part = min(full, len(bar(cache, top, width))) if cache is not None else full
    drawn = "█" * part + REST * (full - part)
    style = look("kv_static").style
    if guide is None or not top:
        return Content.styled(drawn, style)
    at = min(width - 1, round(width * guide / top))
    line = drawn.ljust(at + 1)
    return Content.assemble((line[:at], style), (GUIDE_MARK, "bold $text-secondary"), (line[at + 1 :], style))


def _summary(strategy: str, rows: Sequence[SweepRow]) -> Content:
    done = [row for row in rows if row.status == "done"]
    if not done:
        return Content.assemble((clean(strategy), "$text-accent"), f"  {STATUS_WORDS[rows[-1].status]}")
    largest = max(done, key=lambda row: row.value)
    total = max((row.total_bytes for row in done if row.total_bytes is not None), default=None)
    missed = f", {count(len(rows) - len(done))} not done" if len(done) < len(rows) else ""
    return Content.assemble(
        (clean(strategy), "$text-accent"),
        f"  {size(total)} for {count(len(done))} sizes up to {count(largest.value)}{missed}",
    )
