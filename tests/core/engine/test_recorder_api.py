"""A program of one's own, recorded: real torch on the CPU, read back as any recording is."""

import gc
import subprocess
import sys
import time
from functools import reduce
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from cgtop.core.engine import Recorder
from cgtop.core.engine.graph_facts import describe_graph
from cgtop.core.engine.stretch import Stretch
from cgtop.core.events import Decode, End, Error, Hello, PhaseEnd
from cgtop.core.recording import Recording, RecordingError, open_recording
from cgtop.core.state import RunState, fold
from tests.core.engine.driving import Driven
from tests.fakes.device import PretendDevice

EXAMPLE = Path(__file__).parents[3] / "examples" / "own_model.py"


def state_of(recording: Recording) -> RunState:
    return reduce(fold, recording.events, RunState())


def end_of(recording: Recording, phase: str) -> PhaseEnd:
    return next(event for event in recording.events if isinstance(event, PhaseEnd) and event.phase == phase)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "mine.jsonl"


def test_a_recorded_program_is_a_recording_of_cgtop(path: Path) -> None:
    with Recorder(path, name="mine", device="cpu") as r:
        with r.phase("load"):
            model = nn.Linear(8, 8, bias=False, device=r.device)
        r.own("weights", model.parameters())
    recording = open_recording(path)
    assert recording.hello.model is None and recording.hello.settings.model == "mine"
    assert recording.hello.device.kind == "cpu"
    assert (recording.skipped, recording.truncated) == (0, False)
    end = recording.events[-1]
    assert isinstance(end, End) and end.exit_code == 0


def test_what_is_owned_right_after_a_phase_explains_that_phase(path: Path) -> None:
    with Recorder(path, device="cpu") as r:
        with r.phase("load"):
            model = nn.Linear(8, 8, bias=False)
        r.own("weights", model)
        with r.phase("static_cache"):
            keys = torch.zeros(4, 16)
            r.own("kv_static", [("keys", keys)], "my cache")
    recording = open_recording(path)
    load, cache = end_of(recording, "load"), end_of(recording, "static_cache")
    assert [(item.name, item.bytes) for item in load.explained["requested"]] == [("weights", 256)]
    assert (load.before.requested, load.after.requested) == (0, 256)
    assert [(item.name, item.bytes) for item in cache.explained["requested"]] == [("my cache", 256)]
    boundary = state_of(recording).boundary_memory
    assert boundary["load"].buckets["weights"] == 256
    assert boundary["static_cache"].buckets == {"weights": 256, "kv_static": 256, "kv_dynamic": 0, "graph_io": 0}


def test_other_tensors_that_are_owned_on_a_cpu_are_in_their_bucket(path: Path) -> None:
    with Recorder(path, device="cpu") as r:
        with r.phase("load"):
            table, kept = torch.zeros(8), torch.zeros(16)
        r.own("weights", table)
        r.own("other_tensors", kept, "a table of mine")
    memory = state_of(open_recording(path)).boundary_memory["load"]
    assert (memory.buckets["weights"], memory.buckets["other_tensors"]) == (32, 64)
    assert sum(memory.buckets.values()) == end_of(open_recording(path), "load").after.requested
    assert "other_tensors" not in memory.reasons and "cublas_workspace" in memory.reasons


def test_a_shared_storage_counts_once_and_counters_that_a_cpu_lacks_stay_unknown(path: Path) -> None:
    with Recorder(path, device="cpu") as r, r.phase("static_cache"):
        keys, values = torch.zeros(2, 16)
        r.own("kv_static", [keys, values])
    end = end_of(open_recording(path), "static_cache")
    assert end.after.requested == 128
    assert (end.after.allocated, end.after.reserved, end.after.driver, end.allocations) == (None,) * 4


def test_owning_keeps_nothing_alive(path: Path) -> None:
    with Recorder(path, device="cpu") as r:
        with r.phase("load"):
            model = nn.Linear(8, 8, bias=False)
            cache = torch.zeros(16)
        r.own("weights", model)
        r.own("kv_static", [cache])
        with r.phase("release"):
            del model, cache
            gc.collect()
    release = end_of(open_recording(path), "release")
    assert (release.before.requested, release.after.requested) == (320, 0)
    assert state_of(open_recording(path)).status is not None
    assert state_of(open_recording(path)).status.state == "released"  # type: ignore[union-attr]


