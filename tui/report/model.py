"""What a report is made of: sections of lines and tables, in plain strings.

Nothing here knows how it is drawn. Every string is free of control characters (`format.clean`), so that a model's or
a device's name cannot steer a terminal.
"""

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
    """A row of cells that cannot carry control characters."""
    return Row(tuple(clean(cell) for cell in cells), tone)
