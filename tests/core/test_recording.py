"""Recordings: what may not leave the machine does not, a kill leaves a readable file, and no file can do harm."""

import functools
import gzip
import os
import sys
import time
import tracemalloc
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cgtop.core import recording as recording_module
from cgtop.core.events import (
    SCHEMA,
    Block,
    Error,
    Event,
    Item,
    Log,
    Memory,
    ModelInfo,
    PhaseBegin,
    PhaseEnd,
    Segment,
    Segments,
    Status,
    Telemetry,
    Tokens,
    encode_event,
)
from cgtop.core.recorder import RecordingError, RecordingWriter
from cgtop.core.recording import Recording, open_recording
from cgtop.core.redaction import Redactor, own_names
from cgtop.core.settings import RunSettings
from cgtop.core.state import RunState, fold
from tests.fakes.long_run import long_run
from tests.fakes.processes import takes_less
from tests.sample import hello, sample_run

NAMES = ("alice", "gpubox-7")
CHECKPOINT = "/home/alice/secret models/my-qwen"
UUID = "GPU-12345678-1111-2222-3333-444444444444"
MIG = f"MIG-{UUID}/3/0"
PRIVATE = ("alice", "gpubox", "/home", "secret models", "cluster.local", "12345678-1111", UUID, "/3/0", "snapshots/")


class FakeClock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def write(path: Path, events: Sequence[Event], *, names: Sequence[str] = NAMES, run: RunSettings | None = None) -> None:
    clock = FakeClock()
    writer = RecordingWriter(path, redactor=Redactor(run, names), clock=clock)
    for event in events:
        clock.now = event.t
        writer.write(event)
    writer.close()


def raw(path: Path) -> str:
    data = path.read_bytes()
    return (gzip.decompress(data) if path.suffix == ".gz" else data).decode()


def folded(events: Sequence[Event]) -> RunState:
    state = RunState()
    for event in events:
        state = fold(state, event)
    return state


# ----------------------------------------------------------------------------------------------------- redaction


def private_run() -> list[Event]:
    """Every kind of text that an event has, with something private in it."""
    text = f"on gpubox-7.cluster.local, Alice's {UUID} ({MIG}): {CHECKPOINT}/config.json, see '~alice/secret models/x'"
    greeting = hello()
    return [
        Log(source="stderr", text=f"before hello: {text}"),
        msgspec.structs.replace(
            greeting,
            settings=RunSettings(
                model=CHECKPOINT, device="cuda:0", memory_snapshot="snapshots/of alice.pickle", prompt="Who is alice?"
            ),
            device=msgspec.structs.replace(greeting.device, uuid=UUID),
            model=msgspec.structs.replace(greeting.model or _model(), name=CHECKPOINT, source="checkpoint"),
            versions={"torch": f"2.11 from {CHECKPOINT}"},
            policies={"streams": text},
            allocator_config=text,
        ),
        Log(source="stdout", text=text),
        Log(source="stdout", text="wrote snapshots/of alice.pickle"),
        Error(
            kind="checkpoint",
            headline=text,
            hint=text,
            detail=f'Traceback:\n  File "{CHECKPOINT}/x.py", line 3\n  File "/usr/lib/alice lib/y.py", line 4\n{text}',
        ),
        Status(state="idle", refused="run_phase", why=text),
        PhaseEnd(
            phase="load", reason=text, notes=(text,), explained={"driver": (Item(name=text, bytes=1, note=text),)}
        ),
        Memory(reasons={"driver": text}, source=text),
        Telemetry(reasons={"power_w": text}),
        Segments(
            segments=(
                Segment(
                    address=1,
                    size=2,
                    pool="default",
                    stream=0,
                    blocks=(Block(offset=0, size=2, requested=2, bucket="weights", name=text),),
                ),
            )
        ),
        PhaseBegin(phase="replay"),
        Tokens(mode="graph", ids=(1,), text="and/or </think>"),
    ]


def _model() -> ModelInfo:
    model = hello().model
    assert model is not None
    return model


