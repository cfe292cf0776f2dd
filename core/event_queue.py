"""Events on their way from the client's thread to the one that draws."""

import threading

from .events import End, Event, Log

LOGS_PENDING_MAX = 5000
"""Log lines that wait to be taken; more of them are left out and counted. All other events are kept."""


class EventQueue:
    """Unbounded but for log lines, for any number of writers and one reader. Nothing follows `End`."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._events: list[Event] = []
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
                elif isinstance(event, End):
                    self._ended = True
                    self._say_what_is_missing(event.t)
                self._events.append(event)
            self._changed.notify_all()

    def drain(self) -> list[Event]:
        """Everything that waits, without waiting."""
        with self._changed:
            if self._events:
                self._say_what_is_missing(self._events[-1].t)
            events, self._events = self._events, []
            self._logs = 0
            return events

    def wait(self, timeout: float | None = None) -> bool:
        """Until there is something to take. False when time is up, or at once when `End` has been taken."""
        with self._changed:
            self._changed.wait_for(lambda: self._events or self._ended, timeout)
            return bool(self._events)

    def _say_what_is_missing(self, t: float) -> None:
        if self._logs_left_out:
            text = f"{self._logs_left_out} log lines came faster than they could be shown and were left out"
            self._events.append(Log(t=t, source="client", text=text))
            self._logs_left_out = 0
