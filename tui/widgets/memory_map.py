"""The allocator's segments as a map, or as a list where there is no room; one block is picked and told about."""

from collections.abc import Sequence

import msgspec
from textual.content import Content
from textual.events import Click

from ...core.events import Segment
from ...core.memory_map import BUCKET_BY_ID
from ...core.phases import PHASE_BY_ID
from ..format import clean, count, mib, size
from .buckets import BUCKET_ORDER, FREE_GLYPH, look
from .lines import LinesWidget, wrapped
from .map_drawing import CHOSEN, Line, cells_wide, entry_line, first_phase, group_lines, pool_title, stream_title, title
from .map_layout import (
    DEFAULT_POOL,
    FREE,
    ROUNDING,
    Cursor,
    Group,
    MapSlice,
    Order,
    Placed,
    Row,
    chosen,
    is_map,
    list_rows,
    map_groups,
    moved,
)
from .memory_bar import flow

__all__ = ["Cursor", "MapSlice", "MemoryMapView", "block_at", "render_map"]


class MemoryMapView(LinesWidget[MapSlice]):
    """The view of the allocator's map. Its cursor is its own: a new state does not move it."""

    BORDER_TITLE = "Memory map: segments of the caching allocator"

    def draw(self, view: MapSlice, width: int, height: int) -> list[Content]:
        """As `render_map` says."""
        return render_map(view, width, height)

    def show(self, view: MapSlice) -> None:
        """Draw this slice with the cursor as it is."""
        super().show(msgspec.structs.replace(view, cursor=self.view.cursor))
        title = map_title(view)
        if title != self.border_title:
            self.border_title = title

    @property
    def order(self) -> Order:
        """How segments are sorted."""
        return self.view.cursor.order

    def move(self, dx: int, dy: int) -> None:
        """Pick the block `dx` blocks and `dy` rows further."""
        self._point(moved(self._rows(), self.view.cursor, dx, dy))

    def select(self, index: int) -> None:
        """Pick a block by its number in the present order, from 0; the last one where there are fewer."""
        blocks = [placed for row in self._rows() for placed in row.blocks]
        if blocks:
            address = blocks[max(0, min(index, len(blocks) - 1))].address
            self._point(msgspec.structs.replace(self.view.cursor, address=address))

    def toggle_order(self) -> None:
        """Largest first, or by address; the block stays picked."""
        order: Order = "address" if self.order == "size" else "size"
        self._point(msgspec.structs.replace(self.view.cursor, order=order))

    def on_click(self, event: Click) -> None:
        """A click picks the block under it."""
        place = event.get_content_offset(self)
        if place is None:
            return
        address = block_at(self.view, *self.size, place.x, place.y)
        if address is not None:
            self._point(msgspec.structs.replace(self.view.cursor, address=address))

    def _rows(self) -> tuple[Row, ...]:
        return _arranged(self.view, *self.size)[1]

    def _point(self, cursor: Cursor) -> None:
        super().show(msgspec.structs.replace(self.view, cursor=cursor))


def map_title(view: MapSlice) -> str:
    """The panel's title, with the phase at whose end the map was taken: other views have moved on since."""
    phase = view.segments.phase if view.segments is not None and view.segments.segments else None
    return MemoryMapView.BORDER_TITLE + (f" at the end of {PHASE_BY_ID[phase].short}" if phase is not None else "")


def render_map(view: MapSlice, width: int, height: int) -> list[Content]:
    """Totals and legend, the map or list around the picked block, and what that block is."""
    if width < 1 or height < 1:
        return []
    segments = view.segments.segments if view.segments is not None else ()
    if not segments:
        return wrapped([Content.styled(_why_none(view), "$muted")], width, height)
    above, body, below = _parts(view, segments, width, height)
    return [*above, *(line.content for line in body), *below][:height]


def block_at(view: MapSlice, width: int, height: int, x: int, y: int) -> int | None:
    """Address of the block drawn at a cell, or null."""
    segments = view.segments.segments if view.segments is not None else ()
    if not segments or width < 1 or height < 1:
        return None
    above, body, _ = _parts(view, segments, width, height)
    if not len(above) <= y < len(above) + len(body):
        return None
    placed = body[y - len(above)].block_under(x)
    return placed.address if placed is not None else None


def _why_none(view: MapSlice) -> str:
    if view.on_cpu:
        return "n/a: the CPU has no caching allocator whose segments could be shown"
    if view.recorded:
        return "no map up to here in this recording: one is taken at the end of each phase"
    return "no map yet: it is taken at the end of each phase"


def _parts(
    view: MapSlice, segments: Sequence[Segment], width: int, height: int
) -> tuple[list[Content], list[Line], list[Content]]:
    """Lines above the body, the body, and lines below it: no more than there is room for."""
    above = _above(segments, width, height)
    room = _room(above, height)
    groups, rows = _arranged(view, width, height)
    at = chosen(rows, view.cursor)
    picked = at[1] if at is not None else None
    if groups:
        reserved = sum(segment.size for segment in segments)
        lines = [line for group in groups for line in group_lines(view, group, picked, reserved, width)]
    else:
        lines = [entry_line(view, row, picked, width) for row in rows]
    body = _window(lines, picked, room)
    below = wrapped(_details(view, picked), width, height - len(above) - len(body)) if picked is not None else []
    return above, body, below