@pytest.mark.parametrize("name", ["run.jsonl", "run.jsonl.gz"])
def test_nothing_private_is_written_in_any_text_of_any_event(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    run = RunSettings(model=CHECKPOINT, memory_snapshot="snapshots/of alice.pickle")
    write(path, private_run(), run=run)
    text = raw(path).replace("Who is alice?", "")
    assert [word for word in PRIVATE if word.lower() in text.lower()] == []
    recording = open_recording(path)
    assert recording.skipped == 0
    assert len(recording.events) == len(private_run())
    assert recording.hello.device.uuid is None
    assert recording.hello.settings.model == "my-qwen"
    assert recording.hello.settings.prompt == "Who is alice?"
    assert recording.hello.settings.device == "cuda:0"
    assert recording.hello.model is not None and recording.hello.model.name == "my-qwen"
    assert recording.events[-1] == private_run()[-1]


def test_what_is_not_private_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    kept = [
        Log(
            source="stdout", text="see https://huggingface.co/Qwen/Qwen3-4B for tok/s, 400/1024, 1 / 2, GPU-accelerated"
        ),
        Error(kind="checkpoint", headline="Qwen/Qwen3-4B is not there", detail="malice aforethought"),
    ]
    write(path, [hello(), *kept])
    assert open_recording(path).events[1:] == kept


def test_a_hub_id_stays_and_a_folder_that_looks_like_one_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "secret" / "folder").mkdir(parents=True)
    for model, expected in (
        ("Qwen/Qwen3-4B", "Qwen/Qwen3-4B"),
        ("secret/folder", "folder"),
        ("./secret/folder", "folder"),
    ):
        write(tmp_path / "run.jsonl", [msgspec.structs.replace(hello(), settings=RunSettings(model=model))])
        assert open_recording(tmp_path / "run.jsonl").hello.settings.model == expected


def test_enumerations_survive_a_user_who_is_called_like_one(tmp_path: Path) -> None:
    names = ["graph", "load", "cuda", "stderr", "running", "measured", "done", "weights", "bfloat16"]
    path = tmp_path / "run.jsonl"
    events = sample_run(decode_events=2)
    write(path, events, names=names)
    recording = open_recording(path)
    assert recording.skipped == 0
    assert len(recording.events) == len(events)
    assert folded(recording.events).decode_by_mode.keys() == folded(events).decode_by_mode.keys()


def test_this_machine_s_own_names_are_taken_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: "node17.hpc.example")
    monkeypatch.setenv("USER", "jd")
    monkeypatch.setenv("LOGNAME", "jd")
    monkeypatch.setenv("HOME", "/nfs/jdoe")
    assert {"node17", "jd", "jdoe"} <= own_names()
    writer = RecordingWriter(tmp_path / "run.jsonl")
    writer.write(hello())
    writer.write(Log(source="stdout", text="jd@node17 NODE17.hpc.example jdoe"))
    writer.close()
    text = raw(tmp_path / "run.jsonl").lower()
    assert "jd" not in text and "node17" not in text and "hpc" not in text


# ------------------------------------------------------------------------------------------------------- writing


def test_a_run_comes_back_as_it_was(tmp_path: Path) -> None:
    events = sample_run()
    for name in ("run.jsonl", "run.jsonl.gz"):
        write(tmp_path / name, events)
        recording = open_recording(tmp_path / name)
        assert recording.events[1:] == events[1:]
        assert not recording.truncated
        assert recording.duration == events[-1].t


@pytest.mark.parametrize("name", ["run.jsonl", "run.jsonl.gz"])
def test_a_kill_leaves_all_but_the_last_two_seconds(tmp_path: Path, name: str) -> None:
    clock = FakeClock()
    writer = RecordingWriter(tmp_path / name, clock=clock)
    writer.write(hello())
    writer.write(Log(source="stdout", text="one"))
    clock.now = 2.5
    writer.flush_if_due()
    writer.write(Log(source="stdout", text="lost"))
    recording = open_recording(tmp_path / name)  # the writer was never closed
    assert [event.text for event in recording.events if isinstance(event, Log)] == ["one"]
    writer.write(Error(kind="internal", headline="on disk at once"))
    assert len(open_recording(tmp_path / name).events) == 4
    writer.close()
    assert not open_recording(tmp_path / name).truncated


