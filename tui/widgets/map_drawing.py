"""The lines of the memory map: rows of cells for segments, or entries of a list for blocks."""

from collections.abc import Iterable, Sequence
from itertools import groupby

import msgspec
from textual.content import Content

from ...core.memory_map import BUCKET_BY_ID
from ...core.phases import PHASE_BY_ID
from ...core.plurals import counted
from ..format import NA, clean, count, percent, size
from .buckets import FREE_GLYPH, look
from .map_layout import (
    DEFAULT_POOL,
    FREE,
    LABEL_WIDTH,
    SHARE_WIDTH,
    Group,
    MapSlice,
    Piece,
    Placed,
    Row,
    cells,
)

CHOSEN = "◆"
PICKED = "━"
"""A further cell of the picked block."""


class Line(msgspec.Struct, frozen=True):
    """A line of the body: its text, its row, and the block under each cell from `left` on."""

    content: Content
    row: Row | None = None
    left: int = 0
    blocks: tuple[Placed, ...] = ()

    def block_under(self, x: int) -> Placed | None:
        """The block at a column: beside the cells the row's first."""
        if self.row is None:
            return None
        if self.left <= x < self.left + len(self.blocks):
            return self.blocks[x - self.left]
        return self.row.blocks[0]


def cells_wide(width: int) -> int:
    """Cells of a row of the map."""
    return max(1, width - LABEL_WIDTH - SHARE_WIDTH)


def title(bucket: str) -> str:
    """A bucket's title."""
    return BUCKET_BY_ID[bucket].title if bucket in BUCKET_BY_ID else clean(bucket)


def pool_title(pool: str) -> str:
    """`default pool`, `private pool 0.1`."""
    return "default pool" if pool == DEFAULT_POOL else f"private pool {clean(pool)}"


def stream_title(stream: int) -> str:
    """`default stream`, `stream 0x55d0`."""
    return f"stream {stream:#x}" if stream else "default stream"


def first_phase(view: MapSlice, placed: Placed) -> str:
    """Short name of the phase in which a block first appeared."""
    phase = view.block_phases.get(placed.address)
    return PHASE_BY_ID[phase].short if phase is not None else NA


def group_lines(view: MapSlice, group: Group, picked: Placed | None, reserved: int, width: int) -> list[Line]:
    """A heading and the rows of one pool on one stream. `reserved`: bytes of all segments, for the shares."""
    members = group.segments
    total = sum(segment.size for segment in members)
    idle = sum(block.size for segment in members for block in segment.blocks if block.bucket is None)
    number = counted(len(members), "segment")
    facts = [stream_title(group.stream), number, size(total), f"{size(idle)} of it free"]
    head = Content.styled(pool_title(group.pool), "bold $text-accent")
    for fact in facts:
        if head.cell_length + 3 + len(fact) <= width:
            head = Content.assemble(head, (f" · {fact}", "$muted"))
    return [Line(head), *(line for row in group.rows for line in _row_lines(view, row, picked, reserved, width))]


def _row_lines(view: MapSlice, row: Row, picked: Placed | None, reserved: int, width: int) -> list[Line]:
    wide = cells_wide(width)
    pieces = row.pieces()
    drawn = cells(pieces, wide * row.lines)
    texts = _texts(drawn, _picked_cells(pieces, picked, wide * row.lines), letters=view.letters)
    times = f"{len(row.segments)}×" if len(row.segments) > 1 else ""
    here = row.has(picked)
    labels = [f"{times.rjust(5)} {size(row.segments[0].size).rjust(LABEL_WIDTH - 8)} "]
    shares = [percent(row.size, reserved)]
    lines = []
    for number in range(row.lines):
        part = slice(number * wide, (number + 1) * wide)
        label, share = ("", "") if number else (labels[0], shares[0])
        lines.append(
            Line(
                Content.assemble(
                    (CHOSEN if here and not number else " ", "bold $text-accent"),
                    (label.ljust(LABEL_WIDTH - 1), "bold" if here else ""),
                    *_merged(texts[part]),
                    (share.rjust(SHARE_WIDTH), "$muted"),
                ),
                row,
                LABEL_WIDTH,
                tuple(piece.placed for piece in drawn[part]),
            )
        )
    return lines


def _picked_cells(pieces: Sequence[Piece], picked: Placed | None, number: int) -> range:
    """The cells that the picked block touches, at least one."""
    mine = [piece for piece in pieces if picked is not None and piece.placed.address == picked.address]
    if not mine:
        return range(0)
    total = pieces[-1].end
    first = mine[0].start * number // total
    return range(first, max(first + 1, -(-mine[-1].end * number // total)))


def _texts(drawn: Sequence[Piece], picked: range, *, letters: bool) -> list[tuple[str, str]]:
    """Text and style of each cell. A block begins with its bucket's letter, so borders show without colour."""
    texts: list[tuple[str, str]] = []
    before: tuple[int, str] | None = None
    for number, piece in enumerate(drawn):
        key = (piece.placed.address, piece.bucket)
        if piece.bucket == FREE:
            text, style = FREE_GLYPH, "$muted"
        else:
            letter = look(piece.bucket).letter
            text = letter if key != before else letter.lower() if letters else " "
            style = "" if letters else look(piece.bucket).block
        if number in picked:
            text, style = (CHOSEN if number == picked.start else PICKED), f"bold {style}"
        texts.append((text, style))
        before = key
    return texts


def _merged(texts: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Neighbours of one style as one text: fewer bytes to the terminal."""
    return [("".join(text for text, _ in run), style) for style, run in groupby(texts, key=lambda text: text[1])]


def entry_line(view: MapSlice, row: Row, picked: Placed | None, width: int) -> Line:
    """One entry of the list: `◆W  108 × 48.0 MiB  weights  load`."""
    placed = row.blocks[0]
    here = row.has(picked)
    bucket = placed.bucket
    chip = (FREE_GLYPH, "$muted") if bucket == FREE else (look(bucket).letter, look(bucket).block)
    times = f"{count(len(row.blocks))} × " if len(row.blocks) > 1 else ""
    content = Content.assemble(
        (CHOSEN if here else " ", "bold $text-accent"),
        chip,
        (f"{times}{size(placed.block.size)}".rjust(18), "bold"),
        f"  {'free' if bucket == FREE else title(bucket)}",
    )
    facts = [] if placed.segment.pool == DEFAULT_POOL else [f"pool {clean(placed.segment.pool)}"]
    phases = {first_phase(view, each) for each in row.blocks} - {NA}
    if phases:
        facts.append(phases.pop() if len(phases) == 1 else "several phases")
    if times:
        facts.append(f"{size(sum(each.block.size for each in row.blocks))} in all")
    for fact in facts:
        if content.cell_length + 2 + len(fact) <= width:
            content = Content.assemble(content, (f"  {fact}", "$muted"))
    return Line(content, row)
