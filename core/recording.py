"""Recordings read: the events of a run from disk, and its state at any moment of it.

Nothing in a file is trusted: lines of any length, nesting and content are either events that cannot act on a terminal
or are skipped and counted.
"""

import bisect
import contextlib
import gc
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from .events import Event, Hello, PhaseBegin, PhaseId, SchemaError
from .lines import LineAssembler, are_harmless, read_event
from .recorder import RecordingError, RecordingWriter
from .state import RunState, fold

__all__ = ["Recording", "RecordingError", "RecordingWriter", "open_recording"]

CHUNK = 1 << 18
BYTES_MAX = 2 << 30
"""Bytes of JSON that are read of one recording: far more than a day of decoding."""
EVENTS_MAX = 2_000_000
LINES_MAX = 4_000_000
"""With those that say nothing, of which a small file may unpack to hundreds of millions."""
T_MAX = 1e8
"""Seconds: some three years."""
FOREIGN_AFTER = 1000
"""Lines without a single event after which a file is taken for something else."""
CHECKPOINT_EVENTS = 512

_GZIP_MAGIC = b"\x1f\x8b"
_GZIP_WBITS = 31


class Recording:
    """A run on disk. Times are seconds since its `hello`, or since the first where it holds several runs."""

    def __init__(self, events: list[Event], *, skipped: int = 0, truncated: bool = False) -> None:
        """`events` must hold a `Hello`."""
        self.events = events
        self.skipped = skipped
        """Lines that could not be read."""
        self.truncated = truncated
        """Whether it breaks off, as one does whose writer was killed."""
        self.hello = next(event for event in events if isinstance(event, Hello))
        self.times = _timeline(events)
        """When each event happens: never before the one ahead of it."""
        self.duration = self.times[-1]
        self.phase_times: list[tuple[float, PhaseId]] = [
            (t, event.phase) for t, event in zip(self.times, events, strict=True) if isinstance(event, PhaseBegin)
        ]
        """When each phase begins, in order."""
        self._checkpoints = [RunState()]
        self._last = (0, RunState())

    def index_at(self, t: float) -> int:
        """How many events have happened by `t`."""
        return bisect.bisect_right(self.times, t)

    def state_at(self, t: float) -> RunState:
        """What is known at `t`."""
        return self.state_after(self.index_at(t))

    def state_after(self, count: int) -> RunState:
        """What is known after the first `count` events. Quick forwards by little, and anywhere the second time."""
        count = min(max(count, 0), len(self.events))
        start, state = self._last
        mark = min(count // CHECKPOINT_EVENTS, len(self._checkpoints) - 1)
        if not mark * CHECKPOINT_EVENTS <= start <= count:
            start, state = mark * CHECKPOINT_EVENTS, self._checkpoints[mark]
        for index in range(start, count):
            state = fold(state, self.events[index])
            if index + 1 == len(self._checkpoints) * CHECKPOINT_EVENTS:
                self._checkpoints.append(state)
        self._last = (count, state)
        return state


def open_recording(path: Path) -> Recording:
    """Read a recording, whole or cut off, gzipped or not.

    Raises `RecordingError` for a file that cannot be read, is empty or something else, or is of a newer cgtop.
    """
    events: list[Event] = []
    try:
        with path.open("rb") as file, _without_gc():
            reader = _Reader(file)
            for event in reader.events():
                events.append(event)
                if len(events) >= EVENTS_MAX:
                    reader.truncated = True
                    break
    except SchemaError as error:
        raise RecordingError(f"{path} is {error}") from error
    except OSError as error:
        raise RecordingError(f"{path} cannot be read: {error.strerror or error}") from error
    if not reader.lines:
        raise RecordingError(f"{path} is empty" if not reader.bytes else f"{path} is not a recording of cgtop")
    if not events:
        raise RecordingError(f"{path} is not a recording of cgtop: no line of it is an event")
    if not any(isinstance(event, Hello) for event in events):
        raise RecordingError(f"{path} does not say what was measured: it holds no hello")
    return Recording(events, skipped=reader.skipped, truncated=reader.truncated)


class _Reader:
    """Events out of a file, in bounded memory but for the events themselves."""

    def __init__(self, file: BinaryIO) -> None:
        self.bytes = 0
        self.lines = 0
        self.truncated = False
        self._unread = 0
        self._passed = 0
        self._file = file
        self._assembler = LineAssembler()

    @property
    def skipped(self) -> int:
        return self._unread + self._assembler.skipped

    def events(self) -> Iterator[Event]:
        known = 0
        for lines in self._line_groups():
            harmless = are_harmless(lines)
            for line in lines:
                if not line.strip():
                    continue
                self.lines += 1
                event = self._event(line, harmless)
                if event is not None:
                    known += 1
                    yield event
            self._passed += len(lines)
            if self._passed >= LINES_MAX:
                self.truncated = True
                return
            if not known and self.lines + self._assembler.skipped >= FOREIGN_AFTER:
                return

    def _event(self, line: bytes, harmless: bool) -> Event | None:
        try:
            event = read_event(line, harmless=harmless)
        except SchemaError:
            raise
        except ValueError:
            self._unread += 1
            return None
        if event is not None and not 0 <= event.t <= T_MAX:
            self._unread += 1
            return None
        return event

    def _line_groups(self) -> Iterator[list[bytes]]:
        for chunk in self._chunks():
            self.bytes += len(chunk)
            yield self._assembler.feed(chunk)
            if self.bytes >= BYTES_MAX:
                self.truncated = True
                return
        rest = self._assembler.rest()
        if rest.strip():
            if rest.rstrip().endswith(b"}"):  # complete but for its newline
                yield [rest]
            else:
                self.lines += 1
                self.truncated = True

    def _chunks(self) -> Iterator[bytes]:
        start = self._file.read(CHUNK)
        if not start.startswith(_GZIP_MAGIC):
            while start:
                yield start
                start = self._file.read(CHUNK)
            return
        try:
            yield from self._decompressed(start)
        except zlib.error:
            self.truncated = True

    def _decompressed(self, data: bytes) -> Iterator[bytes]:
        """Of one gzip member after another, never more than a chunk at a time."""
        member = zlib.decompressobj(wbits=_GZIP_WBITS)
        while data:
            if chunk := member.decompress(data, CHUNK):
                yield chunk
            if member.eof:
                data = member.unused_data.lstrip(b"\0") or self._file.read(CHUNK).lstrip(b"\0")
                if not data:
                    return
                member = zlib.decompressobj(wbits=_GZIP_WBITS)
            else:
                data = member.unconsumed_tail or self._file.read(CHUNK)
        if chunk := member.flush():
            yield chunk
        self.truncated = True


def _timeline(events: list[Event]) -> list[float]:
    """Times that never go back. What comes before the first `Hello` happens at 0; a second run follows the first."""
    times: list[float] = []
    offset = now = 0.0
    begun = False
    for event in events:
        if isinstance(event, Hello):
            offset, begun = now, True
        if begun:
            now = max(now, offset + event.t)
        times.append(now)
    return times


@contextlib.contextmanager
def _without_gc() -> Iterator[None]:
    """Thousands of events at once would have the collector walk all of them again and again, for nothing."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
