"""What the client takes out of a worker's pipes, however late it is: a test fills the pipes and moves the clock."""

import os
import socket
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import cast

import pytest

from cgtop.core import worker_loop
from cgtop.core.event_queue import EventQueue
from cgtop.core.events import Event, Log, Tokens, encode_event
from cgtop.core.worker_loop import PARTIAL_LINE_S, StreamClock, WorkerLoop
from cgtop.core.worker_process import WorkerProcess


class LateClock:
    """Every look at it is a while after the one before: the thread that looks was held up."""

    now = 0.0

    def monotonic(self) -> float:
        self.now += 2 * PARTIAL_LINE_S
        return self.now


class FakeProcess:
    """A worker that lives for as many looks at it as there are steps, and does one at each."""

    pidfd = stdin_fd = None

    def __init__(self) -> None:
        self.steps: list[Callable[[], object]] = []
        pipes = [os.pipe() for _ in range(3)]
        (self.event_fd, self.events), (self.stdout_fd, self.stdout), (self.stderr_fd, self.stderr) = pipes
        self.fds = [fd for pipe in pipes for fd in pipe]
        for fd in self.fds:
            os.set_blocking(fd, False)

    def has_ended(self) -> bool:
        if not self.steps:
            return True
        self.steps.pop(0)()
        return False

    def prints(self, data: bytes) -> Callable[[], object]:
        return lambda: os.write(self.stdout, data)

    def kill(self) -> None:
        pass


@pytest.fixture
def process(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeProcess]:
    monkeypatch.setattr(worker_loop, "time", SimpleNamespace(monotonic=LateClock().monotonic))
    process = FakeProcess()
    yield process
    for fd in process.fds:
        os.close(fd)


def events_of(process: FakeProcess) -> list[Event]:
    queue = EventQueue()
    wake, other = socket.socketpair()
    with wake, other:
        wake.setblocking(False)
        known = cast(WorkerProcess, process)
        WorkerLoop(known, queue, StreamClock(), wake, lambda: b"", lambda: None).run()
    return queue.drain()


def test_a_line_that_goes_on_in_the_pipe_is_not_cut_because_the_reader_is_late(process: FakeProcess) -> None:
    process.steps = [process.prints(b"one li"), process.prints(b"ne\n")]
    assert [event.text for event in events_of(process) if isinstance(event, Log)] == ["one line"]


def test_all_that_a_dead_worker_left_is_read_however_long_that_takes(process: FakeProcess) -> None:
    told = [Tokens(mode="graph", ids=(number,)) for number in range(200)]
    os.write(process.events, b"".join(encode_event(event) + b"\n" for event in told))
    os.write(process.stdout, b"last words")
    events = events_of(process)
    assert [event for event in events if isinstance(event, Tokens)] == told
    assert [event.text for event in events if isinstance(event, Log)] == ["last words"]


def test_what_writes_on_into_a_dead_workers_pipe_is_not_read_for_ever(
    process: FakeProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(fd: int, size: int) -> bytes:
        return b"again\n" * (size // 6) if fd == process.stdout_fd else b""

    monkeypatch.setattr(worker_loop, "os", SimpleNamespace(read=read, write=os.write))
    assert any(isinstance(event, Log) and event.text == "again" for event in events_of(process))
