"""Which segments and blocks of the allocator's map stand where: rows for a map, or entries for a list.

Rows hold blocks in the order in which a cursor walks over them. A segment has rows of its own as long as there is room;
else runs of like segments (same size, same buckets in the same order) share one.
"""

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Literal

import msgspec

from ...core.events import Block, PhaseId, Segment, Segments
from ...core.state import RunState

Order = Literal["size", "address"]
DEFAULT_POOL = "default"
FREE = "free"
ROUNDING = "rounding"
MAP_WIDTH, MAP_HEIGHT = 60, 12
"""From this size on there is a map; below, a list."""
LABEL_WIDTH = 18
SHARE_WIDTH = 6
LINES_OF_A_ROW = 4


class Cursor(msgspec.Struct, frozen=True, kw_only=True):
    """What a person chose: the order, and the address of a block (null: the first)."""

    order: Order = "size"
    address: int | None = None


class MapSlice(msgspec.Struct, frozen=True, kw_only=True):
    """What the memory map shows. `letters`: fill cells with letters, for screens without colour."""

    segments: Segments | None = None
    block_phases: dict[int, PhaseId] = {}
    cursor: Cursor = Cursor()
    letters: bool = False
    on_cpu: bool = False
    recorded: bool = False

    @classmethod
    def of(cls, state: RunState, *, letters: bool = False, recorded: bool = False) -> "MapSlice":
        """The slice of a run."""
        return cls(
            segments=state.segments,
            block_phases=state.block_phases,
            letters=letters,
            on_cpu=state.hello is not None and state.hello.device.kind == "cpu",
            recorded=recorded,
        )


class Placed(msgspec.Struct, frozen=True):
    """A block in its segment."""

    segment: Segment
    block: Block

    @property
    def address(self) -> int:
        """Where it begins."""
        return self.segment.address + self.block.offset

    @property
    def bucket(self) -> str:
        """Its bucket, or `FREE`."""
        return self.block.bucket if self.block.bucket is not None else FREE


class Piece(msgspec.Struct, frozen=True):
    """A stretch of a row, in bytes from the row's begin: what a block asked for, or its rounding."""

    start: int
    end: int
    bucket: str
    placed: Placed


class Row(msgspec.Struct, frozen=True):
    """One run of like segments, or one entry of like blocks. `lines`: how many lines it takes."""

    segments: tuple[Segment, ...]
    blocks: tuple[Placed, ...]
    lines: int = 1

    @property
    def size(self) -> int:
        """Bytes of all its segments."""
        return sum(segment.size for segment in self.segments)

    def has(self, placed: Placed | None) -> bool:
        """Whether a block is one of this row's."""
        return placed is not None and any(block.address == placed.address for block in self.blocks)

    def pieces(self) -> list[Piece]:
        """Its blocks end to end, each split into what was requested and what is rounding."""
        found: list[Piece] = []
        base: dict[int, int] = {}
        at = 0
        for segment in self.segments:
            base[segment.address] = at
            at += segment.size
        for placed in self.blocks:
            start = base[placed.segment.address] + placed.block.offset
            end = start + placed.block.size
            if placed.bucket == FREE:
                found.append(Piece(start, end, FREE, placed))
                continue
            asked = start + min(placed.block.requested, placed.block.size)
            found.append(Piece(start, asked, placed.bucket, placed))
            if asked < end:
                found.append(Piece(asked, end, ROUNDING, placed))
        return found


class Group(msgspec.Struct, frozen=True):
    """The rows of one pool on one stream."""

    pool: str
    stream: int
    rows: tuple[Row, ...]

    @property
    def segments(self) -> tuple[Segment, ...]:
        """Every segment of the group."""
        return tuple(segment for row in self.rows for segment in row.segments)


def is_map(width: int, height: int) -> bool:
    """Whether there is room for a map."""
    return width >= MAP_WIDTH and height >= MAP_HEIGHT


def map_groups(segments: Sequence[Segment], order: Order, room: int, width: int) -> tuple[Group, ...]:
    """The map's rows, default pool first, for `room` lines with a heading a group.

    Each segment has a row if all fit; else like neighbours share one, even if that is still more than fit.
    """
    placed = sorted(segments, key=lambda segment: _place(segment, order))
    grouped = [
        (key, tuple(members)) for key, members in groupby(placed, key=lambda segment: (segment.pool, segment.stream))
    ]
    together = len(segments) + len(grouped) > room
    groups = []
    for (pool, stream), members in grouped:
        runs = _runs(members) if together else [(segment,) for segment in members]
        groups.append(Group(pool, stream, tuple(Row(run, _blocks(run)) for run in runs)))
    return _spread_out(groups, room, width)


