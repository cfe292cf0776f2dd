"""The way out of the worker: events to a pipe, without the thread that emits them ever waiting for a reader."""

import contextlib
import os
import threading
import time
from collections.abc import Callable

import msgspec

from ..events import LIVE_EVENTS, Decode, End, Event, Hello, Memory, Progress, encode_event

Slot = tuple[type[Event], str | None]


class EventSink:
    """Writes events as JSON Lines to `fd` from a thread of its own.

    Every event is written in the order in which it was emitted. A live sample replaces the one of its kind that still
    waits, which is then left out and counted in `End.dropped_samples`: so samples never pile up behind a slow reader
    and a stale one never follows what was emitted after it. Nothing follows `End`.
    """

    def __init__(self, fd: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.dropped_samples = 0
        self._fd = fd
        self._clock = clock
        self._origin = clock()
        self._changed = threading.Condition()
        self._pending: dict[int, Event] = {}
        """By number, so in order; a replaced sample is taken out."""
        self._number = 0
        self._slots: dict[Slot, int] = {}
        self._ended = False
        self._closing = False
        self._writer = threading.Thread(target=self._write_pending, name="cgtop-sink", daemon=True)
        self._writer.start()

    def emit(self, event: Event) -> None:
        """Hand over an event, from any thread. An event without a time gets one: seconds since `Hello`.

        Before `Hello`: seconds since the sink was made. After `End` or a dead reader it does nothing.
        """
        with self._changed:
            if self._ended or self._closing:
                return
            now = self._clock()
            if isinstance(event, Hello):
                self._origin = now
            if isinstance(event, Decode):
                event = _rounded(event)
            if event.t == 0.0 and not isinstance(event, Hello):
                event = msgspec.structs.replace(event, t=round(now - self._origin, 4))
            slot = _slot(event)
            if slot is not None:
                if self._pending.pop(self._slots.get(slot, -1), None) is not None:
                    self.dropped_samples += 1
                self._slots[slot] = self._number
            if isinstance(event, End):
                self._ended = True
                event = msgspec.structs.replace(event, dropped_samples=self.dropped_samples)
            self._pending[self._number] = event
            self._number += 1
            self._changed.notify()

    def close(self, timeout: float) -> bool:
        """Take no more events and wait for those emitted to be written; False if that took longer than `timeout` s."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._writer.join(timeout)
        return not self._writer.is_alive()

    def _write_pending(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._pending or self._closing)
                events, self._pending = list(self._pending.values()), {}
                if not events:
                    break
            if not self._write(b"".join(encode_event(event) + b"\n" for event in events)):
                with self._changed:
                    self._closing = True
                    self._pending.clear()
                break
        with contextlib.suppress(OSError):
            os.close(self._fd)

    def _write(self, data: bytes) -> bool:
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(self._fd, view) :]
        except OSError:  # the reader is gone
            return False
        return True


def _rounded(event: Decode) -> Decode:
    """Six significant digits: more than a clock can tell, and half the size of a recording."""
    values = {name: getattr(event, name) for name in event.__struct_fields__ if name != "t"}
    floats = {name: float(f"{value:.6g}") for name, value in values.items() if isinstance(value, float)}
    return msgspec.structs.replace(event, **floats)


def _slot(event: Event) -> Slot | None:
    """What a live sample is the latest of; null for an event that must arrive."""
    match event:
        case Decode():
            return Decode, event.mode
        case Progress():
            return Progress, event.phase
        case Memory():
            return (Memory, None) if event.live else None
        case _:
            return (type(event), None) if isinstance(event, LIVE_EVENTS) else None
