"""The worker process and its event sink: nothing waits for a reader, and the process ends whenever it should."""

import ctypes
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import msgspec
import pytest

from cgtop.core.commands import Quit, RunAll, encode_command
from cgtop.core.engine.sink import EventSink
from cgtop.core.events import (
    Decode,
    End,
    Error,
    Event,
    Hello,
    Log,
    PhaseBegin,
    PhaseEnd,
    Progress,
    Status,
    Telemetry,
    Tokens,
    decode_event,
)
from cgtop.core.phases import PHASE_IDS
from cgtop.core.settings import RunSettings
from tests.fakes.processes import PATIENCE_S, is_running, takes_less, wait_until
from tests.sample import decode, hello, memory


class FakeClock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


class SlowPipe:
    """A pipe filled to the brim, so that a writer must wait until it is read."""

    def __init__(self) -> None:
        self.reader, self.writer = os.pipe()
        os.set_blocking(self.writer, False)
        self.filled = 0
        with pytest.raises(BlockingIOError):
            while True:
                self.filled += os.write(self.writer, b"\n" * 4096)
        os.set_blocking(self.writer, True)

    def read_events(self) -> list[Event]:
        """All events up to the end of the pipe."""
        with open(self.reader, "rb") as file:  # noqa: PTH123
            lines = [line for line in file.read().split(b"\n") if line]
        return [event for line in lines if (event := decode_event(line)) is not None]


def wait_for_writer(sink: EventSink) -> None:
    """Until the writer has taken what was emitted, and hangs in the pipe."""
    assert wait_until(lambda: not sink._pending)


def test_events_get_the_time_since_hello_unless_they_have_one() -> None:
    clock = FakeClock()
    pipe = SlowPipe()
    sink = EventSink(pipe.writer, clock)
    clock.now += 2.0
    sink.emit(Log(source="engine", text="before hello"))
    clock.now += 1.0
    sink.emit(hello())
    clock.now += 0.25
    sink.emit(PhaseBegin(phase="load"))
    sink.emit(PhaseBegin(t=77.0, phase="load"))
    reader = threading.Thread(target=sink.close, args=(PATIENCE_S,))
    reader.start()
    assert [event.t for event in pipe.read_events()] == [2.0, 0.0, 0.25, 77.0]
    reader.join()


@pytest.mark.timed
def test_a_reader_that_does_not_read_never_holds_up_the_emitter_and_loses_samples_only() -> None:
    pipe = SlowPipe()
    sink = EventSink(pipe.writer)
    sink.emit(hello())
    wait_for_writer(sink)
    told = 0

    def emitted() -> float:
        nonlocal told
        began = time.monotonic()
        for _ in range(2000):
            told += 1
            sink.emit(Tokens(mode="graph", ids=(told,)))
            sink.emit(decode(float(told), "graph", told, 100.0, 40))
            sink.emit(memory(float(told), "replay", live=True))
        return time.monotonic() - began

    assert takes_less(2.0, emitted)
    assert not sink.close(0.01)
    events = pipe.read_events()
    assert [event.ids[0] for event in events if isinstance(event, Tokens)] == list(range(1, told + 1))
    assert [event.tokens for event in events if isinstance(event, Decode)] == [told]
    assert sink.dropped_samples == 2 * (told - 1)


def test_a_stale_sample_never_follows_what_was_emitted_after_it() -> None:
    pipe = SlowPipe()
    sink = EventSink(pipe.writer)
    sink.emit(hello())
    wait_for_writer(sink)
    sink.emit(Progress(phase="load", done=1))
    sink.emit(decode(1.0, "eager", 5, 20.0, 40))
    sink.emit(Progress(phase="load", done=2))
    sink.emit(PhaseEnd(phase="load"))
    sink.emit(decode(2.0, "graph", 1, 100.0, 41))
    sink.emit(memory(2.0, "load"))
    sink.emit(memory(2.5, "prefill"))
    sink.emit(End(reason="done"))
    sink.emit(Telemetry(gpu_percent=1))
    sink.emit(End(reason="a second end"))
    threading.Thread(target=sink.close, args=(PATIENCE_S,)).start()
    kinds = [type(event).__name__ for event in pipe.read_events()]
    assert kinds == ["Hello", "Decode", "Progress", "PhaseEnd", "Decode", "Memory", "Memory", "End"]


