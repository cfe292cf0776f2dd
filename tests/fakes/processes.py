"""Looking at real processes from tests."""

import time
from collections.abc import Callable
from pathlib import Path

PATIENCE_S = 60.0
"""For what is to happen, however busy the machine is, where the time that it takes is not the point."""


def is_running(pid: int) -> bool:
    """Whether a process exists and is not a zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in ("Z", "X")


def wait_until(condition: Callable[[], object], timeout: float = PATIENCE_S) -> bool:
    """Whether the condition came true in time."""
    until = time.monotonic() + timeout
    while time.monotonic() < until:
        if condition():
            return True
        time.sleep(0.005)
    return bool(condition())


def takes_less(bound_s: float, measure: Callable[[], float]) -> bool:
    """Whether it takes less than the bound: at once, or, where the machine was busy for a moment, in two more tries."""
    return holds(lambda: measure() < bound_s)


def holds(try_it: Callable[[], bool]) -> bool:
    """Whether a try is good, or both of the two that follow it."""
    return try_it() or (try_it() and try_it())