def test_a_cache_that_grows_is_owned_by_a_function(path: Path) -> None:
    cache = [torch.zeros(4)]
    with Recorder(path, device="cpu") as r:
        r.own("kv_dynamic", lambda: cache, "growing")
        with r.phase("prefill"):
            cache[0] = torch.zeros(64)
    items = end_of(open_recording(path), "prefill").explained["requested"]
    assert [(item.name, item.bytes) for item in items] == [("growing", 240)]


@pytest.mark.parametrize("mistake", ["my phase", "nested", "twice"])
def test_a_phase_that_cannot_be_is_refused_with_what_could(path: Path, mistake: str) -> None:
    with Recorder(path, device="cpu") as r:
        with r.phase("load", note="weights and tokenizer"):
            if mistake == "nested":
                with pytest.raises(ValueError, match="do not nest"), r.phase("capture"):
                    pass
        if mistake == "my phase":
            with pytest.raises(ValueError, match=r"copy_kv.*note="), r.phase("my phase"):
                pass
        if mistake == "twice":
            with pytest.raises(ValueError, match="already"), r.phase("load"):
                pass
    end = end_of(open_recording(path), "load")
    assert end.status == "done" and end.notes == ("weights and tokenizer",)


def test_an_unknown_bucket_and_steps_of_no_mode_are_refused(path: Path) -> None:
    with Recorder(path, device="cpu") as r:
        with pytest.raises(ValueError, match="kv_static"):
            r.own("cublas_workspace", [])
        with pytest.raises(ValueError, match="decoding"):
            r.tokens()


def test_an_exception_is_recorded_passes_through_and_keeps_what_was_measured(path: Path) -> None:
    with pytest.raises(ZeroDivisionError), Recorder(path, device="cpu") as r:
        with r.phase("load"):
            pass
        with r.phase("warmup"):
            _ = 1 / 0
    recording = open_recording(path)
    errors = [event for event in recording.events if isinstance(event, Error)]
    assert [error.phase for error in errors] == ["warmup"]
    state = state_of(recording)
    assert [row.status for row in state.phases if row.status != "pending"] == ["done", "failed"]
    assert state.end is not None and state.end.exit_code == 1


def test_a_failed_phase_can_be_tried_again(path: Path) -> None:
    with Recorder(path, device="cpu") as r:
        with pytest.raises(ZeroDivisionError), r.phase("load"):
            _ = 1 / 0
        with r.phase("load"):
            pass
    assert state_of(open_recording(path)).phase("load").status == "done"


def test_a_skipped_phase_says_why(path: Path) -> None:
    with Recorder(path, device="cpu") as r:
        r.skip("capture", "needs CUDA")
    row = state_of(open_recording(path)).phase("capture")
    assert row.status == "unavailable" and row.end is not None and row.end.reason == "needs CUDA"


def test_speed_counts_every_step_of_every_sequence(path: Path) -> None:
    with Recorder(path, device="cpu", capacity=64) as r:
        before = time.perf_counter()
        r.decoding("eager", position=4)
        begun = time.perf_counter()
        for _ in range(30):
            time.sleep(0.002)
            r.tokens(2)
        last = time.perf_counter()
        r.decoding("dynamic")
        ended = time.perf_counter()
        r.tokens()
    state = state_of(open_recording(path))
    eager = state.decode_by_mode["eager"]
    assert (eager.tokens, eager.position, eager.capacity) == (30, 34, 64)
    assert eager.tok_s_mean is not None
    assert 60 / (ended - before) * 0.999 < eager.tok_s_mean < 60 / (last - begun) * 1.001
    # Half of the steps took no less than p50, and all of them together no longer than the loop.
    assert eager.step_ms_p50 is not None and 2 <= eager.step_ms_p50 < 1000 * (ended - before) / 15
    assert (eager.replays, eager.replay_allocations) == (0, None)
    assert state.decode_by_mode["dynamic"].tokens == 1


