"""One phase, measured: counters before and after, peak, allocations, time, and what each Δ is made of."""

from collections.abc import Callable

import msgspec

from ..events import Counters, Event, Memory, PhaseBegin, PhaseEnd, PhaseId, Segments
from ..memory_map import MIB
from .devices import AllocatorCounters, Device, now
from .explain import explain
from .ledger import Ledger
from .memory import Sample, carried_forward
from .workflow import Outcome

NOTED_COUNTERS = ("requested", "allocated", "reserved", "driver")


class Span:
    """A phase that has begun. Ends once, by `done`; a failed phase is simply not ended."""

    def __init__(
        self, phase: PhaseId, before: Sample | None, counters: AllocatorCounters, notes: tuple[str, ...]
    ) -> None:
        self.phase = phase
        self.before = before
        self.counters = counters
        self.notes = notes
        self.began = now()


class Meter:
    """Takes the samples around phases and emits what they show. For the GPU thread."""

    def __init__(self, device: Device, ledger: Ledger, emit: Callable[[Event], None]) -> None:
        self._device = device
        self._ledger = ledger
        self._emit = emit
        self.last: Sample | None = None
        """The latest full attribution."""

    def begin(self, phase: PhaseId) -> Span:
        """Take what stands before a phase and say that it begins."""
        self._emit(PhaseBegin(phase=phase))
        if phase == "context":
            return Span(phase, None, AllocatorCounters(), ())
        before = self._ledger.sample()
        notes = _between(self.last, before)
        self._device.reset_peak()
        return Span(phase, before, self._device.counters(), notes)

    def live(self, kv_dynamic: int | None) -> Memory | None:
        """A live sample by the counters and the last full attribution; `kv_dynamic`: bytes of the DynamicCache now."""
        last = self.last
        if last is None or last.total_bytes is None:
            return None
        reading, free = self._device.counters(), self._device.free_and_total()
        return carried_forward(
            last,
            Counters(requested=reading.requested, allocated=reading.allocated, reserved=reading.reserved),
            None if free is None else free[0],
            None,
            kv_dynamic=kv_dynamic,
            processes=self._ledger.processes(),
        )

    def done(self, span: Span, outcome: Outcome, *, seconds: float | None = None) -> PhaseEnd:
        """End a phase: sample, explain, and emit `phase_end`, `memory` and `segments`."""
        self._device.synchronize()
        took = now() - span.began if seconds is None else seconds
        counters = self._device.counters()
        after = self._ledger.sample()
        before = span.before or _before_context(after)
        end = PhaseEnd(
            phase=span.phase,
            before=before.counters,
            after=after.counters,
            peak_allocated=counters.peak_allocated,
            seconds=took,
            allocations=_since(span.counters.allocations, counters.allocations, span.before is None),
            device_allocations=_since(
                span.counters.device_allocations, counters.device_allocations, span.before is None
            ),
            explained=explain(
                span.phase, before, after, outcome.driver_pieces, driver_measured=outcome.driver_measured
            ),
            notes=(*span.notes, *outcome.notes),
        )
        self.last = after
        self._emit(end)
        self._emit(after.event(span.phase))
        if after.segments:
            self._emit(Segments(phase=span.phase, segments=after.segments))
        return end


def _before_context(after: Sample) -> Sample:
    """Nothing, before the process has a context: known to be nothing only where its figures are known afterwards."""
    zero = {name: None if getattr(after.counters, name) is None else 0 for name in NOTED_COUNTERS}
    return msgspec.structs.replace(
        after, counters=Counters(**zero), buckets={}, items={}, pool_reserved={}, pools=(), segments=()
    )


def _between(last: Sample | None, now_: Sample) -> tuple[str, ...]:
    """What changed between the end of the last phase and the begin of this one, if anything did."""
    if last is None:
        return ()
    changes = []
    for name in NOTED_COUNTERS:
        then, today = getattr(last.counters, name), getattr(now_.counters, name)
        if then is not None and today is not None and then != today:
            changes.append(f"{name} {(today - then) / MIB:+,.2f} MiB")
    return (f"between the last phase and this one: {', '.join(changes)}",) if changes else ()


def _since(then: int | None, now_: int | None, from_zero: bool) -> int | None:
    if now_ is None:
        return None
    if then is None:
        return now_ if from_zero else None
    return now_ - then
