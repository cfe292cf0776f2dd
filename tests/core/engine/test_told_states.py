"""What the engine tells after what went otherwise, as the screen reads it: no key is wrongly refused or taken."""

import functools
import threading
from collections.abc import Callable

import msgspec
import pytest
import torch

from cgtop.core.commands import (
    BreakInput,
    Command,
    MendInput,
    Pause,
    Quit,
    Resume,
    RunAll,
    RunBench,
    RunCheck,
    RunPhase,
    RunSweep,
    SetMode,
    TryDynamicCapture,
    Verify,
)
from cgtop.core.engine import compare, demonstrations, verdicts, workflow
from cgtop.core.events import (
    Caches,
    Check,
    Comparison,
    Decode,
    Demonstration,
    DeviceInfo,
    DynamicCapture,
    Error,
    Event,
    Hello,
    PhaseEnd,
    Status,
    SweepEnd,
    Verification,
)
from cgtop.core.settings import Mode
from cgtop.core.state import RunState, fold
from cgtop.tui.refusals import Facts, experiment, measuring, refusal, releases
from tests.core.engine.driving import Driven, last, with_
from tests.core.engine.failing import LOST, OUT_OF_MEMORY, captured, fails, raiser, replayed
from tests.core.engine.laboratory import CAPTURED
from tests.core.engine.sweeping import Sweeping


def seen(driven: Driven) -> RunState:
    """What the screen knows, of a device that it takes for a GPU."""
    opening: Hello = driven.session._opening.hello
    hello = msgspec.structs.replace(opening, device=DeviceInfo(kind="cuda", name="Pretended GPU"))
    return functools.reduce(fold, driven.events, fold(RunState(), hello))


def can(driven: Driven, action: str) -> bool:
    return refusal(action, Facts(state=seen(driven), kind="live")) is None


# ------------------------------------------------------------------------------------------ phases that were done


def test_a_stale_replay_leaves_the_replay_phase_done_and_the_release_asked_for() -> None:
    driven = replayed()
    driven.session.handle(BreakInput())
    driven.session.handle(SetMode(mode="graph"))
    driven.session._stretch(1)
    assert last(driven.of(Error)).kind == "stale_graph"
    state = seen(driven)
    assert state.phase("replay").status == "done" and releases(state)
    assert not can(driven, "run_all") and can(driven, "break_input")
    driven.session.handle(MendInput())
    driven.session.handle(SetMode(mode="graph"))
    assert last(driven.of(Status)).state == "decoding"


def test_a_verification_that_fails_leaves_the_capture_done_and_the_graph_usable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(verdicts, "available_bytes", lambda: 1)
    driven = captured(verify_steps=64)
    state = seen(driven)
    assert state.phase("capture").status == "done"
    assert state.next_phase is not None and state.next_phase.id == driven.session.next_phase == "replay"
    for action in ("mode('graph')", "break_input", "verify"):
        assert can(driven, action)


def test_a_replay_phase_whose_end_cannot_be_measured_comes_again(monkeypatch: pytest.MonkeyPatch) -> None:
    driven = captured()
    driven.session.handle(RunPhase())
    driven.session.decoding.stretch(3)
    fails(monkeypatch, driven.session._meter, "done", OUT_OF_MEMORY)
    with pytest.raises(torch.OutOfMemoryError):
        driven.session.decoding.stop()
    driven.session._decoding_failed(OUT_OF_MEMORY)
    state = seen(driven)
    assert state.next_phase is not None and state.next_phase.id == driven.session.next_phase == "replay"


@pytest.mark.parametrize(
    "command", [SetMode(mode="eager"), BreakInput(), RunBench(modes=("eager",), tokens=2, rounds=1)]
)
def test_it_comes_again_whatever_ended_it(monkeypatch: pytest.MonkeyPatch, command: Command) -> None:
    driven = captured()
    driven.session.handle(RunPhase())
    driven.session.decoding.stretch(3)
    driven.then = quit_after(Error)
    fails(monkeypatch, driven.session._meter, "done", OUT_OF_MEMORY)
    assert served(driven, command) == 0
    state = seen(driven)
    assert state.next_phase is not None and state.next_phase.id == driven.session.next_phase == "replay"
    assert state.running_phase is None and can(driven, "run_all")


