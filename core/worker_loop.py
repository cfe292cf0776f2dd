"""A worker's pipes as its client sees them: events and output read, commands written, the end of the process seen."""

import contextlib
import functools
import os
import selectors
import socket
import time
from collections import deque
from collections.abc import Callable
from typing import Literal

from .event_queue import EventQueue
from .events import End, Event, Hello, Log, SchemaError
from .lines import LINE_LIMIT, LineAssembler, TextLines, read_event
from .worker_process import EVENT_PIPE_BYTES, WorkerProcess

Stream = Literal["stdout", "stderr"]

CHUNK = 1 << 18
PARTIAL_LINE_S = 0.2
"""A line that was begun and not ended is shown after this."""
STDERR_KEPT = 60
"""Lines of standard error that explain a death."""
PENDING_MAX = 20_000
"""Events that wait to be taken, beyond which no more are read: they wait in the worker, which does not mind."""
FULL_POLL_S = 0.02
"""How often it is looked whether events were taken."""
POLL_S = 0.25
"""How often a dead worker is looked for where the system cannot tell."""
EXIT_GRACE_S = 3.0
"""For a worker to be gone after its last event or the end of its event pipe."""
LAST_WORDS_BYTES = 2 * EVENT_PIPE_BYTES
"""Read of each pipe of a dead worker: more than it holds, and an end where something else writes on and on."""


class StreamClock:
    """Seconds since the worker's `hello` came, before that since the start: as the worker counts."""

    def __init__(self) -> None:
        self.origin = time.monotonic()

    def __call__(self) -> float:
        """Now."""
        return round(time.monotonic() - self.origin, 6)