def test_the_end_says_how_many_samples_were_replaced() -> None:
    pipe = SlowPipe()
    sink = EventSink(pipe.writer)
    sink.emit(hello())
    wait_for_writer(sink)
    for index in range(5):
        sink.emit(Telemetry(gpu_percent=index))
    sink.emit(End(reason="done"))
    threading.Thread(target=sink.close, args=(PATIENCE_S,)).start()
    *_, sample, end = pipe.read_events()
    assert isinstance(sample, Telemetry) and sample.gpu_percent == 4
    assert isinstance(end, End) and end.dropped_samples == 4


def test_a_dead_reader_is_no_error() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    sink = EventSink(writer)
    for index in range(100):
        sink.emit(Tokens(mode="graph", ids=(index,)))
    assert sink.close(PATIENCE_S)
    sink.emit(Status(state="idle"))


# ------------------------------------------------------------------------------------------------ the real process


class Worker:
    """A worker started without the client."""

    def __init__(self, session: str, *, parent_pid: int | None = None, settings: RunSettings | None = None) -> None:
        reader, writer = os.pipe()
        self.process = subprocess.Popen(
            [
                *(sys.executable, "-m", "cgtop.core.engine.worker"),
                *("--event-fd", str(writer), "--session", f"tests.fakes.sessions:{session}"),
                *("--settings", msgspec.json.encode(settings or RunSettings()).decode()),
                *(["--parent-pid", str(parent_pid)] if parent_pid is not None else []),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=(writer,),
            bufsize=0,
        )
        os.close(writer)
        self._lines = os.fdopen(reader, "rb")

    def write(self, line: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line)

    def close_stdin(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()

    def next(self) -> Event | None:
        line = self._lines.readline()
        return decode_event(line) if line else None

    def until(self, wanted: Callable[[Event], bool]) -> list[Event]:
        """The events up to and with the first that is wanted."""
        events: list[Event] = []
        while not events or not wanted(events[-1]):
            event = self.next()
            assert event is not None, events
            events.append(event)
        return events

    def rest(self) -> list[Event]:
        return [event for line in self._lines if (event := decode_event(line)) is not None]

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        self._lines.close()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()


@contextmanager
def worker(session: str, *, parent_pid: int | None = None, settings: RunSettings | None = None) -> Iterator[Worker]:
    started = Worker(session, parent_pid=parent_pid, settings=settings)
    try:
        yield started
    finally:
        started.close()


def test_commands_reach_the_gpu_thread_and_its_exit_code_is_the_process_s() -> None:
    with worker("phases") as it:
        it.write(b"no command\n")
        it.write(encode_command(RunAll()))
        events = it.until(lambda event: isinstance(event, PhaseEnd) and event.phase == PHASE_IDS[-1])
        it.write(encode_command(Quit()))
        events += it.rest()
        assert it.process.wait(PATIENCE_S) == 0
    assert any(isinstance(event, Hello) for event in events)
    assert len([event for event in events if isinstance(event, PhaseEnd)]) == 9
    assert any(isinstance(event, Log) and "not understood" in event.text for event in events)
    assert events[-1] == msgspec.structs.replace(End(reason="done"), t=events[-1].t)
    with worker("exit_code_3") as it:
        *_, end = it.rest()
        assert isinstance(end, End) and end.exit_code == 3
        assert it.process.wait(PATIENCE_S) == 3


@pytest.mark.timed
def test_the_worker_ends_when_its_standard_input_closes_even_in_the_middle_of_a_step() -> None:
    def ended() -> float:
        with worker("hangs") as it:
            assert isinstance(it.next(), Hello)
            began = time.monotonic()
            it.close_stdin()
            assert it.process.wait(PATIENCE_S) == 0
            took = time.monotonic() - began
            assert isinstance(it.rest()[-1], End)
            return took

    assert takes_less(2.0, ended)


def test_a_reader_that_is_late_still_gets_everything_that_was_told_before_the_end() -> None:
    with worker("burst") as it:
        it.write(encode_command(RunAll()))
        time.sleep(1.5)  # it has long wanted to end
        events = it.rest()
    assert len([event for event in events if isinstance(event, Tokens)]) == 9800
    assert isinstance(events[-1], End)


def test_a_fault_of_the_engine_becomes_an_error_with_its_traceback() -> None:
    with worker("fails") as it:
        *_, error, end = it.rest()
        assert it.process.wait(PATIENCE_S) == 1
    assert isinstance(error, Error)
    assert (error.kind, error.recoverable) == ("internal", False)
    assert "a fault that nobody expected" in error.headline
    assert "sessions.py" in error.detail
    assert isinstance(end, End) and end.exit_code == 1


def test_a_missing_torch_is_a_missing_package_with_a_way_to_get_it_not_a_fault() -> None:
    with worker("without_torch") as it:
        events = it.rest()
        assert it.process.wait(PATIENCE_S) == 3
    error = next(event for event in events if isinstance(event, Error))
    assert error.kind == "missing_package" and "torch" in error.headline
    assert "make run" in error.hint or "pip install" in error.hint
    assert isinstance(events[-1], End) and events[-1].exit_code == 3


def test_a_session_that_cannot_be_imported_is_an_error_too() -> None:
    with worker("there_is_no_such_function") as it:
        error, end = it.rest()
        assert it.process.wait(PATIENCE_S) == 1
    assert isinstance(error, Error) and "no_such_function" in error.headline
    assert isinstance(end, End)


def test_a_worker_whose_parent_is_gone_already_does_not_start() -> None:
    with worker("phases", parent_pid=1) as it:
        assert it.rest() == []
        assert it.process.wait(PATIENCE_S) == 1


def test_progress_bars_are_off_before_the_session_is_imported() -> None:
    with worker("environment") as it:
        log = next(event for event in it.rest() if isinstance(event, Log))
    assert "TQDM_DISABLE=1" in log.text
    assert "HF_HUB_DISABLE_PROGRESS_BARS=1" in log.text
    assert "torch" not in log.text


DIES = """
import sys, time
from cgtop.core.client import EngineClient
from cgtop.core.settings import RunSettings
client = EngineClient(RunSettings(), session="tests.fakes.sessions:hangs_holding_the_gil")
print(client.pid, flush=True)
time.sleep(60)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="asks the Linux kernel to end the worker")
def test_killing_the_user_interface_kills_a_worker_that_cannot_even_read_its_commands() -> None:
    surface = subprocess.Popen([sys.executable, "-c", DIES], stdout=subprocess.PIPE, text=True)
    try:
        assert surface.stdout is not None
        pid = int(surface.stdout.readline())
        time.sleep(0.6)  # until its GPU thread holds the GIL for good
        assert is_running(pid)
    finally:
        surface.kill()
        surface.wait()
        if surface.stdout is not None:
            surface.stdout.close()
    assert wait_until(lambda: not is_running(pid))


def test_what_c_code_prints_is_not_held_back_by_its_buffer() -> None:
    if not hasattr(ctypes.CDLL(None), "printf"):
        pytest.skip("no C library")
    with worker("prints") as it:
        assert isinstance(it.next(), Hello)
        assert it.process.stdout is not None
        seen = b""
        while b"c out" not in seen:
            chunk = it.process.stdout.read(4096)
            assert chunk, seen
            seen += chunk