@pytest.mark.parametrize("recorded_to", ["run.jsonl", "run.jsonl.gz", None])
@pytest.mark.parametrize("saved_to", ["copy.jsonl", "copy.jsonl.gz"])
def test_a_copy_is_whole_and_the_recording_goes_on(tmp_path: Path, recorded_to: str | None, saved_to: str) -> None:
    events = sample_run(decode_events=2)
    writer = RecordingWriter(tmp_path / recorded_to if recorded_to else None)
    for event in events[:20]:
        writer.write(event)
    writer.copy_to(tmp_path / saved_to)
    copy = open_recording(tmp_path / saved_to)
    assert copy.events[1:] == events[1:20]
    assert not copy.truncated
    with pytest.raises(RecordingError, match=r"cannot save to .*No such file"):
        writer.copy_to(tmp_path / "no folder" / saved_to)
    for event in events[20:]:
        writer.write(event)
    writer.copy_to(tmp_path / saved_to)
    assert open_recording(tmp_path / saved_to).events[1:] == events[1:]
    writer.close()
    if recorded_to:
        assert open_recording(tmp_path / recorded_to).events[1:] == events[1:]
    with pytest.raises(RecordingError, match="no recording to copy"):
        writer.copy_to(tmp_path / saved_to)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
@pytest.mark.parametrize("finish", [RecordingWriter.flush, RecordingWriter.close])
def test_a_full_disk_is_said_once_and_then_nothing_is_written(finish: Callable[[RecordingWriter], None]) -> None:
    writer = RecordingWriter(Path("/dev/full"))
    writer.write(hello())
    with pytest.raises(RecordingError, match="stopped: No space left on device"):
        finish(writer)
    writer.write(hello())
    writer.flush()
    writer.close()


def test_a_path_that_cannot_be_written_is_said_when_it_is_opened(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match=r"cannot record to .*No such file or directory"):
        RecordingWriter(tmp_path / "no" / "folder" / "run.jsonl.gz")


def test_a_pipe_and_a_terminal_are_refused_before_anything_is_written_to_them(tmp_path: Path) -> None:
    pipe = tmp_path / "run.jsonl"
    os.mkfifo(pipe)
    with pytest.raises(RecordingError, match=r"cannot record to .*run\.jsonl: it is no file"):
        RecordingWriter(pipe)
    ours, theirs = os.openpty()
    try:
        with pytest.raises(RecordingError, match="it is a terminal"):
            RecordingWriter(Path(os.ttyname(theirs)))
    finally:
        os.close(ours)
        os.close(theirs)


@pytest.mark.parametrize("finish", [RecordingWriter.flush, RecordingWriter.close])
def test_a_file_that_is_removed_meanwhile_is_told_once(
    tmp_path: Path, finish: Callable[[RecordingWriter], None]
) -> None:
    path = tmp_path / "run.jsonl"
    writer = RecordingWriter(path)
    writer.write(hello())
    writer.flush()
    path.unlink()
    writer.write(Log(source="stdout", text="lost"))
    with pytest.raises(RecordingError, match=r"recording to .*run\.jsonl stopped: the file was removed"):
        finish(writer)
    writer.write(hello())
    writer.close()
    assert not path.exists()


# ------------------------------------------------------------------------------------------------------- reading


def lines(*items: bytes | Event) -> bytes:
    return b"".join((item if isinstance(item, bytes) else encode_event(item)) + b"\n" for item in items)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "is empty"),
        (b"\n\n", "not a recording"),
        (gzip.compress(b""), "is empty"),
        (b"\x89PNG\r\n\x1a\n" + os.urandom(5000), "not a recording"),
        (b"\x1f\x8b" + b"\0" * 100, "is empty|not a recording"),
        (b'{"some":"json"}\n' * 3000, "no line of it is an event"),
        (lines(PhaseBegin(phase="load")), "holds no hello"),
        (lines(msgspec.structs.replace(hello(), schema=SCHEMA + 1)), "schema 2; this cgtop reads up to schema 1"),
    ],
    ids=["nothing", "blank", "gzip of nothing", "png", "broken gzip", "json", "no hello", "newer"],
)
def test_what_is_no_recording_is_refused_with_the_reason(tmp_path: Path, data: bytes, message: str) -> None:
    path = tmp_path / "file"
    path.write_bytes(data)
    with pytest.raises(RecordingError, match=message):
        open_recording(path)


