"""Tables as lines of text: columns as wide as their cells, the least important ones left out where there is no room."""

from collections.abc import Iterable, Sequence

import msgspec
from textual.content import Content

from ..format import NA

GAP = 2


class Column(msgspec.Struct, frozen=True):
    """A column with its cells; the lowest `rank` stays longest as the table gets narrower."""

    title: str
    cells: tuple[Content, ...]
    rank: int
    left: bool = False
    least: int = 0
    """Cells that it takes at least."""

    @property
    def width(self) -> int:
        """Cells of the terminal that it takes."""
        return max([self.least, len(self.title), *(cell.cell_length for cell in self.cells)])


def column(title: str, cells: Iterable[str | Content], rank: int, *, left: bool = False) -> Column:
    """A column of texts; those that say "n/a" or nothing are muted."""
    made = (_cell(cell) if isinstance(cell, str) else cell for cell in cells)
    return Column(title, tuple(made), rank, left)


def _cell(text: str) -> Content:
    return Content.styled(text, "$muted") if text in (NA, "") else Content(text)


def fitting(columns: Sequence[Column], width: int) -> tuple[Column, ...]:
    """Those columns that fit side by side, in their order. One is always there."""
    room = width + GAP
    chosen: list[Column] = []
    for candidate in sorted(columns, key=lambda column: column.rank):
        room -= candidate.width + GAP
        if room < 0 and chosen:
            break
        chosen.append(candidate)
    return tuple(column for column in columns if column in chosen)


def table_width(columns: Sequence[Column]) -> int:
    """Width of these columns side by side."""
    return sum(column.width + GAP for column in columns) - GAP if columns else 0


def table_lines(columns: Sequence[Column]) -> list[Content]:
    """A muted heading and the rows; all columns have the same number of cells."""
    heading = (" " * GAP).join(_aligned(Content(column.title), column).plain for column in columns)
    rows = zip(*([_aligned(cell, column) for cell in column.cells] for column in columns), strict=True)
    return [Content.styled(heading, "$muted"), *(Content(" " * GAP).join(row) for row in rows)]


def _aligned(cell: Content, column: Column) -> Content:
    pad = " " * (column.width - cell.cell_length)
    return Content.assemble(cell, pad) if column.left else Content.assemble(pad, cell)


def bar(part: float | None, whole: float | None, width: int) -> str:
    """A bar of at most `width` cells; something above 0 has at least one, what is unknown none."""
    if not part or not whole or part <= 0 or width < 1:
        return ""
    return "█" * max(1, min(width, round(width * part / whole)))


def paragraph(label: str, text: str | Content, style: str = "bold") -> Content:
    """A paragraph that begins with a label."""
    return Content.assemble((f"{label}: ", style), text)
