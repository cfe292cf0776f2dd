"""What a report is made of: sections of lines and tables, in plain strings.

Nothing here knows how it is drawn.
"""

from collections.abc import Iterable
from typing import Literal

import msgspec

from ..format import clean

Tone = Literal["normal", "good", "bad", "quiet"]


class Column(msgspec.Struct, frozen=True):
    """A column. `rank` 0 always stays; where a terminal is too narrow, the highest ranks go first."""

    title: str
    right: bool = False
    rank: int = 0


class Row(msgspec.Struct, frozen=True):
    """A row, one cell for each column. `quiet` is for what matters less, `good` and `bad` for a result."""

    cells: tuple[str, ...]
    tone: Tone = "normal"


class Table(msgspec.Struct, frozen=True):
    """Columns and rows of equal length."""

    columns: tuple[Column, ...]
    rows: tuple[Row, ...]


class Section(msgspec.Struct, frozen=True, kw_only=True):
    """A titled part of a report: lines, then a table, then notes under it. Empty ones are left out."""

    title: str
    lines: tuple[str, ...] = ()
    table: Table | None = None
    notes: tuple[str, ...] = ()
    tone: Tone = "normal"
    """Of `lines`."""


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """A whole report. `mark` says whether the figures are live or recorded, and of which machine."""

    title: str
    mark: str
    recorded: bool
    sections: tuple[Section, ...]


def row(*cells: str, tone: Tone = "normal") -> Row:
    """A row of cells."""
    return Row(cells, tone)


def safe_report(*, title: str, mark: str, recorded: bool = False, sections: Iterable[Section]) -> Report:
    """A report in which no string, wherever it came from, can act on a terminal."""
    return Report(
        title=title, mark=clean(mark), recorded=recorded, sections=tuple(_safe_section(section) for section in sections)
    )


def _safe_section(section: Section) -> Section:
    table = section.table
    if table is not None:
        table = Table(table.columns, tuple(Row(_safe(row.cells), row.tone) for row in table.rows))
    return msgspec.structs.replace(section, lines=_safe(section.lines), notes=_safe(section.notes), table=table)


def _safe(texts: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(clean(text) for text in texts)
