"""What a screen reads: a live worker, recorded as it goes, or a recording."""

import gzip
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from cgtop.core.commands import Pause, Resume, RunAll, RunPhase, SetMode, Verify
from cgtop.core.events import PhaseEnd, encode_event
from cgtop.core.playback import Player
from cgtop.core.recording import Recording, RecordingError, open_recording
from cgtop.core.settings import RunSettings
from cgtop.core.sources import TAKEN_AT_ONCE, LiveSource, RecordedSource, Source, bundled_recording, numbered
from cgtop.core.state import RunState
from cgtop.core.worker_loop import PENDING_MAX
from tests.fakes.processes import is_running, takes_less, wait_until
from tests.sample import hello, sample_run


@contextmanager
def live(session: str, record_to: Path | None = None) -> Iterator[LiveSource]:
    source = LiveSource(RunSettings(), record_to, session=f"tests.fakes.sessions:{session}")
    try:
        yield source
    finally:
        source.close()


def poll_until(source: Source, condition: Callable[[RunState], object]) -> RunState:
    assert wait_until(lambda: condition(source.poll())), source.poll()
    return source.poll()


def test_a_live_source_folds_what_the_worker_says_and_sends_commands() -> None:
    with live("phases") as source:
        assert source.kind == "live"
        poll_until(source, lambda state: state.status)
        assert source.send(RunAll())
        state = poll_until(source, lambda state: state.phase("release").status == "done")
        assert all(row.status == "done" for row in state.phases)
        assert source.poll() is state  # nothing new: the same object
        pid = source.pid
    assert pid is not None and not is_running(pid)
    assert not source.send(RunAll())
    assert source.poll() == state or source.poll().end is not None


