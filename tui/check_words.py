"""What checks come to, in words; for the report and for the screen."""

from collections import Counter
from collections.abc import Sequence

from ..core.checklist import CHECK_NAMES, missing, passed
from ..core.events import Check

STATUSES = ("PASS", "WARN", "FAIL", "n/a")
"""In the order in which they are counted."""


def summary(checks: Sequence[Check]) -> str:
    """As in "PASSED: 17 PASS, 1 WARN, 1 n/a (never a pass)"."""
    counts: Counter[str] = Counter(check.status for check in checks)
    told = ", ".join(f"{counts[status]} {status}" for status in STATUSES if counts[status])
    never = " (never a pass)" if counts["n/a"] else ""
    lacking = missing(checks)
    why = f"; not checked: {', '.join(lacking)}" if lacking else ""
    return f"{'PASSED' if passed(checks) else 'NOT PASSED'}: {told}{never}{why}"


def nothing_checked(checks: Sequence[Check]) -> str:
    """The one reason why no check at all could be made; empty where one was, or where there are several reasons."""
    whys = {check.why for check in checks}
    return whys.pop() if len(whys) == 1 and all(check.status == "n/a" for check in checks) else ""


def reasons(checks: Sequence[Check]) -> tuple[tuple[str, str, str], ...]:
    """Status, names and why of what did not pass; those of one reason together."""
    names: dict[tuple[str, str], list[str]] = {}
    for check in checks:
        if check.status != "PASS" and check.why:
            names.setdefault((check.status, check.why), []).append(check.name)
    return tuple((status, ", ".join(found), why) for (status, why), found in names.items())


def in_order(checks: Sequence[Check]) -> tuple[Check, ...]:
    """In the order of the list; others, of another version, behind."""
    return tuple(sorted(checks, key=lambda check: _place(check.name)))


def _place(name: str) -> int:
    return CHECK_NAMES.index(name) if name in CHECK_NAMES else len(CHECK_NAMES)