def test_the_replay_phase_takes_no_time_while_it_is_paused(monkeypatch: pytest.MonkeyPatch) -> None:
    driven = captured()
    driven.session.handle(RunPhase())
    driven.session.decoding.stretch(3)
    driven.session.handle(Pause())
    threading.Event().wait(1.0)
    driven.session.handle(Resume())
    driven.session.decoding.stretch(6)
    driven.session.decoding.stop()
    seconds = next(end.seconds for end in driven.of(PhaseEnd) if end.phase == "replay")
    assert seconds is not None and 0 < seconds < 1.0


@pytest.mark.parametrize("mode", ["graph", "dynamic"])
def test_where_decoding_rests_both_caches_are_told_as_they_are(mode: Mode) -> None:
    driven = captured()
    driven.session.handle(SetMode(mode=mode))
    driven.session.decoding.stretch(5)
    driven.session.handle(Pause())
    held = driven.session.workflow
    assert held.static is not None and held.dynamic is not None
    told = last(driven.of(Caches))
    assert (told.static_position, told.dynamic_position) == (held.static.cursor.position, held.dynamic.cursor.position)
    assert 12 in (told.static_position, told.dynamic_position)


def test_a_model_that_must_not_be_captured_can_be_decoded_eagerly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workflow, "graph_refusal", lambda model: "its attention slides")
    driven = captured()
    assert last(driven.of(Error)).recoverable
    for mode in ("eager", "dynamic"):
        assert can(driven, f"mode('{mode}')")
        driven.session.handle(SetMode(mode=mode))
        assert last(driven.of(Status)).state == "decoding"


# ---------------------------------------------------------------------------------------- runs of all phases


def served(driven: Driven, *commands: Command) -> int | None:
    """The exit code of a session that ends by itself; null if it goes on waiting."""
    codes: list[int] = []
    thread = threading.Thread(target=lambda: codes.append(driven.run(*commands, quit_after=False)), daemon=True)
    thread.start()
    thread.join(60)
    return codes[0] if codes else None


@pytest.mark.parametrize("mode", ["replay", "eager"])
def test_a_run_to_release_ends_after_steps_that_failed(monkeypatch: pytest.MonkeyPatch, mode: str) -> None:
    driven = Driven(with_(verify_steps=0), pretend=True)
    fails(monkeypatch, driven.session.decoding, "stretch", OUT_OF_MEMORY, at=1 if mode == "replay" else 2)
    assert served(driven, RunAll(release=True)) == 1
    assert last(driven.of(Error)).kind == "out_of_memory"


def test_a_run_to_release_ends_after_a_verification_that_was_not_possible(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verdicts, "available_bytes", lambda: 1)
    assert served(Driven(pretend=True), RunAll(release=True)) == 2


def test_an_error_between_two_phases_is_told_and_the_session_lives(monkeypatch: pytest.MonkeyPatch) -> None:
    driven = captured()
    driven.session.handle(SetMode(mode="eager"))
    driven.then = quit_after(Error)
    fails(monkeypatch, driven.session.decoding, "stop", OUT_OF_MEMORY)
    assert served(driven, RunAll()) == 0
    assert last(driven.of(Error)).recoverable


def quit_after(kind: type[Event]) -> Callable[[Event], Command | None]:
    return lambda event: Quit() if isinstance(event, kind) else None