def _spread_out(groups: Sequence[Group], room: int, width: int) -> tuple[Group, ...]:
    """Rows of many blocks take the lines that are left."""
    spare = room - sum(1 + len(group.rows) for group in groups)
    found = []
    for group in groups:
        rows = []
        for row in group.rows:
            lines = min(_wanted_lines(row, width), 1 + max(0, spare))
            spare -= lines - 1
            rows.append(msgspec.structs.replace(row, lines=lines))
        found.append(msgspec.structs.replace(group, rows=tuple(rows)))
    return tuple(found)


def _place(segment: Segment, order: Order) -> tuple[object, ...]:
    pool = (segment.pool != DEFAULT_POOL, segment.pool, segment.stream)
    if order == "address":
        return (*pool, segment.address)
    return (*pool, -segment.size, _kinds(segment), segment.address)


def _kinds(segment: Segment) -> tuple[str, ...]:
    """Buckets in their order, neighbours of the same bucket once."""
    return tuple(bucket for bucket, _ in groupby(block.bucket or FREE for block in segment.blocks))


def _runs(segments: Sequence[Segment]) -> list[tuple[Segment, ...]]:
    return [tuple(run) for _, run in groupby(segments, key=lambda segment: (segment.size, _kinds(segment)))]


def _blocks(segments: Iterable[Segment]) -> tuple[Placed, ...]:
    return tuple(Placed(segment, block) for segment in segments for block in segment.blocks)


def _wanted_lines(row: Row, width: int) -> int:
    return max(1, min(LINES_OF_A_ROW, -(-3 * len(row.blocks) // max(1, width))))


def list_rows(segments: Sequence[Segment], order: Order) -> tuple[Row, ...]:
    """Entries of like blocks (same pool, bucket and size): largest first, or by their lowest address."""
    entries: dict[tuple[str, str, int], list[Placed]] = {}
    for placed in sorted(_blocks(segments), key=lambda placed: placed.address):
        entries.setdefault((placed.segment.pool, placed.bucket, placed.block.size), []).append(placed)
    rows = [Row((), tuple(blocks)) for blocks in entries.values()]
    if order == "size":
        rows.sort(key=lambda row: -row.blocks[0].block.size)
    return tuple(rows)


def chosen(rows: Sequence[Row], cursor: Cursor) -> tuple[int, Placed] | None:
    """The row and the block that the cursor points at: the first where its block is gone; null without blocks."""
    for index, row in enumerate(rows):
        for placed in row.blocks:
            if placed.address == cursor.address:
                return index, placed
    return next(((index, row.blocks[0]) for index, row in enumerate(rows) if row.blocks), None)


def moved(rows: Sequence[Row], cursor: Cursor, dx: int, dy: int) -> Cursor:
    """The cursor `dx` blocks further, then `dy` rows further at about the same place. It stops at the ends."""
    at = chosen(rows, cursor)
    if at is None:
        return cursor
    index, placed = at
    row = rows[index]
    if dx:
        flat = [other for each in rows for other in each.blocks]
        place = next(i for i, other in enumerate(flat) if other is placed) + dx
        placed = flat[max(0, min(len(flat) - 1, place))]
        index = next(i for i, each in enumerate(rows) if any(other is placed for other in each.blocks))
        row = rows[index]
    if dy:
        share = next(i for i, other in enumerate(row.blocks) if other is placed) / len(row.blocks)
        row = rows[max(0, min(len(rows) - 1, index + dy))]
        if row is not rows[index]:
            placed = row.blocks[int(share * len(row.blocks))]
    return msgspec.structs.replace(cursor, address=placed.address)


def cells(pieces: Sequence[Piece], count: int) -> list[Piece]:
    """For each of `count` cells of equal bytes the piece that has most of it."""
    if not pieces or count < 1:
        return []
    total = pieces[-1].end
    found: list[Piece] = []
    first = 0
    for cell in range(count):
        low, high = cell * total // count, max(cell * total // count + 1, (cell + 1) * total // count)
        while first < len(pieces) - 1 and pieces[first].end <= low:
            first += 1
        best, most = pieces[first], 0
        for piece in pieces[first:]:
            if piece.start >= high:
                break
            share = min(piece.end, high) - max(piece.start, low)
            if share > most:
                best, most = piece, share
        found.append(best)
    return found
