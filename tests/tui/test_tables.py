"""How a report is drawn: nothing is cut, numbers never wrap, pipes get plain text."""

import io
import re

import pytest

from cgtop.core.phases import PHASE_BY_ID, PHASE_IDS
from cgtop.tui.report import Column, Origin, Report, Row, Section, Table, report
from cgtop.tui.tables import PIPE_WIDTH, fitting, markdown, print_report
from tests.sample import sample_run
from tests.tui.test_report import state_of


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def drawn(width: int | None = None, *, recorded: bool = False) -> str:
    file = io.StringIO()
    print_report(report(state_of(sample_run()), Origin(recorded=recorded)), file, width=width)
    return file.getvalue()


def test_a_pipe_gets_no_escape_and_a_fixed_width() -> None:
    text = drawn()
    assert "\x1b" not in text
    assert max(len(line) for line in text.splitlines()) <= PIPE_WIDTH
    assert not any(line.endswith(" ") for line in text.splitlines())


def test_a_terminal_gets_styles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    terminal = Terminal()
    print_report(report(state_of(sample_run())), terminal, width=100)
    assert "\x1b[" in terminal.getvalue()


@pytest.mark.parametrize("width", [40, 60, 80, 120, 200])
def test_every_phase_and_its_allocated_delta_fit_any_width(width: int) -> None:
    lines = drawn(width).splitlines()
    assert max(len(line) for line in lines) <= width
    start = lines.index("Phase by phase (MiB)")
    rows = lines[start + 2 : start + 2 + len(PHASE_IDS)]
    for phase, line in zip(PHASE_IDS, rows, strict=True):
        assert line.startswith(PHASE_BY_ID[phase].short)
    assert "+7,726.0" in rows[1]


def test_a_wide_terminal_shows_every_column() -> None:
    lines = drawn(PIPE_WIDTH).splitlines()
    head = lines[lines.index("Phase by phase (MiB)") + 1]
    for title in ("requested", "allocated", "reserved", "driver", "peak", "allocs", "time"):
        assert title in head
    assert head.count("Δ") == 4


def test_columns_go_by_rank_and_the_essential_ones_stay() -> None:
    table = Table(
        (Column("a"), Column("b", right=True, rank=2), Column("c", right=True, rank=1)), (Row(("x" * 5,) * 3),)
    )
    assert fitting(table, 19) == (0, 1, 2)
    assert fitting(table, 18) == (0, 2)
    assert fitting(table, 3) == (0,)


def test_markdown_has_a_table_of_all_phases() -> None:
    text = markdown(report(state_of(sample_run())))
    rows = [line for line in text.splitlines() if line.startswith("|")]
    head = rows[0]
    assert head.startswith("| phase | state | requested | Δ req. | allocated | Δ alloc. |")
    assert rows[1] == "|" + "---|" * 2 + "---:|" * 11
    for phase, row in zip(PHASE_IDS, rows[2:], strict=False):
        assert row.startswith(f"| {PHASE_BY_ID[phase].short} | done |")
        assert row.count("|") == head.count("|")


def test_a_table_is_set_apart_from_the_list_before_it() -> None:
    """Without a blank line CommonMark takes the table for a part of the last item."""
    table = Table((Column("a"), Column("b")), (Row(("1", "2")),))
    section = Section(title="s", lines=("first", "last"), table=table)
    text = markdown(Report(title="t", mark="m", recorded=False, sections=(section,)))
    assert "- last\n\n| a | b |\n|---|" in text


def test_markdown_cells_cannot_break_the_table() -> None:
    table = Table((Column("a"),), (Row(("x|y *z* `q` <b>",)),))
    text = markdown(Report(title="t", mark="m", recorded=False, sections=(Section(title="s", table=table),)))
    row = text.splitlines()[-1]
    assert len(re.findall(r"(?<!\\)\|", row)) == 2
    assert "\\<b>" in row


def test_recorded_is_marked_in_every_form() -> None:
    assert "RECORDED" in drawn(recorded=True).splitlines()[0]
    assert "**RECORDED" in markdown(report(state_of(sample_run()), Origin(recorded=True)))