def test_what_is_recorded_plays_back_to_the_same_state(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl.gz"
    with live("sample", path) as source:
        assert source.recording_to == path
        state = poll_until(source, lambda state: state.end)
    recorded = open_recording(path)
    assert not recorded.truncated
    again = recorded.state_at(recorded.duration)
    for name in ("phases", "boundary_memory", "tokens", "decode_by_mode", "verification", "end", "errors"):
        assert getattr(again, name) == getattr(state, name), name
    assert again.hello is not None and again.hello.device.uuid is None


def test_the_last_events_before_closing_are_recorded(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    with live("phases", path) as source:
        poll_until(source, lambda state: state.hello)
        source.send(RunPhase())
        assert source._client is not None
        waiting = source._client._queue._events
        assert wait_until(lambda: any(isinstance(event, PhaseEnd) for event in list(waiting)))
    recorded = open_recording(path)
    state = recorded.state_at(recorded.duration)
    assert state.phase("context").status == "done"
    assert state.end is not None


def test_a_worker_killed_in_the_middle_leaves_its_figures_and_an_error() -> None:
    with live("phases") as source:
        source.send(RunPhase())
        poll_until(source, lambda state: state.phase("context").end)
        assert source.pid is not None
        os.kill(source.pid, signal.SIGKILL)
        state = poll_until(source, lambda state: state.end)
        assert state.errors[-1].kind == "worker_died"
        assert state.phase("context").status == "done"
        dead = source.pid
        source.restart()
        state = poll_until(source, lambda state: state.hello)
        assert source.pid != dead
        assert state.errors == ()


def test_restarting_is_another_process_another_state_and_another_recording(tmp_path: Path) -> None:
    with live("phases", tmp_path / "run.jsonl") as source:
        poll_until(source, lambda state: state.hello)
        source.send(RunPhase())
        poll_until(source, lambda state: state.phase("context").end)
        first = source.pid
        assert first is not None
        source.restart(RunSettings(max_cache_len=64))
        assert not source.send(RunPhase())
        assert source.poll().hello is None
        state = poll_until(source, lambda state: state.hello)
        assert not source.restarting
        assert source.pid != first and not is_running(first)
        assert source.settings.max_cache_len == 64
        assert state.phase("context").status == "pending"
        assert source.recording_to == tmp_path / "run-2.jsonl"
    assert len(open_recording(tmp_path / "run.jsonl").phase_times) == 1
    assert open_recording(tmp_path / "run-2.jsonl").phase_times == []


def test_another_run_overwrites_no_file_that_was_not_named(tmp_path: Path) -> None:
    earlier = tmp_path / "run-2.jsonl"
    earlier.write_text("of another day")
    with live("phases", tmp_path / "run.jsonl") as source:
        poll_until(source, lambda state: state.hello)
        source.restart()
        poll_until(source, lambda state: state.hello)
        assert source.recording_to == tmp_path / "run-3.jsonl"
    assert earlier.read_text() == "of another day"


@pytest.mark.timed
def test_restarting_does_not_wait_for_a_worker_that_hangs() -> None:
    def restarted() -> float:
        with live("hangs_holding_the_gil") as source:
            poll_until(source, lambda state: state.hello)
            began = time.monotonic()
            source.restart()
            return time.monotonic() - began

    assert takes_less(0.1, restarted)


def test_the_old_worker_is_gone_before_the_new_one_starts_even_if_it_hangs() -> None:
    with live("hangs_holding_the_gil") as source:
        poll_until(source, lambda state: state.hello)
        first = source.pid
        assert first is not None
        time.sleep(0.4)
        source.restart()
        while source.restarting:
            source.poll()
        assert not is_running(first)
        assert source.pid is not None and is_running(source.pid)


def test_a_flood_is_taken_in_portions_and_left_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cgtop.core.sources.TAKE_S", 0.0)
    monkeypatch.setattr("cgtop.core.sources.TAKE_LAST_S", 0.0)
    with live("endless") as source:
        assert source._client is not None
        queue = source._client._queue
        assert wait_until(lambda: queue.pending >= PENDING_MAX)
        time.sleep(0.5)
        assert queue.pending < 2 * PENDING_MAX, "the rest waits in the worker"
        waiting = queue.pending
        source.poll()
        assert queue.pending > waiting - 2 * TAKEN_AT_ONCE
        source.close()
    assert queue.pending > PENDING_MAX // 2


def test_what_was_held_back_comes_when_there_is_room() -> None:
    with live("burst_and_more") as source:
        assert source._client is not None
        queue = source._client._queue
        assert wait_until(lambda: queue.pending >= PENDING_MAX)
        source.send(RunAll())
        state = poll_until(source, lambda state: state.end)
    assert state.tokens[-1] == 3 * 9800 - 1
    assert state.end is not None and state.end.reason == "done"


def test_closing_while_restarting_leaves_no_process() -> None:
    with live("phases") as source:
        poll_until(source, lambda state: state.hello)
        first = source.pid
        source.restart()
    assert first is not None and not is_running(first)


def test_a_run_can_be_saved_without_having_been_recorded(tmp_path: Path) -> None:
    with live("phases") as source:
        assert source.recording_to is None
        source.send(RunAll())
        poll_until(source, lambda state: state.phase("release").end)
        source.save_recording(tmp_path / "run.jsonl.gz")
        assert len(open_recording(tmp_path / "run.jsonl.gz").phase_times) == 9
    with pytest.raises(RecordingError, match="no run to save"):
        source.save_recording(tmp_path / "run.jsonl.gz")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_is_said_once_and_the_run_goes_on() -> None:
    with live("phases", Path("/dev/full")) as source:
        source.send(RunAll())
        state = poll_until(source, lambda state: state.phase("release").end)
    said = [line.text for line in state.log if "stopped" in line.text]
    assert len(said) == 1 and "No space left" in said[0]
    assert source.recording_error == said[0]
    assert source.recording_to is None


def test_a_path_that_cannot_be_written_is_said_once_and_the_run_goes_on(tmp_path: Path) -> None:
    with live("phases", tmp_path / "no folder" / "run.jsonl") as source:
        state = source.poll()
        assert state.status is None or state.status.refused == "record"
        source.send(RunAll())
        state = poll_until(source, lambda state: state.phase("release").end)
    assert len([line for line in state.log if "cannot record" in line.text]) == 1
    assert source.recording_error is not None and "No such file" in source.recording_error


# ------------------------------------------------------------------------------------------------------ recorded


class FakeClock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_recorded_source_is_steered_by_the_commands_that_mean_something() -> None:
    clock = FakeClock()
    source = RecordedSource(Player(Recording(sample_run(decode_events=3)), clock))
    assert source.kind == "recorded"
    assert source.send(Pause())
    clock.now += 100.0
    assert source.poll().running_phase is None
    assert source.send(RunPhase())
    ended = source.poll()
    assert ended.phase("context").status == "done"
    assert ended.phase("load").status == "pending"
    assert source.send(Resume())
    clock.now += 1.0
    assert source.poll().t > ended.t
    assert source.send(RunAll())
    assert not source.send(SetMode(mode="eager"))
    assert not source.send(Verify())
    source.close()


def test_the_newest_bundled_recording_is_found_by_the_date_inside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.resources.files", lambda package: tmp_path)
    assert bundled_recording() is None
    for name, date in (("z.jsonl.gz", "2026-01-01"), ("a.jsonl.gz", "2026-12-01"), ("m.jsonl.gz", "2026-06-01")):
        line = encode_event(msgspec.structs.replace(hello(), started_at=date))
        (tmp_path / name).write_bytes(gzip.compress(line + b"\n"))
    (tmp_path / "broken.jsonl.gz").write_bytes(b"no gzip")
    (tmp_path / "notes.json").write_text("{}")
    assert bundled_recording() == tmp_path / "a.jsonl.gz"


def test_bundled_recordings_can_be_opened() -> None:
    path = bundled_recording()
    if path is None:
        pytest.skip("none yet")
    assert open_recording(path).skipped == 0


@pytest.mark.parametrize(
    ("name", "second"),
    [
        ("run.jsonl.gz", "run-2.jsonl.gz"),
        ("run.jsonl", "run-2.jsonl"),
        ("run.v1.gz", "run.v1-2.gz"),
        ("run", "run-2"),
    ],
)
def test_another_run_gets_another_name(name: str, second: str) -> None:
    assert numbered(Path(name), 1) == Path(name)
    assert numbered(Path(name), 2) == Path(second)
