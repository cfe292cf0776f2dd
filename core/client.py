"""The surface's side of a worker: it starts one, sends commands, yields events, and knows how a worker died."""

import contextlib
import functools
import socket
import sys
import threading
from collections.abc import Iterator

from .commands import Command, encode_command
from .event_queue import EventQueue
from .events import End, Error, Event, Log
from .settings import RunSettings
from .worker_loop import StreamClock, WorkerLoop
from .worker_process import WorkerProcess, describe_exit, exit_hint

KILL_WAIT_S = 1.5
"""`close` leaves a process behind that SIGKILL has not ended after this: it is stuck inside the kernel."""


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
        """Whether the worker process may still be there: until its `End` is out."""
        return not self._queue.ended

    def drain(self, limit: int | None = None) -> list[Event]:
        """All events that have come since the last call, or the first `limit` of them, without waiting."""
        return self._queue.drain(limit)

    def events(self) -> Iterator[Event]:
        """Every event that was not taken yet, waiting for each, up to and with `End`. May be left and begun again."""
        while (event := self._queue.take()) is not None:
            yield event

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
        with self._wake_receiver, self._wake_sender:
            clock = StreamClock()
            try:
                process = self._start()
            except (OSError, ValueError) as error:
                headline = f"The worker could not be started: {error}"
                hint = "Check the Python interpreter that cgtop runs on."
                self._queue.put(Error(t=clock(), kind="worker_died", headline=headline, hint=hint))
                self._queue.put(End(t=clock(), reason="the worker could not be started", exit_code=1))
                return
            else:
                self.pid = process.pid
            finally:
                started.set()
            self._serve(process, clock)

    def _serve(self, process: WorkerProcess, clock: StreamClock) -> None:
        loop = WorkerLoop(
            process, self._queue, clock, self._wake_receiver, self._take_commands, lambda: self._close_grace_s
        )
        try:
            loop.run()
        except Exception as error:  # a fault here must neither leave a process behind nor a reader waiting
            text = f"the client failed: {type(error).__name__}: {error}"
            self._queue.put(Log(t=clock(), source="client", text=text))
        process.kill()
        code = process.reap()
        process.close_pipes()
        self._queue.put(*_last_events(loop, code, clock(), asked=self._close_grace_s is not None))

    def _take_commands(self) -> bytes:
        with self._lock:
            data, self._commands = bytes(self._commands), bytearray()
            return data


def _last_events(loop: WorkerLoop, code: int, t: float, *, asked: bool) -> tuple[Event, ...]:
    if loop.end is not None:
        return (loop.end,)
    if asked:
        return (End(t=t, reason="closed"),)
    error = Error(
        t=t,
        kind="worker_died",
        headline=f"The worker {loop.killed_because or describe_exit(code)}",
        hint=exit_hint(0 if loop.killed_because else code),
        detail="\n".join(loop.stderr_tail),
    )
    return error, End(t=t, reason="the worker died", exit_code=1, signal=-code if code < 0 else None)
