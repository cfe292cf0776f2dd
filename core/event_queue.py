"""Events on their way from the client's thread to the one that draws."""

import threading
from collections import deque

from .events import End, Event, Log

LOGS_PENDING_MAX = 5000
"""Log lines that wait to be taken; more of them are left out and counted. All other events are kept."""


class EventQueue:
    """Unbounded but for log lines, for any number of writers and one reader. Nothing follows `End`."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._events: deque[Event] = deque()
        self._logs = 0
        self._logs_left_out = 0
        self._ended = False

    @property
    def ended(self) -> bool:
        """Whether `End` has been put in, taken or not."""
        return self._ended

    def put(self, *events: Event) -> None:
        """Add events, in order."""
        with self._changed:
            for event in events:
                if self._ended:
                    break
                if isinstance(event, Log):
                    if self._logs >= LOGS_PENDING_MAX:
                        self._logs_left_out += 1
                        continue
                    self._logs += 1
                    self._say_what_is_missing(event.t)
                elif isinstance(event, End):
                    self._ended = True
                    self._say_what_is_missing(event.t)
                self._events.append(event)
            self._changed.notify_all()

    @property
    def pending(self) -> int:
        """How many events wait to be taken."""
        return len(self._events)

    def drain(self, limit: int | None = None) -> list[Event]:
        """Everything that waits, or the first `limit` of it, without waiting."""
        with self._changed:
            if self._events:
                self._say_what_is_missing(self._events[-1].t)
            count = len(self._events) if limit is None else min(limit, len(self._events))
            events = [self._events.popleft() for _ in range(count)]
            self._logs -= sum(isinstance(event, Log) for event in events)
            return events

    def take(self) -> Event | None:
        """The next event; waits for it. Null, at once, when `End` has been taken."""
        with self._changed:
            self._changed.wait_for(lambda: self._events or self._ended)
            if not self._events:
                return None
            event = self._events.popleft()
            if isinstance(event, Log):
                self._logs -= 1
            return event

    def _say_what_is_missing(self, t: float) -> None:
        if self._logs_left_out:
            text = f"{self._logs_left_out} log lines came faster than they could be shown and were left out"
            self._events.append(Log(t=t, source="client", text=text))
            self._logs += 1
            self._logs_left_out = 0
