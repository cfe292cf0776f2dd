"""The section of `cgtop check`: one verdict a line, and what they come to."""

from ...core.checklist import passed
from ...core.state import RunState
from ..check_words import in_order, nothing_checked, reasons, summary
from .model import Column, Section, Table, Tone, row

TONES: dict[str, Tone] = {"PASS": "good", "WARN": "normal", "FAIL": "bad", "n/a": "quiet"}


def check_sections(state: RunState) -> tuple[Section, ...]:
    """The verdicts of a run in the order of the list; empty where none was made."""
    if not state.checks:
        return ()
    if why := nothing_checked(state.checks):
        rows = tuple(row(check.status, check.name, tone="quiet") for check in state.checks)
        table = Table((Column("verdict"), Column("check")), rows)
        return (Section(title="Checks", lines=(f"NOT PASSED: nothing was checked: {why}",), table=table, tone="bad"),)
    columns = (
        Column("verdict"),
        Column("check"),
        Column("measured"),
        Column("expected", rank=1),
        Column("why", rank=2),
    )
    ordered = in_order(state.checks)
    rows = tuple(
        row(check.status, check.name, check.measured, check.expected, check.why, tone=TONES[check.status])
        for check in ordered
    )
    return (
        Section(
            title="Checks",
            lines=(summary(state.checks),),
            table=Table(columns, rows),
            # Said again below the table, for terminals too narrow for the column of reasons.
            notes=tuple(f"{status} {names}: {why}" for status, names, why in reasons(ordered)),
            tone="good" if passed(state.checks) else "bad",
        ),
    )
