"""The decode loop: one step in flight, whatever the mode.

Step n+1 is launched, then the host waits for step n and reads its token: the same policy for eager, dynamic and graph,
so their speeds compare. Figures go out at most `LIVE_HZ` times a second.
"""

import time
from collections import deque
from collections.abc import Callable, Sequence

import torch

from ..events import Decode, Event, Tokens
from ..settings import Mode
from .devices import AllocatorCounters, Device
from .steps import Cursor

LIVE_HZ = 10.0
WINDOW_S = 1.0
STEP_TIMES_KEPT = 512
POLICY = "one decode step in flight: step n+1 is launched, then the host waits for step n and reads its token"


class Arm:
    """One way to decode: what launches a step, where its token appears, and the cursor it moves."""

    def __init__(
        self,
        mode: Mode,
        launch: Callable[[], object],
        input_ids: torch.Tensor,
        cursor: Cursor,
        read_bytes: Callable[[int], int],
    ) -> None:
        """`launch` enqueues a step. `read_bytes`: position -> bytes that a step there must read."""
        self.mode = mode
        self.launch = launch
        self.input_ids = input_ids
        self.cursor = cursor
        self.read_bytes = read_bytes


class Speedometer:
    """Times of the steps of one stretch in one mode, pauses left out."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._last = 0.0
        self._window: deque[float] = deque()
        self._step_s: deque[float] = deque(maxlen=STEP_TIMES_KEPT)
        self.steps = 0
        self.seconds = 0.0
        self.resume()

    def resume(self) -> None:
        """Start timing, at first and after each pause."""
        self._last = self._clock()
        self._window.clear()
        self._window.append(self._last)

    def count(self) -> float:
        """A step has come back; returns the time."""
        now = self._clock()
        self._step_s.append(now - self._last)
        self.seconds += now - self._last
        self._last = now
        self.steps += 1
        self._window.append(now)
        while len(self._window) > 2 and now - self._window[0] > WINDOW_S:
            self._window.popleft()
        return now

    @property
    def steps_s(self) -> float | None:
        """Steps a second over the last second."""
        span = self._window[-1] - self._window[0]
        return (len(self._window) - 1) / span if span > 0 else None

    @property
    def steps_s_mean(self) -> float | None:
        """Steps a second over the whole stretch."""
        return self.steps / self.seconds if self.seconds > 0 else None

    @property
    def step_times_s(self) -> tuple[float, ...]:
        """Seconds of the last steps, the oldest first; at most `STEP_TIMES_KEPT`."""
        return tuple(self._step_s)

    def step_ms(self, quantile: float) -> float | None:
        """A quantile of the last step times, in milliseconds."""
        if not self._step_s:
            return None
        ordered = sorted(self._step_s)
        return ordered[min(len(ordered) - 1, int(quantile * len(ordered)))] * 1000


class DecodeLoop:
    """Runs steps of the chosen arm and tells what they do. For the GPU thread, on the stream of the steps."""

    def __init__(
        self,
        device: Device,
        emit: Callable[[Event], None],
        batch_size: int,
        detokenize: Callable[[Sequence[int]], str] | None = None,
    ) -> None:
        self._device = device
        self._emit = emit
        self._batch_size = batch_size
        self._detokenize = detokenize
        self._slots = [device.host_buffer((batch_size, 1), torch.int64) for _ in range(2)]
        self._markers = [device.marker() for _ in range(2)]
        self._in_flight: int | None = None
        self._launched = 0
        self._arm: Arm | None = None
        self._speed = Speedometer()
        self._began = AllocatorCounters()
        self._replays = 0
        self._replay_allocations: int | None = 0
        self._replay_allocations_before: int | None = 0
        self._ids: list[int] = []
        self._last_live = 0.0
        self.valid = True

    @property
    def mode(self) -> Mode | None:
        """The mode of the chosen arm."""
        return None if self._arm is None else self._arm.mode

    @property
    def speed(self) -> Speedometer:
        """Times of the steps since this mode was entered."""
        return self._speed

    @property
    def launched(self) -> int:
        """Steps launched since this mode was entered; the last may still be in flight."""
        return self._speed.steps + (self._in_flight is not None)

    def enter(self, arm: Arm) -> None:
        """Decode with this arm from the next step on."""
        self.drain()
        self._arm = arm
        self._speed = Speedometer()
        self._began = self._device.counters()
        self._replay_allocations_before = self._replay_allocations

    def resume(self) -> None:
        """Go on after a pause, which does not count."""
        self._speed.resume()

    def step(self) -> None:
        """Launch one step, then wait for the one before and read its token. Raises what the launch raises."""
        arm = self._arm
        if arm is None:
            raise RuntimeError("no decode mode has been entered")
        arm.cursor.make_room()
        arm.launch()
        arm.cursor.advance()
        slot = self._launched % 2
        self._slots[slot].copy_(arm.input_ids, non_blocking=True)
        self._markers[slot].record()
        self._launched += 1
        if arm.mode == "graph":
            self._replays += 1
        previous, self._in_flight = self._in_flight, slot
        if previous is not None:
            self._complete(previous)

    def drain(self) -> None:
        """Wait for the step in flight and tell the figures up to it."""
        if self._in_flight is not None:
            slot, self._in_flight = self._in_flight, None
            self._complete(slot)
        if self._ids:
            self.tell()

    def forget(self) -> None:
        """Drop the arm and what is in flight, after an error or before release."""
        self._arm = None
        self._in_flight = None
        self._ids.clear()

    def _complete(self, slot: int) -> None:
        self._markers[slot].wait()
        self._ids.append(int(self._slots[slot][0, 0]))
        if self._speed.count() - self._last_live >= 1 / LIVE_HZ:
            self.tell()

    def tell(self) -> None:
        """Emit the figures now."""
        arm, speed = self._arm, self._speed
        if arm is None:
            return
        self._last_live = time.perf_counter()
        counters = self._device.counters()
        allocations = _since(self._began.allocations, counters.allocations)
        if arm.mode == "graph":
            self._replay_allocations = _sum(self._replay_allocations_before, allocations)
        step_s = 1 / speed.steps_s if speed.steps_s else None
        self._emit(
            Decode(
                mode=arm.mode,
                tokens=speed.steps,
                launched=self.launched,
                tok_s=_times(speed.steps_s, self._batch_size),
                tok_s_mean=_times(speed.steps_s_mean, self._batch_size),
                step_ms_p50=speed.step_ms(0.5),
                step_ms_p99=speed.step_ms(0.99),
                allocations=allocations,
                device_allocations=_since(self._began.device_allocations, counters.device_allocations),
                replays=self._replays,
                replay_allocations=self._replay_allocations if self._replays else None,
                position=arm.cursor.position,
                capacity=arm.cursor.capacity,
                laps=arm.cursor.laps,
                gb_s=arm.read_bytes(arm.cursor.position) / step_s / 1e9 if step_s else None,
                valid=self.valid or arm.mode != "graph",
            )
        )
        if self._ids:
            text = None if self._detokenize is None else self._detokenize(self._ids)
            self._emit(Tokens(mode=arm.mode, ids=tuple(self._ids), text=text))
            self._ids.clear()


def _since(then: int | None, now: int | None) -> int | None:
    return None if then is None or now is None else now - then


def _sum(first: int | None, second: int | None) -> int | None:
    return None if first is None or second is None else first + second


def _times(value: float | None, factor: int) -> float | None:
    return None if value is None else value * factor
