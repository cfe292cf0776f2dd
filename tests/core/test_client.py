"""The client of real worker processes: every way a worker can behave, and none that hurts the surface."""

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cgtop.core.client import EngineClient
from cgtop.core.commands import Pause, Quit, RunAll, RunPhase, SetMode
from cgtop.core.event_queue import LOGS_PENDING_MAX, EventQueue
from cgtop.core.events import Decode, End, Error, Event, Hello, Log, PhaseBegin, PhaseEnd, Status, Tokens
from cgtop.core.settings import RunSettings
from tests.fakes.processes import holds, is_running, takes_less, wait_until
from tests.sample import sample_run


@contextmanager
def client_of(session: str) -> Iterator[EngineClient]:
    client = EngineClient(RunSettings(), session=f"tests.fakes.sessions:{session}")
    try:
        yield client
    finally:
        client.close(0.1)


def events_until(client: EngineClient, *kinds: type[Event]) -> list[Event]:
    """All events up to one of each kind."""
    events: list[Event] = []

    def seen() -> bool:
        events.extend(client.drain())
        return all(any(isinstance(event, kind) for event in events) for kind in kinds)

    assert wait_until(seen), events
    return events


def logs(events: list[Event], source: str) -> list[str]:
    return [event.text for event in events if isinstance(event, Log) and event.source == source]


def died(events: list[Event]) -> tuple[Error, End]:
    """The one error and the one end of a worker that died."""
    errors = [event for event in events if isinstance(event, Error)]
    ends = [event for event in events if isinstance(event, End)]
    assert len(errors) == len(ends) == 1
    assert events[-1] is ends[0]
    assert errors[0].kind == "worker_died"
    assert not errors[0].recoverable
    assert "Press R" in errors[0].hint
    assert ends[0].exit_code == 1
    return errors[0], ends[0]


def test_a_whole_run_comes_through_as_it_was_emitted() -> None:
    with client_of("sample") as client:
        events = list(client.events())
    sent = sample_run(decode_events=3)
    certain = [event for event in sent if not isinstance(event, Decode) and type(event).__name__ != "Telemetry"]
    certain = [event for event in certain if not getattr(event, "live", False)]
    assert [event for event in events if event in certain] == certain
    assert isinstance(events[-1], End)
    assert events[-1].exit_code == 0
    assert not any(isinstance(event, Error) for event in events)


def test_commands_are_answered_and_quit_ends_the_worker() -> None:
    with client_of("phases") as client:
        assert client.send(RunPhase())
        events = events_until(client, PhaseEnd)
        assert client.send(SetMode(mode="eager"))
        assert any(isinstance(event, Status) and event.refused == "SetMode" for event in client.events())
        assert client.send(Quit())
        events += client.events()
        assert isinstance(events[-1], End) and events[-1].exit_code == 0
        assert wait_until(lambda: not client.alive)
        assert not client.send(Pause())
        assert list(client.events()) == []
        assert client.drain() == []


@pytest.mark.parametrize(
    ("signal_number", "name"), [(signal.SIGKILL, "SIGKILL"), (signal.SIGTERM, "SIGTERM"), (signal.SIGSEGV, "SIGSEGV")]
)
def test_a_worker_ended_by_a_signal_is_reported_once(signal_number: signal.Signals, name: str) -> None:
    with client_of("phases") as client:
        events = events_until(client, Hello)
        assert client.pid is not None
        os.kill(client.pid, signal_number)
        events += client.events()
        error, end = died(events)
        assert name in error.headline
        assert end.signal == signal_number
        assert not is_running(client.pid)


def test_an_abort_is_reported_with_what_was_printed_before_it() -> None:
    with client_of("aborts") as client:
        events = list(client.events())
    error, end = died(events)
    assert "SIGABRT" in error.headline
    assert end.signal == signal.SIGABRT
    assert "c10::Error" in error.detail
    assert "in aborts" in error.detail  # the Python stack


def test_an_exit_code_is_reported_with_a_last_line_that_had_no_newline() -> None:
    with client_of("exits") as client:
        events = list(client.events())
    error, end = died(events)
    assert "exit code 7" in error.headline
    assert end.signal is None
    assert error.detail == "a last line without a newline"
    assert events.index(error) > max(index for index, event in enumerate(events) if isinstance(event, Log))


def test_an_error_of_the_engine_is_not_reported_again_as_a_death() -> None:
    with client_of("fails") as client:
        events = list(client.events())
    assert [event.kind for event in events if isinstance(event, Error)] == ["internal"]
    assert isinstance(events[-1], End)


