"""What one more graph costs: counters before and after it, and their differences. Measured in capture order.

A sum of rows is a sum of such differences: what a first graph costs more, such as the pool that later ones share, is in
its own row and in no other.
"""

from collections.abc import Collection
from typing import NamedTuple

from .devices import Device
from .graphs import pool_name
from .ledger import Ledger


class Reading(NamedTuple):
    """The device as a row finds or leaves it, in bytes; None where the platform does not count it."""

    requested: int | None = None
    allocated: int | None = None
    reserved: int | None = None
    pool: int | None = None
    """Reserved by the private pools of the sweep's graphs."""
    pool_idle: int | None = None
    """Of that, not in use by a tensor: what a graph's steps need while they run."""


class Cost(NamedTuple):
    """What a row added, in bytes."""

    requested: int | None
    allocated: int | None
    reserved: int | None
    pool: int | None
    pool_idle: int | None
    driver: int | None
    peak: int | None
    """Most that was allocated while the row was made, above what stood before it."""

    @property
    def total(self) -> int | None:
        """Allocated, what the pools hold beyond it, and the driver's part where that is known."""
        if self.allocated is None or self.pool_idle is None:
            return None
        return self.allocated + self.pool_idle + (self.driver or 0)


def read(device: Device, pools: Collection[str]) -> Reading:
    """The counters now; `pools`: names of the private pools that count as the sweep's."""
    device.synchronize()
    counters = device.counters()
    segments = [segment for segment in device.snapshot() if pool_name(segment.pool) in pools]
    known = counters.reserved is not None
    in_use = sum(block.size for segment in segments for block in segment.blocks if block.active)
    reserved = sum(segment.size for segment in segments)
    return Reading(
        requested=counters.requested,
        allocated=counters.allocated,
        reserved=counters.reserved,
        pool=reserved if known else None,
        pool_idle=reserved - in_use if known else None,
    )


class Meter:
    """Measures one row: made before it, `cost` after it. The driver is read apart, around capture alone."""

    def __init__(self, device: Device, ledger: Ledger, pools: Collection[str]) -> None:
        """`pools`: those that graphs before this one have."""
        self._device = device
        self._ledger = ledger
        self.before = read(device, pools)
        device.reset_peak()
        self._driver: int | None = None

    def read_driver(self) -> int | None:
        """What the driver holds for this process; `cost` counts from here. None where NVML does not tell."""
        self._device.synchronize()
        self._driver = self._ledger.driver_bytes()
        return self._driver

    def cost(self, pools: Collection[str]) -> Cost:
        """What stands now and did not before. `pools`: with that of the new graph."""
        after, before = read(self._device, pools), self.before
        peak = self._device.counters().peak_allocated
        return Cost(
            requested=difference(after.requested, before.requested),
            allocated=difference(after.allocated, before.allocated),
            reserved=difference(after.reserved, before.reserved),
            pool=difference(after.pool, before.pool),
            pool_idle=difference(after.pool_idle, before.pool_idle),
            driver=difference(self._ledger.driver_bytes(), self._driver),
            peak=difference(peak, before.allocated),
        )


def difference(now: int | None, then: int | None) -> int | None:
    """Now - then, where both are known."""
    return None if now is None or then is None else now - then
