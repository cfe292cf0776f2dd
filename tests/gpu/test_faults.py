"""What goes wrong on a GPU is told as what it is, and ends as it should."""

import pickle
from pathlib import Path

import msgspec

from cgtop.core.client import EngineClient
from cgtop.core.commands import RunAll
from cgtop.core.events import Decode, End, Error, Memory, PhaseEnd, Status
from cgtop.core.phases import PHASE_IDS
from tests.gpu.conftest import SMALL, UNVERIFIED, Run, Runner

BRIEF = msgspec.structs.replace(SMALL, **UNVERIFIED)


def test_eager_attention_cannot_be_captured_and_the_leak_is_said(run_all: Runner) -> None:
    run = run_all(attention="eager")
    error = run.one(Error)
    assert (error.kind, error.phase) == ("capture", "capture") and "sdpa" in error.hint
    assert run.one(Status).tainted_bytes is not None
    assert run.one(End).exit_code == 1
    assert [end.phase for end in run.of(PhaseEnd)] == list(PHASE_IDS[:6])


def test_out_of_memory_keeps_what_was_measured_and_names_a_knob(run_all: Runner) -> None:
    total, one = run_all().one(Memory).total_bytes, run_all().model.static_cache_bytes
    assert total is not None
    run = run_all(batch_size=total // one + 1, verify_steps=0)
    error = run.one(Error)
    assert error.kind == "out_of_memory" and error.phase == "static_cache" and error.recoverable
    assert error.free_bytes is not None and error.reserved_bytes is not None and error.needed_bytes is not None
    assert "--batch-size" in error.hint or "--max-cache-len" in error.hint
    assert [end.phase for end in run.of(PhaseEnd)] == ["context", "load", "prefill"]
    assert run.one(End).exit_code == 1


def test_a_device_assert_is_a_lost_device_and_a_new_worker_works() -> None:
    run = Run(BRIEF, (RunAll(release=True),), session="tests.gpu.faulty:assert_in_warmup")
    error = run.one(Error)
    assert error.kind == "device_lost" and not error.recoverable
    assert [end.phase for end in run.of(PhaseEnd)] == list(PHASE_IDS[:5])
    assert run.one(End).exit_code == 1
    again = Run(BRIEF, (RunAll(release=True),))
    assert again.one(End).exit_code == 0


def test_a_memory_snapshot_is_written_for_torchs_viewer(tmp_path: Path, run_all: Runner) -> None:
    path = tmp_path / "snapshot.pickle"
    run_all(memory_snapshot=str(path), **UNVERIFIED)
    snapshot = pickle.loads(path.read_bytes())
    assert any(segment["segment_pool_id"] != (0, 0) for segment in snapshot["segments"])


def test_closing_while_decoding_ends_the_worker() -> None:
    client = EngineClient(BRIEF)
    client.send(RunAll())
    for event in client.events():
        if isinstance(event, Decode):
            break
    client.close()
    assert not client.alive
