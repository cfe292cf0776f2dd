"""What NVML says around the rounds of a measurement: clocks, power, and what held the clocks down.

What is not known for every reading is not known for the measurement: one missing reading proves nothing.
"""

from collections.abc import Callable
from statistics import median

from ..events import Telemetry

STEADY_SHARE = 0.02
"""Clocks are steady while the highest and the lowest are no farther apart than this share of the highest."""


class Watch:
    """Readings of one measurement, in order."""

    def __init__(self, read: Callable[[], Telemetry]) -> None:
        self._read = read
        self.readings: list[Telemetry] = []

    def take(self) -> Telemetry:
        """Read now and keep it."""
        self.readings.append(self._read())
        return self.readings[-1]

    def restart(self) -> None:
        """Forget the readings: what follows is another measurement."""
        self.readings.clear()

    def steady(self, last: int | None = None) -> bool | None:
        """Whether the multiprocessors' clock was the same over the `last` readings, or all; None: not known."""
        clocks = [reading.sm_mhz for reading in (self.readings[-last:] if last else self.readings)]
        known = [clock for clock in clocks if clock is not None]
        if not known or len(known) < len(clocks):
            return None
        return max(known) - min(known) <= STEADY_SHARE * max(known)

    def throttled(self) -> tuple[str, ...] | None:
        """Every reason that any reading gave; None where none gave one and some could not tell."""
        seen = {reason for reading in self.readings for reason in reading.throttle or ()}
        if not seen and (not self.readings or any(reading.throttle is None for reading in self.readings)):
            return None
        return tuple(sorted(seen))

    def sm_mhz(self) -> int | None:
        """Median clock of the multiprocessors."""
        return _median_int([reading.sm_mhz for reading in self.readings])

    def memory_mhz(self) -> int | None:
        """Median clock of the memory."""
        return _median_int([reading.memory_mhz for reading in self.readings])

    def power_w(self) -> float | None:
        """Median power."""
        known = [reading.power_w for reading in self.readings if reading.power_w is not None]
        return median(known) if known else None


def _median_int(values: list[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return round(median(known)) if known else None
