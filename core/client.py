"""The surface's side of a worker: it starts one, sends commands, yields events, and knows how a worker died."""

import contextlib
import functools
import os
import selectors
import socket
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Literal

from .commands import Command, encode_command
from .event_queue import EventQueue
from .events import End, Error, Event, Hello, Log, SchemaError
from .lines import LINE_LIMIT, LineAssembler, TextLines, read_event
from .settings import RunSettings
from .worker_process import WorkerProcess, describe_exit, exit_hint

CHUNK = 1 << 18
PARTIAL_LINE_S = 0.2
"""A line that was begun and not ended is shown after this."""
STDERR_KEPT = 60
"""Lines of standard error that explain a death."""
POLL_S = 0.25
"""How often a dead worker is looked for where the system cannot tell."""
EXIT_GRACE_S = 3.0
"""For a worker to be gone after its last event or the end of its event pipe."""
KILL_WAIT_S = 1.5
"""`close` leaves a process behind that SIGKILL has not ended after this: it is stuck inside the kernel."""
LAST_WORDS_S = 1.0
"""For reading what a dead worker left in its pipes."""


class EngineClient:
    """One worker process, from start to end.

    All work is done by one thread, which also starts the process: the worker asks the kernel to end it with the thread
    that started it, so this may be made from any thread, however short-lived. Events are taken by one consumer, with
    `drain` or `events`. The last event is `End`, always and once; a worker that cannot be started, or dies before it
    said `End`, is an `Error` of kind "worker_died" before it.
    """

    def __init__(self, settings: RunSettings, *, python: str = sys.executable, session: str | None = None) -> None:
        self.pid: int | None = None
        """Of the worker; null if it could not be started."""
        self._start = functools.partial(WorkerProcess, settings, python=python, session=session)
        self._queue = EventQueue()
        self._lock = threading.Lock()
        self._commands = bytearray()
        self._close_grace_s: float | None = None
        self._wake_receiver, self._wake_sender = socket.socketpair()
        self._wake_receiver.setblocking(False)
        self._wake_sender.setblocking(False)
        started = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(started,), name="cgtop-client", daemon=True)
        self._thread.start()
        started.wait()

    @property
    def alive(self) -> bool:
        """Whether the worker process may still be there."""
        return self._thread.is_alive()

    def drain(self) -> list[Event]:
        """All events that have come since the last call, without waiting."""
        return self._queue.drain()

    def events(self) -> Iterator[Event]:
        """Every event, waiting for each, up to and with `End`."""
        while self._queue.wait():
            yield from self._queue.drain()

    def send(self, command: Command) -> bool:
        """Send a command, without waiting. False if there is no worker any more, or it is being closed."""
        if not self.alive or self._close_grace_s is not None:
            return False
        with self._lock:
            self._commands += encode_command(command)
        self._wake()
        return True

    def close(self, timeout: float = 1.0) -> None:
        """End the worker and wait until it is gone. Never waits for a kernel: after `timeout` seconds it is killed."""
        self.begin_close(timeout)
        self._thread.join(timeout + KILL_WAIT_S)

    def begin_close(self, timeout: float = 1.0) -> None:
        """The same without waiting: `alive` says when the worker is gone."""
        if self._close_grace_s is None:
            self._close_grace_s = timeout
        self._wake()

    def _wake(self) -> None:
        with contextlib.suppress(OSError):  # full: it is awake anyway; closed: it is gone
            self._wake_sender.send(b"x")

    def _run(self, started: threading.Event) -> None:
        stamp = _Clock()
        try:
            process = self._start()
        except (OSError, ValueError) as error:
            headline = f"The worker could not be started: {error}"
            hint = "Check the Python interpreter that cgtop runs on."
            self._queue.put(Error(t=stamp(), kind="worker_died", headline=headline, hint=hint))
            self._queue.put(End(t=stamp(), reason="the worker could not be started", exit_code=1))
            return
        else:
            self.pid = process.pid
        finally:
            started.set()
        loop = _Loop(process, self._queue, stamp, self._wake_receiver, self._take_commands, lambda: self._close_grace_s)
        try:
            loop.run()
        except Exception as error:  # a fault here must neither leave a process behind nor a reader waiting
            self._queue.put(Log(t=stamp(), source="client", text=f"the client failed: {type(error).__name__}: {error}"))
        process.kill()
        code = process.reap()
        process.close_pipes()
        self._wake_receiver.close()
        self._wake_sender.close()
        self._queue.put(*_last_events(loop, code, stamp(), asked=self._close_grace_s is not None))

    def _take_commands(self) -> bytes:
        with self._lock:
            data, self._commands = bytes(self._commands), bytearray()
            return data


