"""Drives sweeps on the real tiny model, on a CPU that pretends to capture, its allocator made up on demand."""

from collections.abc import Callable
from typing import cast

import torch

from cgtop.core.commands import AnyCommand, Quit, RunSweep
from cgtop.core.engine.caches import StaticLayer
from cgtop.core.engine.devices import AllocatorCounters, RawBlock, RawSegment, StepFunction
from cgtop.core.engine.graphs import CapturedStep, PoolHandle
from cgtop.core.engine.opening import open_run
from cgtop.core.engine.session import Session
from cgtop.core.engine.steps import DecodeStep
from cgtop.core.events import Event, Status, SweepEnd, SweepRow
from cgtop.core.settings import RunSettings
from tests.core.engine.driving import SMALL, Driven
from tests.fakes.device import PretendCapture, PretendDevice


class SweepDevice(PretendDevice):
    """Knows by itself what a step changes. `before_capture` may raise for a batch size; `pool_growth` is of each."""

    def __init__(self) -> None:
        super().__init__()
        self.captures: list[tuple[int, PoolHandle | None]] = []
        self.released: list[int] = []
        self.before_capture: Callable[[int], None] = lambda batch_size: None
        self.pool_growth: list[int] | None = None
        self.retained, self.transient = 0, 0
        self._allocated, self._peak = 1_000, 1_000
        self._segments: list[RawSegment] = []
        self._pools = 0

    def new_pool(self) -> PoolHandle | None:
        self._pools += 1
        return 7, self._pools

    def capture(
        self, step: StepFunction, stream: torch.cuda.Stream | None, pool: PoolHandle | None = None
    ) -> CapturedStep:
        assert isinstance(step, DecodeStep)
        batch_size = step.input_ids.shape[0]
        self.before_capture(batch_size)
        handle = pool if pool is not None else self.new_pool()
        assert handle is not None
        captured = _Noted(step, lambda: step_state(step), lambda: self.released.append(batch_size))
        captured.pool_id = f"{handle[0]}.{handle[1]}"
        self.captures.append((batch_size, pool))
        if self.pool_growth is not None:
            size = self.pool_growth[len(self.captures) - 1]
            at = 1 << 30 | len(self.captures) << 20
            block = RawBlock(address=at, size=size, requested=size, active=False)
            self._segments.append(RawSegment(address=at, size=size, pool=handle, stream=1, blocks=(block,)))
        self._peak = max(self._peak, self._allocated + self.transient)
        self._allocated += self.retained
        return captured

    def take(self, size: int) -> None:
        """Have this many bytes allocated."""
        self._allocated += size

    def counters(self) -> AllocatorCounters:
        if self.pool_growth is None:
            return AllocatorCounters()
        reserved = 4096 + sum(segment.size for segment in self._segments)
        return AllocatorCounters(
            requested=self._allocated, allocated=self._allocated, reserved=reserved, peak_allocated=self._peak
        )

    def reset_peak(self) -> None:
        self._peak = self._allocated

    def snapshot(self) -> tuple[RawSegment, ...]:
        return tuple(self._segments)


class _Noted(PretendCapture):
    def __init__(self, step: StepFunction, state: Callable[[], list[torch.Tensor]], on_release: Callable[[], None]):
        super().__init__(step, state)
        self._on_release = on_release

    def release(self) -> None:
        super().release()
        self._on_release()


def step_state(step: DecodeStep) -> list[torch.Tensor]:
    """Every tensor that a step changes."""
    cache = next(iter(step._cache_kwargs.values()))
    tensors = [step.input_ids]
    for layer in cast(list[StaticLayer], cache.layers):
        tensors += [layer.keys, layer.values, layer.cumulative_length]
    return tensors


class Sweeping(Driven):
    """A session that quits once a sweep has ended or was refused."""

    def __init__(self, settings: RunSettings = SMALL) -> None:
        super().__init__(settings)
        self.device = SweepDevice()
        self.on_row: Callable[[SweepRow], AnyCommand | None] = lambda row: None
        self.session = Session(open_run(settings)._replace(device=self.device), self.queue, self._emit)

    def _emit(self, event: Event) -> None:
        self.events.append(event)
        if isinstance(event, SweepRow) and (command := self.on_row(event)) is not None:
            self.queue.put(command)
        if isinstance(event, SweepEnd) or (isinstance(event, Status) and (event.refused or event.state == "failed")):
            self.queue.put(Quit())

    def sweep(self, command: RunSweep, *before: AnyCommand) -> list[SweepRow]:
        """Run it to its end; returns its rows."""
        self.run(*before, command, quit_after=False)
        return self.of(SweepRow)

    @property
    def end(self) -> SweepEnd:
        return self.of(SweepEnd)[-1]

    @property
    def refusal(self) -> str:
        return next(status.why for status in self.of(Status) if status.refused)
