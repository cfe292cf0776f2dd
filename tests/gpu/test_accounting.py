"""The figures that must be exact on any GPU: every byte in a bucket, every Δ explained, nothing allocated by replay."""

import pytest

from cgtop.core.events import Addresses, Decode, End, Graph, Memory, PhaseEnd, PhaseId, Verification
from cgtop.core.phases import PHASE_IDS
from tests.gpu.conftest import UNVERIFIED, Run, Runner

GUIDES: dict[str, int] = {"guide_streams": True, **UNVERIFIED}


def ends(run: Run) -> dict[PhaseId, PhaseEnd]:
    return {end.phase: end for end in run.of(PhaseEnd)}


def delta(end: PhaseEnd, counter: str) -> int:
    before, after = getattr(end.before, counter), getattr(end.after, counter)
    assert before is not None and after is not None
    return int(after - before)


def test_all_phases_are_done_and_the_run_ends_well(run_all: Runner) -> None:
    run = run_all()
    assert {phase: end.status for phase, end in ends(run).items()} == dict.fromkeys(PHASE_IDS, "done")
    assert run.one(End).exit_code == 0


def test_buckets_add_up_to_the_device_total_at_every_boundary_and_while_decoding(run_all: Runner) -> None:
    memories = run_all().of(Memory)
    assert {memory.phase for memory in memories if not memory.live} == set(PHASE_IDS)
    assert any(memory.live for memory in memories)
    for memory in memories:
        assert memory.total_bytes is not None
        assert sum(memory.buckets.values()) == memory.total_bytes


@pytest.mark.parametrize("guide_streams", [False, True])
@pytest.mark.parametrize("counter", ["requested", "allocated", "reserved"])
def test_every_byte_of_the_allocator_is_explained(run_all: Runner, counter: str, guide_streams: bool) -> None:
    for phase, end in ends(run_all(**GUIDES) if guide_streams else run_all()).items():
        items = end.explained[counter]  # type: ignore[index]
        assert sum(item.bytes for item in items) == delta(end, counter), phase
        assert [item for item in items if item.name == "unexplained"] == [], phase


def test_the_context_phase_measures_the_context(run_all: Runner) -> None:
    end = ends(run_all())["context"]
    assert (end.before.driver, end.after.allocated) == (0, 0)
    assert (end.after.driver or 0) > 50 << 20


def test_weights_and_static_cache_are_their_closed_forms(run_all: Runner) -> None:
    run = run_all()
    model = run.model
    items = {item.name: item.bytes for item in ends(run)["load"].explained["requested"]}
    assert items["parameters"] == model.parameter_bytes
    items = {item.name: item.bytes for item in ends(run)["static_cache"].explained["requested"]}
    assert items["StaticCache keys and values"] == model.static_cache_bytes
    assert items["StaticCache length counters"] == 8 * model.layers


def test_replay_allocates_nothing_and_moves_nothing(run_all: Runner) -> None:
    run = run_all()
    end = ends(run)["replay"]
    assert (end.allocations, end.device_allocations) == (0, 0)
    for counter in ("requested", "allocated", "reserved", "driver"):
        assert delta(end, counter) == 0, counter
    graph = [decode for decode in run.of(Decode) if decode.mode == "graph"][-1]
    assert graph.replays == 512 and graph.replay_allocations == 0
    assert run.one(Addresses).moved == 0


def test_copying_the_prompt_costs_nothing(run_all: Runner) -> None:
    end = ends(run_all())["copy_kv"]
    assert [delta(end, counter) for counter in ("requested", "allocated", "reserved")] == [0, 0, 0]


def workspaces(run: Run) -> dict[PhaseId, int]:
    return {
        memory.phase: memory.buckets["cublas_workspace"]
        for memory in run.of(Memory)
        if memory.phase is not None and not memory.live
    }


def test_there_is_one_workspace_and_capture_adds_none(run_all: Runner) -> None:
    found = workspaces(run_all())
    assert found["load"] == 0
    assert found["prefill"] == found["warmup"] == found["capture"] == found["replay"] > 0


def test_the_guides_streams_add_a_workspace_at_warmup_and_one_at_capture(run_all: Runner) -> None:
    found = workspaces(run_all(**GUIDES))
    one = found["prefill"]
    assert (found["warmup"], found["capture"]) == (2 * one, 3 * one)
    names = {
        phase: [item.name for item in ends(run_all(**GUIDES))[phase].explained["allocated"]]
        for phase in ("warmup", "capture")
    }
    assert "cuBLAS workspace of the default stream" in names["warmup"]
    assert "cuBLAS workspace of the capture stream" in names["capture"]


def test_instantiate_is_told_apart_from_capture(run_all: Runner) -> None:
    graph = run_all().one(Graph)
    assert graph.instantiate_driver_bytes is not None and graph.instantiate_driver_bytes >= 0
    assert graph.nodes is None or (graph.nodes > 100 and sum(graph.nodes_by_kind.values()) == graph.nodes)


def test_the_replay_is_verified_against_eager_and_the_dynamic_cache(run_all: Runner) -> None:
    verification = run_all().one(Verification)
    assert verification.verdict in ("identical", "within_eager_noise")
    assert verification.steps >= 64 and verification.dynamic_ok and verification.finite


def test_a_corrupted_replay_is_found_and_fails_the_run(run_all: Runner) -> None:
    run = run_all(inject_fault="corrupt_replay", model="tiny")  # as many eager runs as there may be
    assert run.one(Verification).verdict == "mismatch"
    assert run.one(End).exit_code == 1
    assert {decode.valid for decode in run.of(Decode) if decode.mode == "graph"} == {False}


@pytest.mark.parametrize("warmup", [0, 1])
def test_fewer_warmups_work_too(run_all: Runner, warmup: int) -> None:
    run = run_all(warmup=warmup, tokens=64)
    assert run.one(End).exit_code == 0
    assert run.one(Verification).verdict != "mismatch"


def test_a_batch_decodes_all_its_sequences(run_all: Runner) -> None:
    run = run_all(batch_size=4, max_cache_len=256, tokens=64)
    assert run.one(Verification).batch_size == 4
    assert run.one(End).exit_code == 0
