"""A recording played: a position that moves with a clock, and the state at it."""

import time
from collections.abc import Callable
from functools import cached_property

from .recording import Recording
from .state import RunState
from .stops import Stop, stops_of

SPEED_MIN = 0.125
SPEED_MAX = 64.0


class Player:
    """Plays a recording. `index` is how many of its events have happened; the position follows from it when paused.

    Nothing runs in the background: whoever asks gets the answer for the moment of asking.
    """

    def __init__(
        self,
        recording: Recording,
        clock: Callable[[], float] = time.monotonic,
        *,
        speed: float = 1.0,
        playing: bool = True,
    ) -> None:
        self.recording = recording
        self._clock = clock
        self._speed = _bounded(speed)
        self._playing = playing
        self._position = 0.0
        self._index = recording.index_at(0.0)
        self._asked_at = clock()

    @property
    def duration(self) -> float:
        """Seconds of the whole recording."""
        return self.recording.duration

    @property
    def playing(self) -> bool:
        """Whether the position moves; it stops by itself at the end."""
        self._advance()
        return self._playing

    @property
    def at_end(self) -> bool:
        """Whether every event has happened."""
        return self.index == len(self.recording.events)

    @property
    def position(self) -> float:
        """Seconds from the start."""
        self._advance()
        return self._position

    @property
    def index(self) -> int:
        """How many events have happened."""
        self._advance()
        return self._index

    @property
    def state(self) -> RunState:
        """What is known at the position."""
        return self.recording.state_after(self.index)

    @property
    def speed(self) -> float:
        """Recorded seconds a second."""
        return self._speed

    def set_speed(self, speed: float) -> None:
        """Play at `speed` from here, within `SPEED_MIN` and `SPEED_MAX`."""
        self._advance()
        self._speed = _bounded(speed)

    def play(self) -> None:
        """Go on; at the end, start over."""
        if self.at_end:
            self._go_to(self.recording.index_at(0.0), 0.0)
        self._playing = True

    def pause(self) -> None:
        """Stay at this position."""
        self._advance()
        self._playing = False

    def seek(self, t: float) -> None:
        """Go to `t` seconds, within the recording; it plays on if it was playing."""
        self._advance()
        t = min(max(t, 0.0), self.duration)
        self._go_to(self.recording.index_at(t), t)

    def step(self, events: int = 1) -> None:
        """Pause, and go on by so many events; back by a negative number."""
        self.pause()
        index = min(max(self._index + events, 1), len(self.recording.events))
        self._go_to(index, self.recording.times[index - 1])

    @cached_property
    def stops(self) -> tuple[Stop, ...]:
        """Where `next_stop` stops: the end of each phase, each change of mode, each result."""
        return stops_of(self.recording.events, self.recording.times)

    @cached_property
    def stop_times(self) -> tuple[float, ...]:
        """When each stop is, in seconds."""
        return tuple(stop.t for stop in self.stops)

    def next_stop(self) -> Stop | None:
        """Pause at the next stop; where none is left, at the end: null then."""
        self.pause()
        stop = next((stop for stop in self.stops if stop.index > self._index), None)
        if stop is None:
            self._go_to(len(self.recording.events), self.duration)
        else:
            self._go_to(stop.index, stop.t)
        return stop

    def previous_stop(self) -> Stop | None:
        """Pause at the stop before this place; where there is none, at the start: null then.

        While it plays, a stop that was passed within the last second is this place.
        """
        since = self._speed if self.playing else 0.0
        self.pause()
        before = [stop for stop in self.stops if stop.index < self._index and stop.t <= self._position - since]
        if not before:
            self._go_to(self.recording.index_at(0.0), 0.0)
            return None
        self._go_to(before[-1].index, before[-1].t)
        return before[-1]

    def _advance(self) -> None:
        now = self._clock()
        elapsed, self._asked_at = now - self._asked_at, now
        if not self._playing:
            return
        self._position = min(self._position + max(0.0, elapsed) * self._speed, self.duration)
        self._index = max(self._index, self.recording.index_at(self._position))
        if self._index == len(self.recording.events):
            self._playing = False

    def _go_to(self, index: int, position: float) -> None:
        self._index, self._position = index, position


def _bounded(speed: float) -> float:
    return min(max(speed, SPEED_MIN), SPEED_MAX)
