"""Whole sessions on the real tiny model: the phases in order, decode modes, refusals, errors, and exit codes."""

import threading

import pytest
import torch

from cgtop.core.commands import Pause, Quit, Resume, RunAll, RunPhase, SetMode, Verify
from cgtop.core.engine import verdicts
from cgtop.core.engine.devices import AllocatorCounters
from cgtop.core.events import (
    Addresses,
    Decode,
    Error,
    Event,
    Graph,
    Memory,
    PhaseBegin,
    PhaseEnd,
    Status,
    Tokens,
    Verification,
)
from cgtop.core.phases import PHASE_IDS
from cgtop.core.settings import Mode
from tests.core.engine.driving import SMALL, Driven, last, with_


def test_on_a_cpu_all_phases_run_and_those_without_a_graph_say_what_they_need() -> None:
    driven = Driven()
    assert driven.run(RunAll(release=True), quit_after=False) == 0
    ends = {end.phase: end for end in driven.of(PhaseEnd)}
    assert tuple(ends) == PHASE_IDS
    unavailable = {phase for phase, end in ends.items() if end.status == "unavailable"}
    assert unavailable == {"capture", "replay"}
    assert "CUDA" in ends["capture"].reason
    assert last(driven.of(Status)).state == "released"
    assert {decode.mode for decode in driven.of(Decode)} == {"eager", "dynamic"}


def test_a_cpu_claims_no_counter_and_no_total_that_it_does_not_have() -> None:
    driven = Driven()
    driven.run(RunAll(release=True), quit_after=False)
    done = [end for end in driven.of(PhaseEnd) if end.status == "done"]
    assert len(driven.of(Memory)) >= len(done) > 0
    for memory in driven.of(Memory):
        assert memory.total_bytes is None and "free" not in memory.buckets and memory.reasons["free"]
    for end in driven.of(PhaseEnd):
        assert end.after.reserved is None and end.after.driver is None and end.allocations is None
        assert end.after.allocated is None


def test_requested_bytes_on_a_cpu_are_exact_and_explained() -> None:
    driven = Driven()
    driven.run(RunAll(release=True), quit_after=False)
    info = driven.session.workflow.plan.info
    ends = {end.phase: end for end in driven.of(PhaseEnd)}
    items = {item.name: item.bytes for item in ends["load"].explained["requested"]}
    assert items["parameters"] == info.parameter_bytes
    items = {item.name: item.bytes for item in ends["static_cache"].explained["requested"]}
    assert items["StaticCache keys and values"] == info.static_cache_bytes
    assert items["StaticCache length counters"] == 8 * info.layers
    for end in ends.values():
        if end.status != "done":
            continue
        assert end.before.requested is not None and end.after.requested is not None
        delta = end.after.requested - end.before.requested
        assert sum(item.bytes for item in end.explained["requested"]) == delta
        assert "unexplained" not in {item.name for item in end.explained["requested"]}
    assert ends["copy_kv"].explained["requested"] == ()
    assert ends["release"].after.requested == 0


def test_a_pretended_graph_runs_every_phase_with_a_verdict() -> None:
    driven = Driven(pretend=True)
    assert driven.run(RunAll(release=True), quit_after=False) == 0
    assert [end.phase for end in driven.of(PhaseEnd)] == list(PHASE_IDS)
    assert {end.status for end in driven.of(PhaseEnd)} == {"done"}
    verification = last(driven.of(Verification))
    assert (verification.verdict, verification.steps, verification.identical_steps) == ("identical", 64, 64)
    assert verification.dynamic_ok
    assert driven.of(Graph)[0].nodes == 4
    assert {decode.mode for decode in driven.of(Decode)} == {"eager", "dynamic", "graph"}
    graph = last(decode for decode in driven.of(Decode) if decode.mode == "graph")
    assert graph.replays >= SMALL.tokens


def test_a_corrupted_replay_is_a_mismatch_fails_the_run_and_has_no_valid_speed() -> None:
    driven = Driven(with_(inject_fault="corrupt_replay"), pretend=True)
    assert driven.run(RunAll(release=True), quit_after=False) == 1
    verification = last(driven.of(Verification))
    assert verification.verdict == "mismatch" and verification.corrupted_on_purpose
    assert (verification.eager_runs, verification.replay_runs) == (8, 8)
    assert verification.first_mismatch_step == 0 and (verification.max_difference or 0) > 0
    graphs = [decode for decode in driven.of(Decode) if decode.mode == "graph"]
    assert graphs and not any(decode.valid for decode in graphs)
    assert {decode.valid for decode in driven.of(Decode) if decode.mode == "eager"} == {True}


