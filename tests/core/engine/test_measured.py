"""Around a phase: the transient peak beside what is retained, and no figure that the allocator does not have."""

from collections.abc import Iterator

import pytest

from cgtop.core.engine.devices import AllocatorCounters, RawBlock, RawSegment
from cgtop.core.engine.ledger import Ledger
from cgtop.core.engine.measured import Meter
from cgtop.core.engine.memory import Processes
from cgtop.core.engine.workflow import Outcome
from cgtop.core.events import Event, Memory, PhaseBegin, PhaseEnd
from tests.fakes.device import PretendDevice

TOTAL = 1_000_000


class CountingDevice(PretendDevice):
    """Counters and map as the test sets them; free memory follows the reserved bytes."""

    kind = "cuda"

    def __init__(self) -> None:
        super().__init__()
        self.now = AllocatorCounters(0, 0, 0, 0, 0, 0)

    def counters(self) -> AllocatorCounters:
        return self.now

    def snapshot(self) -> tuple[RawSegment, ...]:
        requested, allocated, reserved = self.now.requested or 0, self.now.allocated or 0, self.now.reserved or 0
        if not reserved:
            return ()
        blocks = (RawBlock(4096, allocated, requested, True), RawBlock(8192, reserved - allocated, 0, False))
        return (RawSegment(4096, reserved, (0, 0), 0, blocks),)

    def free_and_total(self) -> tuple[int, int]:
        return TOTAL - (self.now.reserved or 0) - 500, TOTAL


@pytest.fixture
def told() -> list[Event]:
    return []


def measured(told: list[Event], after: AllocatorCounters, processes: Iterator[Processes] | None = None) -> PhaseEnd:
    device = CountingDevice()

    def read() -> Processes:
        known = Processes(own_bytes=(device.now.reserved or 0) + 400, others_bytes=100)
        return known if processes is None else next(processes)

    meter = Meter(device, Ledger(device, read), told.append)
    span = meter.begin("warmup")
    device.now = after
    return meter.done(span, Outcome())


def test_a_transient_peak_is_told_beside_what_is_retained(told: list[Event]) -> None:
    end = measured(told, AllocatorCounters(24, 24, 1000, 900, 7, 1))
    assert (end.after.allocated, end.peak_allocated) == (24, 900)
    assert (end.allocations, end.device_allocations) == (7, 1)


def test_every_counter_adds_up_and_the_events_come_in_order(told: list[Event]) -> None:
    end = measured(told, AllocatorCounters(24, 32, 1000, 900, 7, 1))
    for counter in ("requested", "allocated", "reserved", "driver"):
        delta = getattr(end.after, counter) - getattr(end.before, counter)
        assert sum(item.bytes for item in end.explained[counter]) == delta
    assert [type(event) for event in told[:3]] == [PhaseBegin, PhaseEnd, Memory]


def test_a_counter_that_the_allocator_lacks_stays_unknown(told: list[Event]) -> None:
    end = measured(told, AllocatorCounters(requested=24, allocated=24, reserved=1000))
    assert end.peak_allocated is None and end.allocations is None and end.device_allocations is None


def test_a_hidden_pid_leaves_the_driver_unknown(told: list[Event]) -> None:
    hidden = iter([Processes(reason="pid hidden")] * 10)
    end = measured(told, AllocatorCounters(24, 24, 1000, 900, 7, 1), hidden)
    assert end.after.driver is None and "driver" not in end.explained
    memory = next(event for event in told if isinstance(event, Memory))
    assert sum(memory.buckets.values()) == memory.total_bytes and "pid hidden" in memory.reasons["driver"]


def test_memory_that_never_settles_is_marked(told: list[Event]) -> None:
    device = CountingDevice()
    frees = iter(range(10_000, 20_000))
    device.free_and_total = lambda: (next(frees), TOTAL)  # type: ignore[method-assign]
    ledger = Ledger(device, lambda: Processes(own_bytes=400, others_bytes=0))
    sample = ledger.sample()
    assert not sample.settled
    assert sum(sample.buckets.values()) == TOTAL
