"""The phase table: what each phase did to each counter, as the guide's table and beyond it."""

from collections.abc import Callable

import msgspec
from textual.content import Content

from ...core.events import CounterName, PhaseEnd
from ...core.phases import PHASE_BY_ID
from ...core.state import PhaseState
from ..format import clean, count, delta_mib, duration, mib
from .lines import LinesWidget
from .phase_list import GLYPHS, STYLES, PhasesView, counter_delta, row_figure, shown_row


class Column(msgspec.Struct, frozen=True):
    """A column; the lowest `rank` stays longest as the table gets narrower."""

    title: str
    width: int
    rank: int
    cell: Callable[[PhaseEnd], str]


def _delta(counter: CounterName) -> Callable[[PhaseEnd], str]:
    return lambda end: delta_mib(counter_delta(end, counter))


COLUMNS: tuple[Column, ...] = (
    Column("allocated", 9, 2, lambda end: mib(end.after.allocated)),
    Column("Δ alloc.", 9, 0, _delta("allocated")),
    Column("Δ req.", 9, 4, _delta("requested")),
    Column("Δ res.", 9, 3, _delta("reserved")),
    Column("Δ driver", 9, 1, _delta("driver")),
    Column("peak", 9, 7, lambda end: mib(end.peak_allocated)),
    Column("allocs", 7, 5, lambda end: count(end.allocations)),
    Column("time", 8, 6, lambda end: duration(end.seconds)),
)
NAME_WIDTH = 14
GAP = 1
PROGRESS_CELLS = 24


class PhaseTable(LinesWidget[PhasesView]):
    """The phase table panel."""

    BORDER_TITLE = "Phase by phase (MiB)"

    def draw(self, view: PhasesView, width: int, height: int) -> list[Content]:
        """As `render_table` says."""
        return render_table(view, width, height)


def columns_for(width: int) -> tuple[Column, ...]:
    """Those columns that fit beside the name, in their order."""
    room = width - NAME_WIDTH
    chosen: set[str] = set()
    for column in sorted(COLUMNS, key=lambda column: column.rank):
        if column.width + GAP > room:
            break
        room -= column.width + GAP
        chosen.add(column.title)
    return tuple(column for column in COLUMNS if column.title in chosen)


def render_table(view: PhasesView, width: int, height: int) -> list[Content]:
    """A heading and as many rows as fit, around the phase that matters now."""
    columns = columns_for(width)
    heading = "phase".ljust(NAME_WIDTH) + "".join(" " * GAP + column.title.rjust(column.width) for column in columns)
    rows = visible_rows(view, height - 1)
    current = shown_row(view).id
    return [
        Content.styled(heading, "$muted"),
        *(_table_row(row, columns, view.t, current=row.id == current) for row in rows),
    ][: max(0, height)]


def visible_rows(view: PhasesView, room: int) -> tuple[PhaseState, ...]:
    """A window of `room` rows that ends with the phase after the current one."""
    if room >= len(view.phases):
        return view.phases
    current = view.phases.index(shown_row(view))
    last = min(len(view.phases), max(room, current + (2 if room > 2 else 1)))
    return view.phases[max(0, last - room) : last]


def _progress(row: PhaseState) -> Content:
    """A bar where it is known how much there is to do, and what is being done."""
    progress = row.progress
    if progress is None:
        return Content("")
    what = f"  {clean(progress.what)}" if progress.what else ""
    if not progress.total:
        return Content.styled(what, "$muted")
    done = min(PROGRESS_CELLS, PROGRESS_CELLS * progress.done // progress.total)
    return Content.assemble(
        "  ", ("━" * done, "$text-accent"), ("─" * (PROGRESS_CELLS - done), "$muted"), (what, "$muted")
    )


def _table_row(row: PhaseState, columns: tuple[Column, ...], t: float | None, *, current: bool) -> Content:
    short = PHASE_BY_ID[row.id].short
    name = (f"{GLYPHS[row.status]} {short}".ljust(NAME_WIDTH), STYLES[row.status])
    end = row.end
    if end is None or row.status in ("unavailable", "failed"):
        note = end.reason if end is not None and end.reason else row_figure(row, t) if row.status != "pending" else ""
        if row.status == "running":
            return Content.assemble(name, (f" running {note}", STYLES[row.status]), _progress(row))
        return Content.assemble(name, (f" {note}", STYLES[row.status]))
    cells = [" " * GAP + column.cell(end).rjust(column.width) for column in columns]
    body: list[tuple[str, str]] = []
    for column, cell in zip(columns, cells, strict=True):
        changed = "Δ" in column.title
        muted = cell.strip() in ("0.0", "n/a")
        body.append((cell, "$muted" if muted else "bold" if changed else ""))
    line = Content.assemble(name, *body)
    return line.stylize_before("$text-accent") if current else line
