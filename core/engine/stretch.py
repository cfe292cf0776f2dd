"""The speed of somebody else's decode loop: one step in flight, as in cgtop's own loop, whatever launches the steps."""

import time
from collections import deque
from collections.abc import Callable

from ..events import Decode
from ..settings import Mode
from .devices import Device

WINDOW_S = 1.0
STEP_TIMES_KEPT = 512
LIVE_HZ = 10.0
POLICY = "one step in flight: each call of tokens() waits for the step before; the steps are the program's own"


class Stretch:
    """Steps of one mode, from the first on. Time starts when the stretch does."""

    def __init__(
        self, device: Device, mode: Mode, position: int, capacity: int, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        """`position`: tokens in the cache before the first step. `capacity`: of the cache; 0: no limit."""
        self.mode = mode
        self.position = position
        self._capacity = capacity
        self._device = device
        self._clock = clock
        self._began = device.counters()
        self._markers = [device.marker() for _ in range(2)]
        self._in_flight: tuple[int, int] | None = None  # marker, tokens
        self._launched = 0
        self._start = self._last = clock()
        self._steps = 0
        self._tokens = 0
        self._window: deque[tuple[float, int]] = deque([(self._start, 0)])
        self._step_s: deque[float] = deque(maxlen=STEP_TIMES_KEPT)
        self._told_at = 0.0

    def launched(self, tokens: int, position: int | None) -> bool:
        """A step that gives so many tokens was enqueued; waits for the one before. True when figures are due."""
        slot = self._launched % 2
        self._launched += 1
        self._markers[slot].record()
        self.position = self.position + 1 if position is None else position
        previous, self._in_flight = self._in_flight, (slot, tokens)
        if previous is None:
            return False
        self._complete(*previous)
        return self._last - self._told_at >= 1 / LIVE_HZ

    def drain(self) -> None:
        """Wait for the step in flight."""
        if self._in_flight is not None:
            previous, self._in_flight = self._in_flight, None
            self._complete(*previous)

    def figures(self, replays_before: int, replay_allocations_before: int | None) -> Decode:
        """What is known of the stretch now; `..._before`: of earlier stretches of replays."""
        self._told_at = self._last
        counters = self._device.counters()
        allocations = _since(self._began.allocations, counters.allocations)
        replays = replays_before + (self._steps if self.mode == "graph" else 0)
        held = replay_allocations_before
        if self.mode == "graph":
            held = None if held is None or allocations is None else held + allocations
        span = self._window[-1][0] - self._window[0][0]
        in_window = self._window[-1][1] - self._window[0][1]
        seconds = self._last - self._start
        return Decode(
            mode=self.mode,
            tokens=self._steps,
            tok_s=in_window / span if span > 0 else None,
            tok_s_mean=self._tokens / seconds if seconds > 0 else None,
            step_ms_p50=self._step_ms(0.5),
            step_ms_p99=self._step_ms(0.99),
            allocations=allocations,
            device_allocations=_since(self._began.device_allocations, counters.device_allocations),
            replays=replays,
            replay_allocations=held if replays else None,
            position=self.position,
            capacity=self._capacity,
        )

    def _complete(self, slot: int, tokens: int) -> None:
        self._markers[slot].wait()
        now = self._clock()
        self._step_s.append(now - self._last)
        self._last = now
        self._steps += 1
        self._tokens += tokens
        self._window.append((now, self._tokens))
        while len(self._window) > 2 and now - self._window[0][0] > WINDOW_S:
            self._window.popleft()

    def _step_ms(self, quantile: float) -> float | None:
        if not self._step_s:
            return None
        ordered = sorted(self._step_s)
        return ordered[min(len(ordered) - 1, int(quantile * len(ordered)))] * 1000


def _since(then: int | None, now: int | None) -> int | None:
    return None if then is None or now is None else now - then
