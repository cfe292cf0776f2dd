"""How a headless run is going, on standard error while that is a terminal: one line a phase, the last one alive."""

from typing import TextIO

from ...core.events import Check, Comparison, Decode, Event, PhaseBegin, PhaseEnd, Progress, SweepRow
from ...core.phases import PHASE_BY_ID
from ..format import NA, clean, delta_mib, duration, tok_s

SECONDS_BETWEEN_UPDATES = 0.5
MARKS = {"done": "✓", "unavailable": "–", "failed": "✗"}


class ProgressLines:
    """A sink that draws on `stream`. A terminal that cannot rewrite a line gets the finished ones only."""

    def __init__(self, stream: TextIO, *, rewrites: bool) -> None:
        self._stream, self._rewrites = stream, rewrites
        self._alive = False
        self._drawn_at = 0.0

    def __call__(self, event: Event) -> None:
        """Draw what changes with one event."""
        match event:
            case PhaseBegin():
                self._live(f"▶ {PHASE_BY_ID[event.phase].short}")
            case Progress() if self._due(event):
                share = f" {100 * event.done / event.total:.0f} %" if event.total else ""
                self._live(f"▶ {PHASE_BY_ID[event.phase].short}{share} {event.what}")
            case Decode() if self._due(event):
                self._live(f"▶ {event.mode} {tok_s(event.tok_s)} tok/s, position {event.position} / {event.capacity}")
            case PhaseEnd():
                self._finished(event)
            case Comparison() if not event.final:
                speeds = ", ".join(f"{arm.mode} {tok_s(arm.tok_s)} tok/s" for arm in event.arms)
                self._live(f"▶ round {event.rounds}: {speeds}")
            case SweepRow():
                figure = f"{tok_s(event.tok_s)} tok/s" if event.status == "done" else event.status
                self._live(f"▶ {event.strategy} {event.value:,}: {figure}")
            case Check():
                self._live(f"▶ {event.status} {event.name}")

    def close(self) -> None:
        """Take the line that is alive away."""
        if self._alive:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
            self._alive = False

    def _finished(self, end: PhaseEnd) -> None:
        self.close()
        old, new = end.before.allocated, end.after.allocated
        delta = None if old is None or new is None else new - old
        figure = "" if delta is None else f"  {delta_mib(delta)} MiB allocated"
        time = "" if duration(end.seconds) == NA else f"  {duration(end.seconds)}"
        reason = f"  {end.reason}" if end.reason else ""
        self._stream.write(clean(f"{MARKS[end.status]} {PHASE_BY_ID[end.phase].short}{figure}{time}{reason}") + "\n")
        self._stream.flush()

    def _due(self, event: Event) -> bool:
        if event.t - self._drawn_at < SECONDS_BETWEEN_UPDATES:
            return False
        self._drawn_at = event.t
        return True

    def _live(self, text: str) -> None:
        if self._rewrites:
            self._stream.write(f"\r\x1b[K{clean(text)[:78]}")
            self._stream.flush()
            self._alive = True
