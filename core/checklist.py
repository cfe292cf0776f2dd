"""What `cgtop check` checks, in order, and when a machine has passed.

A check that could not be made is "n/a" and never a pass. The essential ones rest on counters and results that every
GPU gives; the others also on NVML, which does not tell everything everywhere.
"""

from collections.abc import Iterable
from typing import Literal

import msgspec

from .events import Check

CheckStatus = Literal["PASS", "WARN", "FAIL", "n/a"]


class CheckKind(msgspec.Struct, frozen=True):
    """One check: its name as in events, and whether a machine can pass without it."""

    name: str
    essential: bool = True


CHECKLIST: tuple[CheckKind, ...] = (
    CheckKind("kernel launch"),
    CheckKind("architecture", essential=False),
    CheckKind("versions", essential=False),
    CheckKind("weights"),
    CheckKind("StaticCache"),
    CheckKind("warmup explained"),
    CheckKind("capture explained"),
    CheckKind("graph = eager"),
    CheckKind("StaticCache = DynamicCache"),
    CheckKind("replay allocations"),
    CheckKind("replay driver bytes", essential=False),
    CheckKind("addresses fixed"),
    CheckKind("cache slope"),
    CheckKind("copy bandwidth", essential=False),
    CheckKind("PCIe link", essential=False),
    CheckKind("ECC", essential=False),
    CheckKind("other processes", essential=False),
    CheckKind("graph faster than eager"),
    CheckKind("throttle", essential=False),
)
CHECK_NAMES: tuple[str, ...] = tuple(kind.name for kind in CHECKLIST)


def not_made(name: str, why: str) -> Check:
    """A check that could not be made."""
    return Check(name=name, status="n/a", why=why)


def missing(checks: Iterable[Check]) -> tuple[str, ...]:
    """Names of the essential checks that were not made, or could not be."""
    made = {check.name for check in checks if check.status != "n/a"}
    return tuple(kind.name for kind in CHECKLIST if kind.essential and kind.name not in made)


def passed(checks: Iterable[Check]) -> bool:
    """Whether nothing failed and every essential check was made; a warning is no failure."""
    made = tuple(checks)
    return not missing(made) and not any(check.status == "FAIL" for check in made)