def test_figures_go_out_no_more_than_ten_times_a_second() -> None:
    now = [0.0]
    stretch = Stretch(PretendDevice(), "graph", 0, 0, clock=lambda: now[0])
    told: list[Decode] = []
    for _ in range(500):
        now[0] += 0.001
        if stretch.launched(1, None):
            told.append(stretch.figures(0, 0))
    assert len(told) <= 5
    assert told[-1].tok_s == pytest.approx(1000, rel=0.02)
    assert told[-1].replays == told[-1].tokens


def test_replays_add_up_over_stretches_and_unknown_allocations_stay_unknown() -> None:
    stretch = Stretch(PretendDevice(), "graph", 0, 0)
    stretch.launched(1, None)
    stretch.drain()
    figures = stretch.figures(41, 0)
    assert (figures.replays, figures.replay_allocations, figures.allocations) == (42, None, None)


class ForgetfulGraph:
    """A graph that torch did not keep, as without keep_graph=True."""

    def pool(self) -> tuple[int, int]:
        return (0, 3)

    def raw_cuda_graph(self) -> int:
        raise RuntimeError("you can only access the raw cudaGraph_t if keep_graph is true")


def test_a_graph_that_was_not_kept_has_a_pool_and_no_nodes() -> None:
    driven = Driven(pretend=True)
    facts = describe_graph(ForgetfulGraph(), PretendDevice(), driven.session._ledger)  # type: ignore[arg-type]
    assert (facts.pool_id, facts.nodes, facts.instantiate_s, facts.instantiate_driver_bytes) == (
        "0.3",
        None,
        None,
        None,
    )


def test_a_recording_that_cannot_be_opened_is_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(RecordingError):
        Recorder(tmp_path / "no folder" / "mine.jsonl", device="cpu")


def test_a_full_disk_is_told_once_and_the_program_goes_on() -> None:
    reached = False
    with pytest.warns(UserWarning, match="goes on") as told, Recorder("/dev/full", device="cpu") as r:
        for phase in ("load", "prefill", "warmup"):
            with r.phase(phase):
                pass
        reached = True
    assert reached and len(told) == 1


def test_the_engine_exports_it_without_importing_torch_before_it_is_used() -> None:
    code = "import sys, cgtop.core.engine as engine; print('Recorder' in engine.__all__, 'torch' in sys.modules)"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=240)
    assert shown.stdout.split() == ["True", "False"]
    with pytest.raises(ImportError):
        from cgtop.core.engine import Recoder  # noqa: F401


def test_the_example_runs_eagerly_without_a_gpu_says_so_and_can_be_reported(path: Path) -> None:
    hidden = {"CUDA_VISIBLE_DEVICES": "", "PATH": "/usr/bin"}
    ran = subprocess.run(
        [sys.executable, str(EXAMPLE), str(path)], capture_output=True, text=True, check=True, timeout=240, env=hidden
    )
    assert "eagerly" in ran.stdout
    state = state_of(open_recording(path))
    assert isinstance(state.hello, Hello)
    done = {row.id for row in state.phases if row.status == "done"}
    assert done == {"context", "load", "static_cache", "warmup"}
    assert state.phase("capture").status == "unavailable"
    assert state.decode is not None and state.decode.position == state.decode.capacity == 128
    shown = subprocess.run(
        [sys.executable, "-m", "cgtop.tui.cli", "play", str(path), "--once"],
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert shown.returncode == 0 and "static cache" in shown.stdout and "n/a" in shown.stdout


@pytest.mark.parametrize("owned", [None, 5, "weights", [1], {"a": 1}, [("a", None)], object(), lambda: [None]])
def test_what_holds_no_tensors_is_refused_by_name(path: Path, owned: Any) -> None:
    with Recorder(path, device="cpu") as r, pytest.raises(TypeError, match=r"mine.*(no module|neither a tensor)"):
        r.own("weights", owned, "mine")
        with r.phase("load"):
            pass


def test_another_mode_is_refused_before_it_makes_lines_that_nobody_can_read(path: Path) -> None:
    mode: Any = "compiled"
    with Recorder(path, device="cpu") as r:
        with pytest.raises(ValueError, match="eager, dynamic, graph"):
            r.decoding(mode)
        r.decoding("eager")
        r.tokens()
    assert open_recording(path).skipped == 0