def test_a_second_error_while_the_first_is_made_good_cannot_be_recovered_from(monkeypatch: pytest.MonkeyPatch) -> None:
    driven = captured()
    monkeypatch.setattr(driven.session.workflow, "recover", raiser(OUT_OF_MEMORY))
    driven.session._decoding_failed(OUT_OF_MEMORY)
    assert not last(driven.of(Error)).recoverable and not can(driven, "mode('eager')")


# -------------------------------------------------------------------------------------------------------- modes


@pytest.mark.parametrize("when", ["before", "during"])
def test_graph_decoding_that_was_asked_for_stays_whatever_the_settings_say(when: str) -> None:
    driven = captured(mode="eager", tokens=10)
    if when == "during":
        driven.session.handle(RunPhase())
        driven.session.decoding.stretch(3)
    driven.session.handle(SetMode(mode="graph"))
    driven.session.decoding.stretch(15)
    assert driven.session.decoding.mode == "graph" == last(driven.of(Decode)).mode


def test_a_cpu_refuses_a_graph_and_decodes_on() -> None:
    driven = Driven(with_(verify_steps=0))
    driven.run(*[RunPhase() for _ in range(CAPTURED)], SetMode(mode="eager"), SetMode(mode="graph"))
    status = last(driven.of(Status))
    assert status.refused == "set_mode" and (status.state, status.mode) == ("decoding", "eager")


def test_a_mismatch_takes_the_speed_of_the_replays_before_it() -> None:
    driven = replayed()
    assert seen(driven).decode_by_mode["graph"].valid
    state = fold(seen(driven), msgspec.structs.replace(a_mismatch(), t=99.0))
    assert not state.decode_by_mode["graph"].valid and "graph" not in state.longest_by_mode
    assert state.decode is not None and not state.decode.valid


def a_mismatch() -> Verification:
    driven = captured(verify_steps=64, inject_fault="corrupt_replay")
    found = last(driven.of(Verification))
    assert found.verdict == "mismatch"
    return found


# -------------------------------------------------------------------------------------------------- verification


def test_a_run_without_verification_refuses_one() -> None:
    driven = captured(verify_steps=0)
    driven.session.handle(Verify())
    assert "--verify-steps 0" in last(driven.of(Status)).why and not driven.of(Verification)
    assert not can(driven, "verify")


def test_a_verification_inside_checks_counts_as_a_part_of_them() -> None:
    driven = Driven(pretend=True)
    states: list[bool] = []

    def look(event: Event) -> Quit | None:
        if not isinstance(event, Verification):
            return None
        states.append(measuring(seen(driven)))
        return Quit()

    driven.then = look
    driven.run(RunCheck(), quit_after=False)
    assert states == [True] and len(driven.of(Check)) == 19


# --------------------------------------------------------------------------------------------------- experiments


def test_an_experiment_that_is_refused_leaves_decoding_as_it_is() -> None:
    driven = captured()
    for command in (SetMode(mode="eager"), RunBench(modes=(), tokens=1)):
        driven.session.handle(command)
    status = last(driven.of(Status))
    assert status.refused == "run_bench" and (status.state, status.mode) == ("decoding", "eager")
    driven.session.handle(Pause())
    driven.session.handle(RunBench(modes=(), tokens=1))
    assert (last(driven.of(Status)).state, last(driven.of(Status)).mode) == ("paused", "eager")


def test_an_experiment_that_is_refused_in_the_replay_phase_leaves_the_mode_that_was_to_come() -> None:
    driven = captured(mode="eager", max_cache_len=14, tokens=500)
    driven.session.handle(RunPhase())
    driven.session.decoding.stretch(20)
    driven.session.handle(BreakInput())
    status = last(driven.of(Status))
    assert status.refused == "break_input" and (status.state, status.mode) == ("decoding", "eager")


def test_nothing_decodes_on_a_device_that_a_phase_of_an_experiment_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    driven = Driven(with_(verify_steps=0), pretend=True)
    driven.run(*[RunPhase() for _ in range(5)], SetMode(mode="eager"))
    driven.session.decoding.stretch(3)
    monkeypatch.setattr(workflow.Workflow, "_warmup", raiser(LOST))
    driven.session.handle(RunBench(modes=("eager",), tokens=2, rounds=1))
    assert not driven.session.decoding.active and last(driven.of(Status)).state == "failed"