class WorkerLoop:
    """Reads a worker's three pipes and writes its commands, until it is dead and its pipes are empty."""

    def __init__(
        self,
        process: WorkerProcess,
        queue: EventQueue,
        clock: StreamClock,
        wake: socket.socket,
        take_commands: Callable[[], bytes],
        close_grace_s: Callable[[], float | None],
    ) -> None:
        self.end: End | None = None
        """The worker's own, given out when it is gone."""
        self.killed_because = ""
        self.stderr_tail: deque[str] = deque(maxlen=STDERR_KEPT)
        self._process = process
        self._queue = queue
        self._clock = clock
        self._wake = wake
        self._take_commands = take_commands
        self._close_grace_s = close_grace_s
        self._unsent = b""
        self._kill_at: float | None = None
        self._kill_reason = ""
        self._closing = False
        self._held_back = False
        self._events_ended = False
        self._event_lines = LineAssembler()
        self._lines_skipped = 0
        self._text_at = 0.0
        self._text: dict[Stream, TextLines] = {"stdout": TextLines(), "stderr": TextLines()}
        self._readers: dict[int, Callable[[bytes], None]] = {
            process.event_fd: self._on_events,
            process.stdout_fd: functools.partial(self._on_text, "stdout"),
            process.stderr_fd: functools.partial(self._on_text, "stderr"),
        }

    def run(self) -> None:
        """Returns when the process is dead, not yet reaped."""
        with selectors.DefaultSelector() as selector:
            for fd in self._readers:
                selector.register(fd, selectors.EVENT_READ)
            selector.register(self._wake, selectors.EVENT_READ)
            if self._process.pidfd is not None:
                selector.register(self._process.pidfd, selectors.EVENT_READ)
            while not self._process.has_ended():
                self._obey()
                self._send(selector)
                self._hold_back(selector)
                looked_at = time.monotonic()
                for key, _ in selector.select(self._patience()):
                    if key.fd in self._readers and not self._read(key.fd):
                        selector.unregister(key.fd)
                        if key.fd == self._process.event_fd:
                            self._events_ended = True
                            self._expect_exit(EXIT_GRACE_S, "closed its event pipe, went on, and was killed")
                # By the time before looking: only then had the pipe nothing more, however late this is.
                if looked_at - self._text_at >= PARTIAL_LINE_S:
                    self._flush_text()
        self._process.kill()  # what it started may hold its pipes open
        self._read_last_words()

    def _obey(self) -> None:
        """Do what the surface and the clock ask for."""
        with contextlib.suppress(BlockingIOError):
            self._wake.recv(4096)
        grace = self._close_grace_s()
        if grace is not None and not self._closing:
            self._closing = True
            self._expect_exit(grace, "")
        if self._kill_at is not None and time.monotonic() >= self._kill_at:
            self._kill_at, self.killed_because = None, self._kill_reason
            self._process.kill()

    def _expect_exit(self, grace_s: float, kill_reason: str) -> None:
        kill_at = time.monotonic() + grace_s
        if self._kill_at is None or kill_at < self._kill_at:
            self._kill_at, self._kill_reason = kill_at, kill_reason

    def _patience(self) -> float | None:
        """Seconds to wait for something to happen."""
        waits = [] if self._process.pidfd is not None else [POLL_S]
        if any(text.pending for text in self._text.values()):
            waits.append(max(0.0, self._text_at + PARTIAL_LINE_S - time.monotonic()))
        if self._held_back:
            waits.append(FULL_POLL_S)
        if self._kill_at is not None:
            waits.append(max(0.0, self._kill_at - time.monotonic()))
        return min(waits, default=None)

    def _send(self, selector: selectors.BaseSelector) -> None:
        """Write commands as far as the worker takes them; close its standard input when asked to."""
        fd = self._process.stdin_fd
        if fd is None:
            return
        self._unsent += self._take_commands()
        if self._unsent:
            try:
                self._unsent = self._unsent[os.write(fd, self._unsent) :]
            except BlockingIOError:
                pass
            except OSError:
                self._unsent = b""
        registered = fd in selector.get_map()
        if self._unsent and not self._closing:
            if not registered:
                selector.register(fd, selectors.EVENT_WRITE)
        elif registered:
            selector.unregister(fd)
        if self._closing:
            self._process.close_stdin()

    def _hold_back(self, selector: selectors.BaseSelector) -> None:
        """Leave events in the pipe while too many wait already: a surface must not fall behind without end."""
        full = self._queue.pending >= PENDING_MAX
        if full == self._held_back or self._events_ended:
            return
        self._held_back = full
        if full:
            selector.unregister(self._process.event_fd)
        else:
            selector.register(self._process.event_fd, selectors.EVENT_READ)

    def _read(self, fd: int) -> bool:
        """Read once; False at the end of the pipe."""
        try:
            chunk = os.read(fd, CHUNK)
        except BlockingIOError:
            return True
        self._readers[fd](chunk)
        return bool(chunk)

    def _read_last_words(self) -> None:
        for fd, take in self._readers.items():
            left = LAST_WORDS_BYTES
            with contextlib.suppress(BlockingIOError):
                while left > 0 and (chunk := os.read(fd, CHUNK)):
                    take(chunk)
                    left -= len(chunk)
        self._flush_text()

    def _flush_text(self) -> None:
        """Give out lines without an end."""
        for stream, text in self._text.items():
            self._log_lines(stream, text.flush())

    def _on_text(self, stream: Stream, chunk: bytes) -> None:
        self._text_at = time.monotonic()
        self._log_lines(stream, self._text[stream].feed(chunk))

    def _log_lines(self, stream: Stream, lines: list[str]) -> None:
        if stream == "stderr":
            self.stderr_tail.extend(lines)
        self._queue.put(*(Log(t=self._clock(), source=stream, text=line) for line in lines))

    def _on_events(self, chunk: bytes) -> None:
        events: list[Event] = []
        for line in self._event_lines.feed(chunk):
            event = self._event(line)
            if isinstance(event, Hello):
                self._clock.origin = time.monotonic() - event.t
            if isinstance(event, End):
                self.end = self.end or event
                self._expect_exit(EXIT_GRACE_S, "")
            elif event is not None:
                events.append(event)
        if self._event_lines.skipped > self._lines_skipped:
            self._lines_skipped = self._event_lines.skipped
            events.append(self._note(f"an event of more than {LINE_LIMIT >> 20} MiB was left out"))
        self._queue.put(*events)

    def _event(self, line: bytes) -> Event | None:
        try:
            return read_event(line)
        except SchemaError as error:
            return self._note(f"an event was left out: {error}")
        except ValueError as error:
            return self._note(f"a line from the worker is not an event ({error}): {line[:80]!r}")

    def _note(self, text: str) -> Log:
        return Log(t=self._clock(), source="client", text=text)
