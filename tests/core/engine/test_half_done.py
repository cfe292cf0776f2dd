"""What is half done when an error or a refusal comes: it is put back, and what was there before can still be used."""

import pytest
import torch

from cgtop.core.commands import (
    AnyCommand,
    BreakInput,
    Cancel,
    Command,
    MendInput,
    Pause,
    Quit,
    RunBench,
    RunPhase,
    RunSweep,
    SetMode,
    Verify,
)
from cgtop.core.engine import compare, demonstrations
from cgtop.core.engine.sweep_rig import Rig
from cgtop.core.events import Comparison, Decode, Error, Event, PhaseEnd, Status, SweepBegin, SweepEnd, SweepRow
from cgtop.core.settings import Mode
from tests.core.engine.driving import Driven, last, with_
from tests.core.engine.failing import LOST, OUT_OF_MEMORY, captured, fails, raiser, replayed
from tests.core.engine.sweeping import Sweeping
from tests.fakes.device import PretendCapture

# ---------------------------------------------------------------------------------------------------------- a graph


@pytest.fixture
def not_instantiated(monkeypatch: pytest.MonkeyPatch) -> Driven:
    """A run whose first graph was recorded and could not be instantiated."""
    fails(monkeypatch, PretendCapture, "instantiate", OUT_OF_MEMORY)
    driven = captured()
    assert last(driven.of(Error)).kind == "out_of_memory" and last(driven.of(Error)).recoverable
    return driven


@pytest.mark.parametrize("mode", ["eager", "dynamic"])
def test_a_graph_that_could_not_be_instantiated_leaves_the_other_modes(not_instantiated: Driven, mode: Mode) -> None:
    not_instantiated.session.handle(SetMode(mode=mode))
    not_instantiated.session.decoding.stretch(5)
    not_instantiated.session.decoding._tell_live()
    not_instantiated.session.handle(Pause())
    assert last(not_instantiated.of(Status)).state == "paused"
    assert len(not_instantiated.of(Error)) == 1 and last(not_instantiated.of(Decode)).mode == mode


@pytest.mark.parametrize("command", [SetMode(mode="graph"), Verify(), BreakInput()])
def test_it_is_no_graph_to_work_with(not_instantiated: Driven, command: AnyCommand) -> None:
    not_instantiated.session.handle(command)
    assert last(not_instantiated.of(Status)).refused and not_instantiated.session.workflow.captured is None


def test_its_capture_can_be_tried_again(not_instantiated: Driven) -> None:
    not_instantiated.session.handle(RunPhase())
    assert last(not_instantiated.of(PhaseEnd)).phase == "capture" and not_instantiated.session.next_phase == "replay"


# ------------------------------------------------------------------------------------------------- what was to follow


@pytest.mark.parametrize("command", [MendInput(), BreakInput()])
def test_a_refused_demonstration_does_not_end_the_lap(command: AnyCommand) -> None:
    driven = replayed(tokens=20)
    if isinstance(command, BreakInput):
        driven.session.handle(command)
    driven.session.handle(SetMode(mode="eager"))
    driven.session.decoding.stretch(48)
    static = driven.session.workflow.static
    assert static is not None
    before = static.cursor.position, static.cursor.laps, static.kv.lengths()
    assert static.cursor.capacity - static.cursor.position < demonstrations.REPLAYS
    driven.session.handle(command)
    assert any(status.refused for status in driven.of(Status))
    assert (static.cursor.position, static.cursor.laps, static.kv.lengths()) == before


def test_a_break_whose_last_allocation_fails_leaves_the_input_where_the_graph_reads_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    driven = replayed()
    static = driven.session.workflow.static
    assert static is not None
    original, replays = static.step.input_ids, demonstrations._replays

    def then_no_memory(*args: object) -> list[torch.Tensor]:
        made = replays(*args)  # type: ignore[arg-type]
        fails(monkeypatch, torch.Tensor, "clone", OUT_OF_MEMORY)
        return made

    monkeypatch.setattr(demonstrations, "_replays", then_no_memory)
    driven.session.handle(BreakInput())
    assert last(driven.of(Error)).kind == "out_of_memory"
    assert static.step.input_ids is original and driven.session.workflow.rebound is None
    monkeypatch.undo()
    driven.session.handle(SetMode(mode="graph"))
    driven.session.decoding.stretch(3)
    assert last(driven.of(Status)).state == "decoding"


def test_the_replay_phase_is_of_one_replay_at_least() -> None:
    driven = captured(mode="graph")
    for command in (RunPhase(), Pause(), SetMode(mode="eager")):
        driven.session.handle(command)
    end = last(driven.of(PhaseEnd))
    assert (end.phase, end.status, end.notes) == ("replay", "done", ("measured over 1 replay",))


def test_a_device_that_is_lost_while_an_error_is_made_good_is_told_as_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    driven = replayed()
    driven.session.handle(SetMode(mode="graph"))
    graph = driven.session.workflow.captured
    assert graph is not None and driven.pretend is not None
    monkeypatch.setattr(graph, "replay", raiser(OUT_OF_MEMORY))
    monkeypatch.setattr(driven.pretend, "empty_cache", raiser(LOST))
    driven.then = lambda event: Quit() if isinstance(event, Status) and event.state == "failed" else None
    assert driven.run(quit_after=False) == 0
    assert [error.recoverable for error in driven.of(Error)] == [True, False]
    assert last(driven.of(Status)).state == "failed"


# ------------------------------------------------------------------------------------------------------ experiments


def test_a_comparison_that_is_cancelled_when_it_is_complete_was_not_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compare, "WARM_S", 0.0)
    driven = captured()

    def then(event: Event) -> Command | None:
        if not isinstance(event, Comparison):
            return None
        return Quit() if event.final else Cancel() if event.rounds == 2 else None

    driven.then = then
    driven.run(RunBench(modes=("eager",), tokens=2, rounds=2), quit_after=False)
    found = last(driven.of(Comparison))
    assert (found.rounds, found.final, found.stopped) == (2, True, False)


def test_a_sweep_that_cannot_begin_has_not_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Rig, "__init__", raiser(OUT_OF_MEMORY))
    sweeping = Sweeping(with_(verify_steps=0))
    sweeping.sweep(RunSweep(sweep="batches", values=(1,), strategies=("own",)))
    assert len(sweeping.of(Error)) == 1 and not sweeping.of(SweepBegin) and not sweeping.of(SweepEnd)


def test_a_row_that_is_cancelled_while_its_graph_is_in_doubt_has_no_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    sweeping = Sweeping(with_(verify_steps=64))
    capture = sweeping.device.capture

    def doubtful(*arguments: object) -> object:
        made = capture(*arguments)  # type: ignore[arg-type]
        replay, replays = made.replay, 0

        def off() -> None:
            nonlocal replays
            replays += 1
            replay()
            made.logits.add_(1)
            if replays == 2:  # the first of the run that is compared
                sweeping.queue.put(Cancel())

        monkeypatch.setattr(made, "replay", off)
        return made

    monkeypatch.setattr(sweeping.device, "capture", doubtful)
    sweeping.sweep(RunSweep(sweep="batches", values=(1, 2), strategies=("own",)))
    (row,) = sweeping.of(SweepRow)
    assert (row.status, row.verdict, row.tok_s) == ("failed", None, None) and "cancelled before" in row.reason
    assert last(sweeping.of(SweepEnd)).cancelled
