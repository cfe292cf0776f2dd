"""The section of `cgtop check`: one verdict a line, and what they come to."""

from collections import Counter

from ...core.checklist import CHECK_NAMES, missing, passed
from ...core.events import Check
from ...core.state import RunState
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
    ordered = sorted(state.checks, key=lambda check: _place(check.name))
    rows = tuple(
        row(check.status, check.name, check.measured, check.expected, check.why, tone=TONES[check.status])
        for check in ordered
    )
    return (
        Section(
            title="Checks",
            lines=(summary(state.checks),),
            table=Table(columns, rows),
            notes=_reasons(ordered),
            tone="good" if passed(state.checks) else "bad",
        ),
    )


def summary(checks: tuple[Check, ...]) -> str:
    """As in "PASSED: 17 PASS, 1 WARN, 1 n/a (never a pass)"."""
    counts: Counter[str] = Counter(check.status for check in checks)
    told = ", ".join(f"{counts[status]} {status}" for status in TONES if counts[status])
    never = " (never a pass)" if counts["n/a"] else ""
    lacking = missing(checks)
    why = f"; not checked: {', '.join(lacking)}" if lacking else ""
    return f"{'PASSED' if passed(checks) else 'NOT PASSED'}: {told}{never}{why}"


def nothing_checked(checks: tuple[Check, ...]) -> str:
    """The one reason why no check at all could be made; empty where one was, or where there are several reasons."""
    whys = {check.why for check in checks}
    return whys.pop() if len(whys) == 1 and all(check.status == "n/a" for check in checks) else ""


def _reasons(checks: list[Check]) -> tuple[str, ...]:
    """Why what did not pass did not, for terminals too narrow for that column; those of one reason together."""
    names: dict[tuple[str, str], list[str]] = {}
    for check in checks:
        if check.status != "PASS" and check.why:
            names.setdefault((check.status, check.why), []).append(check.name)
    return tuple(f"{status} {', '.join(found)}: {why}" for (status, why), found in names.items())


def _place(name: str) -> int:
    return CHECK_NAMES.index(name) if name in CHECK_NAMES else len(CHECK_NAMES)
