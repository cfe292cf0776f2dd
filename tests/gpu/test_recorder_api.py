"""A program of one's own, captured for real: its recording is as exact as cgtop's own runs."""

import subprocess
import sys
from functools import reduce
from pathlib import Path

import pytest

from cgtop.core.events import Counters, Memory, PhaseEnd
from cgtop.core.recording import Recording, open_recording
from cgtop.core.state import RunState, fold

EXAMPLE = Path(__file__).parents[2] / "examples" / "own_model.py"


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    path = tmp_path_factory.mktemp("own") / "mine.jsonl"
    ran = subprocess.run([sys.executable, str(EXAMPLE), str(path)], capture_output=True, text=True, timeout=240)
    assert ran.returncode == 0, ran.stderr
    assert "eagerly" not in ran.stdout
    return open_recording(path)


@pytest.fixture(scope="module")
def state(recording: Recording) -> RunState:
    return reduce(fold, recording.events, RunState())


def end_of(state: RunState, phase: str) -> PhaseEnd:
    end = next(row.end for row in state.phases if row.id == phase)
    assert end is not None and end.status == "done"
    return end


def test_the_context_is_measured_and_every_byte_is_in_a_bucket(recording: Recording, state: RunState) -> None:
    assert (end_of(state, "context").after.driver or 0) > 50 << 20
    memories = [event for event in recording.events if isinstance(event, Memory)]
    assert memories
    for memory in memories:
        assert sum(memory.buckets.values()) == memory.total_bytes


def test_weights_cache_and_workspace_are_named(state: RunState) -> None:
    items = {item.name: item.bytes for item in end_of(state, "load").explained["requested"]}
    assert items["weights"] == (256 * 64 + 3 * 64 * 64 + 256 * 64) * 4
    items = {item.name: item.bytes for item in end_of(state, "static_cache").explained["requested"]}
    assert items["kv static"] == 2 * 128 * 64 * 4
    items = {item.name: item.bytes for item in end_of(state, "warmup").explained["requested"]}
    assert items["cuBLAS workspace of the stream"] >= 1 << 20


def test_the_graph_is_described_and_its_replays_allocate_nothing(state: RunState) -> None:
    graph = state.graph
    assert graph is not None and graph.pool_id not in (None, "default")
    assert graph.capture_s is not None and graph.instantiate_s is not None
    assert graph.nodes is None or graph.nodes > 5
    items = {item.name: item.bytes for item in end_of(state, "capture").explained["requested"]}
    assert items["logits"] >= 256 * 4
    assert items.get("unexplained", 0) == 0
    replay = end_of(state, "replay")
    assert (replay.allocations, replay.device_allocations) == (0, 0)
    assert replay.before == replay.after != Counters()
    decode = state.decode_by_mode["graph"]
    assert (decode.replays, decode.replay_allocations, decode.position) == (120, 0, 128)