def test_what_an_experiment_runs_is_told_as_a_part_of_it() -> None:
    driven = Driven(pretend=True)
    kinds: set[str | None] = set()

    def look(event: Event) -> Quit | None:
        if isinstance(event, Status) and event.state == "running":
            kinds.add(experiment(seen(driven)))
        return Quit() if isinstance(event, Verification) else None

    driven.then = look
    driven.run(RunCheck(), quit_after=False)
    assert kinds == {"checks"}


def test_a_sweep_that_an_error_ends_has_an_end() -> None:
    sweeping = Sweeping(with_(verify_steps=0))
    sweeping.device.before_capture = raiser(LOST)  # type: ignore[assignment]
    sweeping.sweep(RunSweep(sweep="batches", values=(1, 2), strategies=("own",)))
    assert sweeping.of(Error)[-1].kind == "device_lost"
    assert last(sweeping.of(SweepEnd)).cancelled and "an error" in last(sweeping.of(SweepEnd)).notes[0]


def test_a_comparison_that_an_error_ends_keeps_its_whole_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    driven = captured()
    fails(monkeypatch, compare._Bench, "_stretch", OUT_OF_MEMORY, at=4)
    driven.session.handle(RunBench(modes=("eager", "graph"), tokens=2, rounds=6))
    found = last(driven.of(Comparison))
    assert (found.final, found.stopped, found.rounds) == (True, True, 1)
    assert [arm.rounds for arm in found.arms] == [1, 1]
    assert last(driven.of(Error)).kind == "out_of_memory"


def test_a_device_that_is_lost_in_a_verification_is_measured_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    driven = Driven(pretend=True)
    monkeypatch.setattr("cgtop.core.engine.session.verify_run", raiser(LOST))
    driven.run(RunBench(modes=("eager", "graph"), tokens=2, rounds=1))
    assert last(driven.of(Error)).kind == "device_lost" and not driven.of(Comparison)


@pytest.mark.parametrize("at", [1, 2, 3])
def test_a_break_that_fails_puts_the_input_back(monkeypatch: pytest.MonkeyPatch, at: int) -> None:
    driven = captured()
    static, graph = driven.session.workflow.static, driven.session.workflow.captured
    assert static is not None and graph is not None
    before = static.step.input_ids
    fails(monkeypatch, graph, "replay", OUT_OF_MEMORY, at=at)
    driven.session.handle(BreakInput())
    assert last(driven.of(Error)).kind == "out_of_memory" and static.step.input_ids is before
    for command, stage in ((BreakInput(), "broken"), (MendInput(), "mended")):
        driven.session.handle(command)
        assert last(driven.of(Demonstration)).stage == stage
    assert last(driven.of(Demonstration)).follows


def test_a_mending_that_fails_can_be_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    driven = captured()
    driven.session.handle(BreakInput())
    fails(monkeypatch, demonstrations, "_replays", OUT_OF_MEMORY)
    driven.session.handle(MendInput())
    assert last(driven.of(Error)).kind == "out_of_memory"
    driven.session.handle(MendInput())
    assert last(driven.of(Demonstration)).stage == "mended" and last(driven.of(Demonstration)).follows


@pytest.mark.parametrize(("error", "kind"), [(OUT_OF_MEMORY, "out_of_memory"), (LOST, "device_lost")])
def test_what_no_dynamic_cache_is_to_blame_for_is_no_lesson_about_one(error: Exception, kind: str) -> None:
    driven = captured()
    assert driven.pretend is not None
    driven.pretend.fail = error
    driven.session.handle(TryDynamicCapture())
    assert last(driven.of(Error)).kind == kind and not driven.of(DynamicCapture)