def _last_events(loop: "_Loop", code: int, t: float, *, asked: bool) -> tuple[Event, ...]:
    if loop.end is not None:
        return (loop.end,)
    if asked:
        return (End(t=t, reason="closed"),)
    error = Error(
        t=t,
        kind="worker_died",
        headline=f"The worker {loop.killed_because or describe_exit(code)}",
        hint=exit_hint(code),
        detail="\n".join(loop.stderr_tail),
    )
    return error, End(t=t, reason="the worker died", exit_code=1, signal=-code if code < 0 else None)


class _Clock:
    """Seconds since the worker's `hello` came, before that since the start: as the worker counts."""

    def __init__(self) -> None:
        self.origin = time.monotonic()

    def __call__(self) -> float:
        return round(time.monotonic() - self.origin, 6)


class _Loop:
    """Reads a worker's three pipes and writes its commands, until it is dead and its pipes are empty."""

    def __init__(
        self,
        process: WorkerProcess,
        queue: EventQueue,
        stamp: _Clock,
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
        self._stamp = stamp
        self._wake = wake
        self._take_commands = take_commands
        self._close_grace_s = close_grace_s
        self._unsent = b""
        self._kill_at: float | None = None
        self._kill_reason = ""
        self._closing = False
        self._event_lines = LineAssembler()
        self._lines_skipped = 0
        self._text: dict[Literal["stdout", "stderr"], TextLines] = {"stdout": TextLines(), "stderr": TextLines()}
        self._readers: dict[int, Callable[[bytes], None]] = {
            process.event_fd: self._on_events,
            process.stdout_fd: lambda chunk: self._on_text("stdout", self._text["stdout"].feed(chunk)),
            process.stderr_fd: lambda chunk: self._on_text("stderr", self._text["stderr"].feed(chunk)),
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
                ready = selector.select(self._patience())
                for key, _ in ready:
                    if key.fd in self._readers and not self._read(key.fd):
                        selector.unregister(key.fd)
                        if key.fd == self._process.event_fd:
                            self._expect_exit(EXIT_GRACE_S, "closed its event pipe, went on, and was killed")
                if not ready:
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
            waits.append(PARTIAL_LINE_S)
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

    def _read(self, fd: int) -> bool:
        """Read once; False at the end of the pipe."""
        try:
            chunk = os.read(fd, CHUNK)
        except BlockingIOError:
            return True
        self._readers[fd](chunk)
        return bool(chunk)

    def _read_last_words(self) -> None:
        until = time.monotonic() + LAST_WORDS_S
        for fd, take in self._readers.items():
            with contextlib.suppress(BlockingIOError):
                while time.monotonic() < until and (chunk := os.read(fd, CHUNK)):
                    take(chunk)
        self._flush_text()

    def _flush_text(self) -> None:
        for stream, text in self._text.items():
            self._on_text(stream, text.flush())

    def _on_text(self, stream: Literal["stdout", "stderr"], lines: list[str]) -> None:
        if stream == "stderr":
            self.stderr_tail.extend(lines)
        self._queue.put(*(Log(t=self._stamp(), source=stream, text=line) for line in lines))

    def _on_events(self, chunk: bytes) -> None:
        events: list[Event] = []
        for line in self._event_lines.feed(chunk):
            event = self._event(line)
            if isinstance(event, Hello):
                self._stamp.origin = time.monotonic() - event.t
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
        return Log(t=self._stamp(), source="client", text=text)