def test_a_host_without_room_for_the_logits_refuses_to_verify_and_the_graph_is_not_called_right(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(verdicts, "available_bytes", lambda: 1)
    driven = Driven(pretend=True)
    assert driven.run(*[RunPhase() for _ in range(8)], SetMode(mode="eager"), SetMode(mode="graph")) == 0
    error = last(driven.of(Error))
    assert (error.kind, error.recoverable) == ("settings", True)
    assert "no memory left to compare logits" in error.headline and "--verify-steps 0" in error.hint
    assert not driven.of(Verification)
    assert not any(decode.valid for decode in driven.of(Decode) if decode.mode == "graph")


def test_a_host_that_runs_out_of_room_before_there_is_a_verdict_gives_none(monkeypatch: pytest.MonkeyPatch) -> None:
    room = [1 << 60, 1 << 60, 1]
    monkeypatch.setattr(verdicts, "available_bytes", lambda: room.pop(0))
    driven = Driven(with_(inject_fault="corrupt_replay"), pretend=True)
    driven.run(*[RunPhase() for _ in range(7)])
    assert not driven.of(Verification) and "no memory left to compare logits" in last(driven.of(Error)).headline
    assert room == []


@pytest.mark.parametrize("mode", ["graph", "eager"])
def test_a_run_up_to_replay_says_in_the_end_that_it_decodes_and_how(mode: Mode) -> None:
    driven = Driven(with_(mode=mode, verify_steps=0), pretend=True)

    def quit_later(event: Event) -> Quit | None:
        """Once it decodes on, in the mode that was asked for, after the replay phase was measured."""
        done = any(end.phase == "replay" for end in driven.of(PhaseEnd))
        return Quit() if isinstance(event, Decode) and done and event.mode == mode else None

    driven.then = quit_later
    driven.run(RunAll(), quit_after=False)
    status = last(driven.of(Status))
    assert (status.state, status.mode, status.next_phase) == ("decoding", mode, "release")


def test_a_verification_on_a_key_is_told_while_it_goes_on() -> None:
    driven = Driven(pretend=True)
    driven.run(*[RunPhase() for _ in range(7)], Verify())
    verified = [index for index, event in enumerate(driven.events) if isinstance(event, Verification)]
    assert len(verified) == 2
    before = last(event for event in driven.events[: verified[1]] if isinstance(event, Status))
    assert (before.state, before.phase) == ("running", "capture")
    assert last(driven.of(Status)).state == "idle"


def test_phases_start_one_by_one_and_only_in_order() -> None:
    driven = Driven()
    driven.run(RunPhase(phase="prefill"), RunPhase(), RunPhase(phase="load"))
    assert [end.phase for end in driven.of(PhaseEnd)] == ["context", "load"]
    refusal = next(status for status in driven.of(Status) if status.refused)
    assert refusal.refused == "run_phase" and "comes first" in refusal.why
    assert last(driven.of(Status)).next_phase == "prefill"


@pytest.mark.parametrize(
    ("mode", "phases", "why"),
    [
        ("eager", 2, "run static cache first"),
        ("eager", 4, "run copy KV first"),
        ("dynamic", 2, "run prefill first"),
        ("graph", 6, "CUDA graphs need CUDA"),
    ],
)
def test_a_mode_that_cannot_decode_yet_says_why(mode: str, phases: int, why: str) -> None:
    driven = Driven()
    driven.run(*[RunPhase() for _ in range(phases)], SetMode(mode=mode))  # type: ignore[arg-type]
    refusal = last(driven.of(Status))
    assert refusal.refused == "set_mode" and why in refusal.why


def tokens_of(driven: Driven, mode: str) -> list[int]:
    return [token for event in driven.of(Tokens) if event.mode == mode for token in event.ids]


def test_eager_dynamic_and_graph_decode_the_same_tokens_from_the_same_prompt() -> None:
    found = {}
    for mode in ("eager", "dynamic", "graph"):
        driven = Driven(with_(verify_steps=0), pretend=True)
        driven.run(*[RunPhase() for _ in range(7)])
        workflow, session = driven.session.workflow, driven.session
        session.decoding.start(mode)
        session.decoding.stretch(25)
        found[mode] = tokens_of(driven, mode)[:25]
        assert len(found[mode]) == 25
        assert workflow.static is not None
    assert found["eager"] == found["graph"] == found["dynamic"]
    assert len(set(found["eager"])) > 1


def test_eager_and_graph_go_on_at_the_same_position_of_the_same_cache() -> None:
    alone = Driven(with_(verify_steps=0), pretend=True)
    alone.run(*[RunPhase() for _ in range(7)])
    alone.session.decoding.start("eager")
    alone.session.decoding.stretch(24)
    switching = Driven(with_(verify_steps=0), pretend=True)
    switching.run(*[RunPhase() for _ in range(7)])
    for mode, steps in (("eager", 8), ("graph", 8), ("eager", 8)):
        switching.session.decoding.start(mode)  # type: ignore[arg-type]
        switching.session.decoding.stretch(steps)
    switched = [token for event in switching.of(Tokens) for token in event.ids]
    expected = tokens_of(alone, "eager")
    count = min(len(switched), len(expected), 26)
    assert count >= 24
    assert switched[:count] == expected[:count]


def test_a_full_cache_rewinds_to_the_prompt_and_counts_a_lap() -> None:
    driven = Driven(with_(max_cache_len=16, verify_steps=0), pretend=True)
    driven.run(*[RunPhase() for _ in range(7)])
    for mode in ("eager", "dynamic", "graph"):
        driven.session.decoding.start(mode)
        driven.session.decoding.stretch(20)
        decode = last(driven.of(Decode))
        assert decode.mode == mode and decode.laps >= 1 and decode.position <= decode.capacity == 16
    first, again = tokens_of(driven, "dynamic")[:9], tokens_of(driven, "dynamic")[9:18]
    assert first == again


def test_warmup_moves_no_address_and_leaves_the_prompts_length() -> None:
    for warmup in (0, 1, 3):
        driven = Driven(with_(warmup=warmup, verify_steps=0), pretend=True)
        driven.run(*[RunPhase() for _ in range(7)])
        static = driven.session.workflow.static
        assert static is not None
        assert static.kv.lengths() == [7] * len(static.kv.lengths())
        assert last(driven.of(Addresses)).moved == 0


def test_a_moved_tensor_makes_the_graph_stale_instead_of_wrong() -> None:
    driven = Driven(with_(verify_steps=0), pretend=True)
    driven.run(*[RunPhase() for _ in range(7)])
    static = driven.session.workflow.static
    assert static is not None
    layer = static.kv.layers[1]
    layer.keys = layer.keys.clone()
    driven.session.decoding.start("graph")
    driven.session._stretch(1)
    error = last(driven.of(Error))
    assert error.kind == "stale_graph" and "keys 1" in error.headline


def test_pause_stops_between_two_steps_and_resume_goes_on() -> None:
    driven = Driven(with_(verify_steps=0), pretend=True)
    driven.run(*[RunPhase() for _ in range(6)])
    session = driven.session
    session.decoding.start("eager")
    session.decoding.stretch(5)
    session.handle(Pause())
    assert last(driven.of(Status)).state == "paused"
    count = len(driven.of(Decode))
    session.handle(Pause())
    assert "nothing is decoding" in last(driven.of(Status)).why
    session.handle(Resume())
    assert last(driven.of(Status)).state == "decoding" and len(driven.of(Decode)) == count


def test_verifying_again_in_the_middle_leaves_the_decode_state_as_it_found_it() -> None:
    def decoded(verify: bool) -> list[int]:
        driven = Driven(with_(max_cache_len=100), pretend=True)
        driven.run(*[RunPhase() for _ in range(7)])
        driven.session.decoding.start("eager")
        driven.session.decoding.stretch(10 if verify else 20)
        if verify:
            driven.session.handle(Verify())
            assert last(driven.of(Verification)).verdict == "identical"
            driven.session.decoding.start("eager")
            driven.session.decoding.stretch(10)
        return tokens_of(driven, "eager")

    plain, verified = decoded(False), decoded(True)
    assert len(verified) >= 20 and plain[:20] == verified[:20]


def test_two_runs_one_after_the_other_give_the_same_tokens() -> None:
    runs = []
    for _ in range(2):
        driven = Driven(pretend=True)
        driven.run(RunAll(release=True), quit_after=False)
        runs.append(tokens_of(driven, "graph")[:20])
    assert runs[0] == runs[1] and len(runs[0]) == 20


def test_a_failed_capture_says_what_it_leaked_and_ends_a_headless_run_with_1() -> None:
    driven = Driven(pretend=True)
    assert driven.pretend is not None
    driven.pretend.fail = RuntimeError("operation not permitted when stream is capturing")
    assert driven.run(RunAll(release=True), quit_after=False) == 1
    assert last(driven.of(Error)).kind == "capture"
    assert last(driven.of(Error)).phase == "capture"
    status = last(driven.of(Status))
    assert status.tainted_bytes is not None
    assert {end.phase for end in driven.of(PhaseEnd)} == set(PHASE_IDS[:6])


def test_out_of_memory_in_a_phase_keeps_what_was_measured_and_can_be_tried_again() -> None:
    driven = Driven(pretend=True)
    driven.run(*[RunPhase() for _ in range(6)])
    assert driven.pretend is not None
    driven.pretend.fail = torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
    driven.run(RunPhase())
    error = last(driven.of(Error))
    assert error.kind == "out_of_memory" and error.recoverable and error.hint
    assert last(driven.of(Status)).next_phase == "capture"
    driven.pretend.fail = None
    driven.run(RunPhase())
    assert last(driven.of(PhaseEnd)).phase == "capture" and last(driven.of(PhaseEnd)).status == "done"


def test_a_lost_device_refuses_everything_but_a_restart() -> None:
    driven = Driven(pretend=True)
    driven.run(*[RunPhase() for _ in range(6)])
    assert driven.pretend is not None
    driven.pretend.fail = RuntimeError("CUDA error: device-side assert triggered")
    driven.run(RunPhase(), RunPhase())
    assert last(driven.of(Error)).kind == "device_lost" and not last(driven.of(Error)).recoverable
    assert "restart" in last(driven.of(Status)).why


def test_a_missing_counter_stays_unknown_through_a_whole_run() -> None:
    driven = Driven(pretend=True)
    assert driven.pretend is not None
    driven.pretend.readings = lambda: AllocatorCounters(requested=5)
    driven.run(RunAll(release=True), quit_after=False)
    assert {decode.allocations for decode in driven.of(Decode)} == {None}
    assert {decode.replay_allocations for decode in driven.of(Decode) if decode.mode == "graph"} == {None}
    assert {end.allocations for end in driven.of(PhaseEnd)} == {None}


def test_the_model_is_called_on_one_thread_only(monkeypatch: pytest.MonkeyPatch) -> None:
    from cgtop.core.engine import steps

    seen: set[int] = set()
    original = steps.DecodeStep.__call__

    def noting(self: steps.DecodeStep) -> torch.Tensor:
        seen.add(threading.get_ident())
        return original(self)

    monkeypatch.setattr(steps.DecodeStep, "__call__", noting)
    driven = Driven(pretend=True)
    driven.run(RunAll(release=True), quit_after=False)
    assert seen == {threading.get_ident()}


def test_gradients_are_never_recorded() -> None:
    driven = Driven(with_(verify_steps=0), pretend=True)
    driven.run(*[RunPhase() for _ in range(7)])
    captured = driven.session.workflow.captured
    assert captured is not None and not captured.logits.requires_grad and captured.logits.grad_fn is None


def test_every_phase_that_ends_has_begun() -> None:
    driven = Driven(pretend=True)
    driven.run(RunAll(release=True), quit_after=False)
    assert [begin.phase for begin in driven.of(PhaseBegin)] == list(PHASE_IDS)


def test_what_was_asked_for_and_needs_a_capture_is_said_to_be_left_out_on_a_cpu() -> None:
    driven = Driven(with_(memory_snapshot="a.pickle", inject_fault="corrupt_replay"))
    driven.run(RunAll(release=True), quit_after=False)
    reason = next(end.reason for end in driven.of(PhaseEnd) if end.phase == "capture")
    assert "no memory snapshot" in reason and "no replay to corrupt" in reason


def test_an_experiment_is_given_what_the_phases_told_and_the_verdict() -> None:
    driven = Driven(pretend=True)
    driven.run(*[RunPhase() for _ in range(7)])
    lab = driven.session._lab()
    assert list(lab.phase_ends()) == list(PHASE_IDS[:7])
    assert lab.verification() == last(driven.of(Verification))