def test_a_worker_that_cannot_be_started_is_an_error(tmp_path: Path) -> None:
    client = EngineClient(RunSettings(), python=str(tmp_path / "no-python"))
    error, end = client.events()
    assert isinstance(error, Error) and error.kind == "worker_died"
    assert isinstance(end, End)
    assert "could not be started" in error.headline and "No such file" in error.headline
    assert end.exit_code == 1
    assert client.pid is None
    assert not client.send(Pause())
    client.close()


def test_a_python_without_cgtop_says_so(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho 'No module named cgtop' >&2\nexit 1\n")
    python.chmod(0o755)
    error, _ = died(list(EngineClient(RunSettings(), python=str(python)).events()))
    assert "exit code 1" in error.headline
    assert error.detail == "No module named cgtop"


def test_what_native_code_prints_becomes_harmless_log_lines() -> None:
    with client_of("prints") as client:
        events: list[Event] = []

        def printed() -> bool:
            events.extend(client.drain())
            on_stderr = sum(len(text) for text in logs(events, "stderr"))
            return "no newline" in logs(events, "stdout") and on_stderr >= 10_000

        assert wait_until(printed), events
    assert logs(events, "stdout") == ["native red out", "python out", "c out", "no newline"]
    assert logs(events, "stderr")[:3] == ["10%", "20%", "native err \ufffd"]
    assert "".join(logs(events, "stderr")[3:]) == "x" * 10_000
    assert all(len(text) <= 4096 for text in logs(events, "stderr"))


def test_a_line_without_an_end_is_shown_while_events_go_on() -> None:
    with client_of("asks_while_it_samples") as client:
        events: list[Event] = []

        def asked() -> bool:
            events.extend(client.drain())
            return logs(events, "stdout") == ["Proceed?"]

        assert wait_until(asked)
        assert not any(isinstance(event, End) for event in events)


def test_more_than_a_pipe_holds_is_taken_in_while_the_worker_holds_its_gil() -> None:
    with client_of("prints_holding_the_gil") as client:
        events = list(client.events())
    written = logs(events, "engine")
    assert any(text.startswith("wrote 2") and text.split()[1] == text.split()[3] for text in written), written
    kept = logs(events, "stdout")
    left_out = sum(int(text.split()[0]) for text in logs(events, "client") if "left out" in text)
    assert len(kept) + left_out == 50_000
    assert isinstance(events[-1], End)


def test_one_flood_of_log_lines_leaves_the_bound_of_the_next_as_it_was() -> None:
    queue = EventQueue()
    for _ in range(3):
        queue.put(*(Log(source="stdout", text=str(index)) for index in range(LOGS_PENDING_MAX + 9)))
        assert len(logs(queue.drain(), "stdout")) == LOGS_PENDING_MAX


def test_log_lines_nobody_takes_stay_bounded_while_other_events_are_kept() -> None:
    queue = EventQueue()
    for index in range(LOGS_PENDING_MAX + 1000):
        queue.put(Log(source="stdout", text=str(index)), Tokens(mode="graph", ids=(index,)))
    queue.put(End(reason="done"), Status(state="idle"))
    events = queue.drain()
    assert len([event for event in events if isinstance(event, Tokens)]) == LOGS_PENDING_MAX + 1000
    assert logs(events, "stdout") == [str(index) for index in range(LOGS_PENDING_MAX)]
    assert logs(events, "client") == ["1000 log lines came faster than they could be shown and were left out"]
    assert isinstance(events[-1], End)
    assert queue.take() is None


@pytest.mark.timed
def test_no_phase_token_or_status_is_lost_at_ten_thousand_events_a_second() -> None:
    with client_of("burst") as client:
        assert client.send(RunAll())
        events = list(client.events())
    assert [event.ids[0] for event in events if isinstance(event, Tokens)] == list(range(9800))
    assert len([event for event in events if isinstance(event, PhaseBegin)]) == 100
    samples = [event for event in events if isinstance(event, Decode)]
    end = events[-1]
    assert isinstance(end, End)
    assert samples[-1].tokens == 99
    assert len(samples) + end.dropped_samples >= 100


@pytest.mark.timed
@pytest.mark.parametrize("session", ["hangs", "hangs_holding_the_gil"])
def test_neither_sending_nor_closing_waits_for_a_step_that_hangs(session: str) -> None:
    def sent_and_closed() -> tuple[float, float]:
        with client_of(session) as client:
            events = events_until(client, Hello)
            time.sleep(0.4)
            began = time.monotonic()
            for _ in range(10_000):  # more than its pipe holds
                assert client.send(Pause())
            sent = time.monotonic()
            client.close()
            closed = time.monotonic()
            events += client.events()
            assert client.pid is not None and not is_running(client.pid)
            assert isinstance(events[-1], End) and events[-1].exit_code == 0
            assert not any(isinstance(event, Error) for event in events)
            client.close()  # again: nothing happens
            return sent - began, closed - sent

    def in_time() -> bool:
        sent, closed = sent_and_closed()
        return sent < 1.0 and closed < 2.0

    assert holds(in_time)


@pytest.mark.timed
def test_closing_in_the_middle_of_a_burst_never_hangs() -> None:
    threads = threading.active_count()
    descriptors = len(os.listdir("/proc/self/fd")) if sys.platform == "linux" else 0  # noqa: PTH208
    assert takes_less(1.5, slowest_of_fifty_closed)
    assert wait_until(lambda: threading.active_count() <= threads)
    if sys.platform == "linux":
        assert wait_until(lambda: len(os.listdir("/proc/self/fd")) <= descriptors)  # noqa: PTH208


def slowest_of_fifty_closed() -> float:
    """Seconds of the slowest `close` of fifty clients in a burst; each has its `End`, and none leaves a worker."""
    pids, took = [], []
    for number in range(50):
        client = EngineClient(RunSettings(), session="tests.fakes.sessions:endless")
        pids.append(client.pid)
        next(event for event in client.events() if isinstance(event, Hello))
        time.sleep(number % 5 * 0.005)
        began = time.monotonic()
        client.close(0.05)
        took.append(time.monotonic() - began)
        *_, end = client.events()
        assert isinstance(end, End)
    assert len(set(pids)) == 50
    assert not any(is_running(pid) for pid in pids if pid is not None)
    return max(took)


def test_lines_that_are_no_events_become_log_lines() -> None:
    with client_of("bad_lines") as client:
        events = list(client.events())
    said = "\n".join(logs(events, "client"))
    assert "is not an event" in said and "no json" in said
    assert "schema 99" in said
    assert "more than 16 MiB" in said
    assert any(isinstance(event, Status) and event.why == "still here" for event in events)
    assert isinstance(events[-1], End) and events[-1].exit_code == 0


def test_a_worker_that_goes_on_without_its_event_pipe_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cgtop.core.worker_loop.EXIT_GRACE_S", 0.2)
    with client_of("closes_its_event_pipe") as client:
        error, _ = died(list(client.events()))
        assert "closed its event pipe" in error.headline
        assert client.pid is not None and not is_running(client.pid)


@pytest.mark.parametrize("has_pidfd", [True, False])
def test_a_child_that_holds_the_pipes_open_neither_hides_a_death_nor_survives_it(
    has_pidfd: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not has_pidfd:
        monkeypatch.setattr("os.pidfd_open", _no_pidfd, raising=False)
    with client_of("leaves_a_child") as client:
        events = events_until(client, Log)
        child = int(next(text for text in logs(events, "engine") if text.startswith("child")).split()[1])
        client.send(RunAll())
        events += client.events()
        error, _ = died(events)
        assert "exit code 9" in error.headline
        assert wait_until(lambda: not is_running(child))


def _no_pidfd(pid: int) -> int:
    raise OSError


def test_a_client_made_in_a_thread_that_ends_keeps_its_worker() -> None:
    made: list[EngineClient] = []
    thread = threading.Thread(
        target=lambda: made.append(EngineClient(RunSettings(), session="tests.fakes.sessions:phases"))
    )
    thread.start()
    thread.join()
    client = made[0]
    try:
        events_until(client, Hello)
        client.send(RunPhase())
        events_until(client, PhaseEnd)
    finally:
        client.close(0.5)


def test_events_can_be_left_and_begun_again_without_losing_any() -> None:
    with client_of("sample") as client:
        wait_until(lambda: not client.alive)
        events = [next(client.events()) for _ in range(5)]
        events += client.drain()[:1]
    assert events == sample_run(decode_events=3)[:6]


def test_starting_again_gives_another_process() -> None:
    with client_of("phases") as first, client_of("phases") as second:
        assert first.pid != second.pid
        events_until(first, Hello)
        events_until(second, Hello)