def test_a_file_that_cannot_be_read_is_refused_with_the_reason(tmp_path: Path) -> None:
    for path in (tmp_path / "nothing", tmp_path):
        with pytest.raises(RecordingError, match="cannot be read"):
            open_recording(path)


@pytest.mark.timed
def test_a_foreign_file_is_given_up_early(tmp_path: Path) -> None:
    path = tmp_path / "big.csv"
    path.write_bytes(b"a,b,c\n" * 20_000_000)

    def given_up() -> float:
        began = time.perf_counter()
        with pytest.raises(RecordingError, match="not a recording"):
            open_recording(path)
        return time.perf_counter() - began

    assert takes_less(1.0, given_up)


def test_every_truncation_of_a_recording_opens_or_is_refused(tmp_path: Path) -> None:
    events = sample_run(decode_events=2)
    full = lines(*events)
    for data in (full, gzip.compress(full)):
        path = tmp_path / "cut"
        opened = 0
        for size in range(0, len(data), max(1, len(data) // 150)):
            path.write_bytes(data[:size])
            try:
                recording = open_recording(path)
            except RecordingError:
                continue
            opened += 1
            assert recording.events == events[: len(recording.events)]
        assert opened > 75
    path.write_bytes(gzip.compress(full)[:-40])
    assert open_recording(path).truncated


def test_concatenated_recordings_are_one_after_the_other(tmp_path: Path) -> None:
    events = sample_run(decode_events=2)
    path = tmp_path / "two.jsonl.gz"
    path.write_bytes(gzip.compress(lines(*events)) * 2)
    recording = open_recording(path)
    assert len(recording.events) == 2 * len(events)
    assert recording.times == sorted(recording.times)
    assert recording.duration == pytest.approx(2 * events[-1].t)


def test_hostile_lines_are_skipped_and_counted_and_the_rest_is_read(tmp_path: Path) -> None:
    path = tmp_path / "hostile.jsonl"
    bad = [
        b'{"event":"decode","mode":"graph","tokens":1,"position":1,"capacity":2,"tok_s":NaN}',
        b'{"event":"memory","free_bytes":-5}',
        b'{"event":"phase_begin","phase":"load","t":-1}',
        b'{"event":"phase_begin","phase":"load","t":1e300}',
        b'{"event":"memory","total_bytes":1e999}',
        b'{"event":"log","source":"stdout","text":"\xff\xfe"}',
        b"[" * 100_000,
        b"\x00" * 100,
        b'{"event":"log","source":"stdout","text":"raw \x1b[2J"}',
    ]
    good = b'{"event":"log","source":"stdout","text":"\\u001b]0;title\\u0007after","t":2}'
    unknown = b'{"event":"from_the_future","t":1}'
    path.write_bytes(lines(hello(), *bad, unknown, good))
    recording = open_recording(path)
    assert recording.skipped == len(bad)
    assert [event.text for event in recording.events if isinstance(event, Log)] == ["after"]


def test_escape_codes_in_a_model_name_never_reach_the_state(tmp_path: Path) -> None:
    model = msgspec.structs.replace(_model(), name="\x1b[2J\x9b31mqwen\x7f\u202e")
    path = tmp_path / "run.jsonl"
    path.write_bytes(lines(msgspec.structs.replace(hello(), model=model)))
    state = open_recording(path).state_at(0.0)
    assert state.hello is not None and state.hello.model is not None
    assert state.hello.model.name == "qwen"


def test_a_line_of_a_gigabyte_is_skipped_without_being_loaded(tmp_path: Path) -> None:
    path = tmp_path / "huge.jsonl"
    with path.open("wb") as file:
        file.write(lines(hello()))
        file.seek(1 << 30, os.SEEK_CUR)  # a hole: zeros that take no space
        file.write(b"\n" + lines(PhaseBegin(t=1.0, phase="load")))
    tracemalloc.start()
    recording = open_recording(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(recording.events) == 2
    assert recording.skipped == 1
    assert peak < 64 << 20


def test_a_compressed_gigabyte_is_read_in_bounded_memory(tmp_path: Path) -> None:
    path = tmp_path / "bomb.jsonl.gz"
    compressor = zlib.compressobj(1, wbits=31)
    zeros = bytes(16 << 20)
    data = compressor.compress(lines(hello()))
    data += b"".join(compressor.compress(zeros) for _ in range(16)) + compressor.flush()
    path.write_bytes(data)
    tracemalloc.start()
    recording = open_recording(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(recording.events) == 1
    assert peak < 64 << 20


@given(st.lists(st.one_of(st.binary(max_size=60), st.sampled_from(lines(*sample_run(decode_events=1)).split(b"\n")))))
@settings(max_examples=100, deadline=None)
def test_no_content_whatever_raises_anything_but_recording_error(
    tmp_path_factory: pytest.TempPathFactory, parts: list[bytes]
) -> None:
    path = tmp_path_factory.getbasetemp() / "any"
    path.write_bytes(b"\n".join(parts))
    try:
        recording = open_recording(path)
    except RecordingError:
        return
    recording.state_at(recording.duration)


# ------------------------------------------------------------------------------------------------------- seeking


def test_the_state_at_any_moment_is_what_folding_up_to_there_gives(tmp_path: Path) -> None:
    events = sample_run(decode_events=200)
    recording = Recording(events)
    order = [0.0, recording.duration, 3.0, 60.0, 59.9, 10.0, 10.1, -1.0, 1e9, 40.0]
    for t in order:
        assert recording.state_at(t) == folded([event for event in events if event.t <= t]), t
    for count in (0, 1, 511, 512, 513, 1024, 700, 10**9, -5):
        assert recording.state_after(count) == folded(events[: max(count, 0)]), count


def test_phases_are_found_by_their_times() -> None:
    events = sample_run(decode_events=2)
    recording = Recording([Log(t=9.0, source="stderr", text="printed before hello"), *events])
    assert recording.times[0] == 0.0
    assert recording.times == sorted(recording.times)
    assert [phase for _, phase in recording.phase_times][:3] == ["context", "load", "prefill"]
    for t, phase in recording.phase_times:
        row = recording.state_at(t).phase(phase)
        assert row.began == t and row.status == "running"


@pytest.mark.timed
def test_ten_minutes_of_decode_are_small_and_open_and_seek_at_once(tmp_path: Path) -> None:
    path = tmp_path / "long.jsonl.gz"
    events = long_run()
    write(path, events)
    size = path.stat().st_size

    def seconds(what: Callable[[], object]) -> float:
        began = time.process_time()  # of this process: other work on the machine does not count
        what()
        return time.process_time() - began

    opened = min(seconds(lambda: open_recording(path)) for _ in range(5))
    recording = open_recording(path)
    assert len(recording.events) == len(events)
    assert recording.duration > 600
    to_the_end = min(seconds(lambda: open_recording(path).state_at(recording.duration)) for _ in range(5)) - opened
    recording.state_at(recording.duration)

    def there_and_back() -> float:
        return max(seconds(functools.partial(recording.state_at, t)) for t in (300.0, 5.0, 599.0, 0.0, 450.0))

    back = min(there_and_back() for _ in range(5))
    sys.stdout.write(
        f"{size / (1 << 20):.2f} MiB, open {opened:.3f} s, to the end {to_the_end:.3f} s, back {back:.3f} s"
    )
    assert size < 1 << 20
    assert opened < 0.2
    assert to_the_end < 0.2
    assert back < 0.2


@pytest.mark.parametrize("line", [b"", b"x", b'{"event":"of a newer cgtop"}'])
def test_lines_that_say_nothing_are_not_read_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: bytes
) -> None:
    monkeypatch.setattr(recording_module, "LINES_MAX", 5000)
    path = tmp_path / "bomb.jsonl.gz"
    first, later = encode_event(hello()), b'{"event":"log","source":"stdout","text":"late"}'
    path.write_bytes(gzip.compress(b"\n".join([first, *[line] * 600_000, later, b""]), 1))
    recording = open_recording(path)
    assert recording.truncated
    assert len(recording.events) == 1
