"""A ledger whose last reading can be attributed again: for owners that are named just after what they own was made."""

from typing import NamedTuple

from ..events import Counters
from .devices import RawSegment
from .ledger import Ledger
from .memory import Processes, Sample, attribute, registered_only


class Reading(NamedTuple):
    """What was read of a CUDA device at one moment."""

    segments: tuple[RawSegment, ...]
    counters: Counters
    free_and_total: tuple[int, int]
    processes: Processes
    settled: bool


class LateLedger(Ledger):
    """Keeps its last reading. For the GPU thread."""

    _reading: Reading | None = None

    def sample(self) -> Sample:
        """A full attribution now, after a synchronise."""
        self._device.synchronize()
        first = self._device.free_and_total()
        if first is None:
            self._reading = None
            return self.again()
        processes, free_and_total, settled = self._settled_processes(first)
        counters = self._device.counters()
        self._reading = Reading(
            segments=self._device.snapshot(),
            counters=Counters(requested=counters.requested, allocated=counters.allocated, reserved=counters.reserved),
            free_and_total=free_and_total,
            processes=processes,
            settled=settled,
        )
        return self.again()

    def again(self) -> Sample:
        """The last reading, attributed by the owners that are registered now."""
        reading = self._reading
        if reading is None:
            return registered_only(self._owned_sizes(), "the CPU has no such counter")
        return attribute(
            reading.segments,
            self._owners(reading.segments),
            counters=reading.counters,
            free_and_total=reading.free_and_total,
            processes=reading.processes,
            settled=reading.settled,
            source="cudaMemGetInfo, NVML processes, allocator map",
        )
