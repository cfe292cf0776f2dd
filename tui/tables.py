"""Draws a report: for a terminal with Rich, or as Markdown to paste. Columns are dropped, numbers never wrapped."""

from collections.abc import Iterator
from io import StringIO
from typing import TextIO

from rich.cells import cell_len
from rich.console import Console
from rich.padding import Padding
from rich.table import Table as RichTable
from rich.text import Text

from .report.model import Column, Report, Section, Table

PIPE_WIDTH = 140
"""Columns of a report that does not go to a terminal."""
TONE_STYLES = {"normal": "", "good": "green", "bad": "bold red", "quiet": "dim"}
_GAP = 2


def print_report(report: Report, file: TextIO, *, width: int | None = None) -> None:
    """Write a report to `file`: styled and as wide as the terminal if it is one, else plain and `PIPE_WIDTH` wide."""
    if file.isatty():
        _print(report, Console(file=file, width=width, highlight=False))
        return
    buffer = StringIO()
    _print(report, Console(file=buffer, width=width or PIPE_WIDTH, color_system=None, highlight=False))
    file.writelines(line.rstrip() + "\n" for line in buffer.getvalue().splitlines())


def markdown(report: Report) -> str:
    """The whole report in Markdown, tables included; ends with a newline."""
    return "\n".join(_markdown_lines(report)) + "\n"


def fitting(table: Table, width: int) -> tuple[int, ...]:
    """Indices of the columns to show in `width` cells: those of the highest rank go first, rank 0 stays."""
    widths = [
        max(cell_len(text) for text in (column.title, *(row.cells[i] for row in table.rows)))
        for i, column in enumerate(table.columns)
    ]
    shown = list(range(len(table.columns)))
    while sum(_least(table.columns[i], widths[i]) for i in shown) + _GAP * (len(shown) - 1) > width:
        rank = max(table.columns[i].rank for i in shown)
        if rank == 0:
            break
        shown = [i for i in shown if table.columns[i].rank < rank]
    return tuple(shown)


def _least(column: Column, natural: int) -> int:
    """Cells that a column needs at least: numbers all of theirs, text may wrap below 24."""
    return natural if column.right else min(natural, 24)


def _print(report: Report, console: Console) -> None:
    console.print(Text(f"{report.title}  {report.mark}", "bold reverse" if report.recorded else "bold"))
    for section in report.sections:
        _print_section(console, section)


def _print_section(console: Console, section: Section) -> None:
    console.print()
    console.print(Text(section.title, "bold"))
    for line in section.lines:
        console.print(Padding(Text(line, TONE_STYLES[section.tone]), (0, 0, 0, 2)))
    if section.table is not None:
        console.print(_rich_table(section.table, console.width))
    for note in section.notes:
        console.print(Padding(Text(note, "dim"), (0, 0, 0, 2)))


def _rich_table(table: Table, width: int) -> RichTable:
    shown = fitting(table, width)
    drawn = RichTable(box=None, padding=(0, _GAP, 0, 0), pad_edge=False, header_style="underline")
    for i in shown:
        column = table.columns[i]
        drawn.add_column(
            Text(column.title), justify="right" if column.right else "left", no_wrap=column.right, overflow="fold"
        )
    for row in table.rows:
        drawn.add_row(*(Text(row.cells[i], TONE_STYLES[row.tone]) for i in shown))
    return drawn


def _markdown_lines(report: Report) -> Iterator[str]:
    yield f"# {report.title}"
    yield ""
    yield f"**{_escaped(report.mark)}**"
    for section in report.sections:
        yield ""
        yield f"## {_escaped(section.title)}"
        yield ""
        yield from (f"- {_escaped(line.strip())}" for line in section.lines)
        if section.lines and section.table is not None:
            yield ""  # else the table is a part of the last line
        if section.table is not None:
            yield from _markdown_table(section.table)
        if section.table is not None and section.notes:
            yield ""
        yield from (f"- {_escaped(note)}" for note in section.notes)


def _markdown_table(table: Table) -> Iterator[str]:
    yield _markdown_row(column.title for column in table.columns)
    yield "|" + "|".join("---:" if column.right else "---" for column in table.columns) + "|"
    for row in table.rows:
        yield _markdown_row(row.cells)


def _markdown_row(cells: Iterator[str] | tuple[str, ...]) -> str:
    return "| " + " | ".join(_escaped(cell.strip()) for cell in cells) + " |"


def _escaped(text: str) -> str:
    for mark in "\\|*<`[":
        text = text.replace(mark, "\\" + mark)
    return text.replace("\n", " ")
