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


def _reasons(checks: list[Check]) -> tuple[str, ...]:
    """Why what did not pass did not, for terminals too narrow for that column; those of one reason together."""
    names: dict[tuple[str, str], list[str]] = {}
    for check in checks:
        if check.status != "PASS" and check.why:
            names.setdefault((check.status, check.why), []).append(check.name)
    return tuple(f"{status} {', '.join(found)}: {why}" for (status, why), found in names.items())


def _place(name: str) -> int:
    return CHECK_NAMES.index(name) if name in CHECK_NAMES else len(CHECK_NAMES)