def _above(segments: Sequence[Segment], width: int, height: int) -> list[Content]:
    legend = flow(_legend(segments), width)[: max(0, min(3, height // 8 - 1))]
    return [_headline(segments, width), *legend]


def _room(above: Sequence[Content], height: int) -> int:
    """Lines of the body: what totals, legend and the words about the picked block leave."""
    words = 4 if height >= 12 else 3 if height >= 8 else min(2, max(0, height - 3))
    return max(1, height - len(above) - words)


def _arranged(view: MapSlice, width: int, height: int) -> tuple[tuple[Group, ...], tuple[Row, ...]]:
    """Groups of the map (none for a list) and all rows, in their order."""
    segments = view.segments.segments if view.segments is not None else ()
    if not is_map(width, height):
        return (), list_rows(segments, view.cursor.order)
    room = _room(_above(segments, width, height), height)
    groups = map_groups(segments, view.cursor.order, room, cells_wide(width))
    return groups, tuple(row for group in groups for row in group.rows)


def _window(lines: list[Line], picked: Placed | None, room: int) -> list[Line]:
    """As many lines as there is room for, around the picked block, and how many are above and below."""
    if len(lines) <= room:
        return lines
    shown = max(1, room - 1)
    at = next((i for i, line in enumerate(lines) if line.row is not None and line.row.has(picked)), 0)
    first = max(0, min(at - shown // 2, len(lines) - shown))
    after = len(lines) - first - shown
    more = Content.styled(f"↑ {first} lines above  ↓ {after} below", "$muted")
    return [*lines[first : first + shown], *([Line(more)] if room > 1 else [])]


def _details(view: MapSlice, picked: Placed) -> list[Content]:
    """What the picked block is, its size, where it is, and what its bucket means."""
    block, segment = picked.block, picked.segment
    where = (
        f"at {picked.address:#x}, {size(block.offset)} into a segment of {size(segment.size)}; "
        f"{pool_title(segment.pool)}, {stream_title(segment.stream)}"
    )
    if picked.bucket == FREE:
        kept = "kept for the replays of its graph" if segment.pool != DEFAULT_POOL else "kept for the next tensor"
        name = Content.assemble((f"{CHOSEN} ", "bold $text-accent"), (f"free {size(block.size)}", "bold"), f", {kept}.")
        return [name, Content.styled(f"{where}.", "$muted")]
    waste = block.size - block.requested
    label = f"{clean(block.name)}, " if block.name else ""
    return [
        Content.assemble(
            (f"{CHOSEN} ", "bold $text-accent"),
            (look(picked.bucket).letter, look(picked.bucket).block),
            (f" {label}{size(block.size)}", "bold"),
            f" · {title(picked.bucket)} · first seen after {first_phase(view, picked)}",
        ),
        Content(
            f"requested {count(block.requested)} B, block {count(block.size)} B, rounding {count(waste)} B; {where}."
        ),
        Content.styled(f"{title(picked.bucket)}: {BUCKET_BY_ID[picked.bucket].what}.", "$muted")
        if picked.bucket in BUCKET_BY_ID
        else Content(""),
    ]


# -------------------------------------------------------------------------------------------- totals and legend


def _headline(segments: Sequence[Segment], width: int) -> Content:
    reserved = sum(segment.size for segment in segments)
    private = sum(segment.size for segment in segments if segment.pool != DEFAULT_POOL)
    blocks = sum(block.bucket is not None for segment in segments for block in segment.blocks)
    figures = [
        f" in {count(len(segments))} {'segment' if len(segments) == 1 else 'segments'}",
        f", {count(blocks)} {'block' if blocks == 1 else 'blocks'} in use",
    ]
    figures.append(f", {size(private)} of it in private pools" if private else ", no private pool")
    text, room = "", width - len(size(reserved)) - len(" reserved")
    for figure in figures:
        if len(text) + len(figure) > room:
            break
        text += figure
    return Content.assemble((size(reserved), "bold"), " reserved", text)


def _legend(segments: Sequence[Segment]) -> list[Content]:
    sums: dict[str, int] = {}
    for segment in segments:
        for block in segment.blocks:
            bucket = block.bucket or FREE
            asked = min(block.requested, block.size) if block.bucket is not None else block.size
            sums[bucket] = sums.get(bucket, 0) + asked
            if block.size > asked:
                sums[ROUNDING] = sums.get(ROUNDING, 0) + block.size - asked
    shown = sorted((name for name in sums if name != FREE and sums[name]), key=lambda name: BUCKET_ORDER.get(name, 99))
    entries = [
        Content.assemble((look(name).letter, look(name).block), f" {title(name)} ", (mib(sums[name]), "bold"))
        for name in shown
    ]
    free = Content.styled(f"{FREE_GLYPH} free in segments {mib(sums.get(FREE, 0))} MiB", "$muted")
    return [*entries, free]
