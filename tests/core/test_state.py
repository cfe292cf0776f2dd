"""fold: pure, bounded, and nothing shown that no event said."""

import msgspec

from cgtop.core.events import Check, Claim, Decode, Error, Event, PhaseEnd, SweepRow, Tokens
from cgtop.core.state import (
    CHECKS_KEPT,
    CLAIMS_KEPT,
    ERRORS_KEPT,
    ROWS_KEPT,
    SPEED_HISTORY,
    TOKENS_KEPT,
    RunState,
    fold,
)
from tests.sample import decode, sample_run


def folded(events: list[Event]) -> RunState:
    state = RunState()
    for event in events:
        state = fold(state, event)
    return state


def test_a_whole_run_folds_into_all_phases_done() -> None:
    state = folded(list(sample_run()))
    assert [row.status for row in state.phases] == ["done"] * 9
    assert state.next_phase is None
    assert set(state.decode_by_mode) == {"eager", "dynamic", "graph"}
    assert state.memory is not None and sum(state.memory.buckets.values()) == state.memory.total_bytes


def test_fold_does_not_change_the_state_it_is_given() -> None:
    before = folded(list(sample_run(decode_events=2))[:20])
    copy = msgspec.structs.replace(before)
    fold(before, decode(99.0, "eager", 3, 20.0, 40))
    assert before == copy


def test_speed_up_is_unknown_until_both_modes_ran_and_while_results_are_wrong() -> None:
    state = fold(RunState(), decode(1.0, "graph", 100, 120.0, 132))
    assert state.speed_up is None
    assert fold(state, decode(1.5, "eager", 2, 17.0, 134)).speed_up is None
    state = fold(state, decode(2.0, "eager", 10, 30.0, 142))
    assert state.speed_up == 4.0
    wrong = msgspec.structs.replace(decode(3.0, "graph", 100, 120.0, 132), valid=False)
    assert fold(state, wrong).speed_up is None


def test_speed_up_is_of_the_longest_stretch_of_each_mode() -> None:
    state = folded(
        [
            decode(1.0, "eager", 500, 25.0, 532),
            decode(2.0, "graph", 900, 100.0, 932),
            decode(3.0, "eager", 40, 16.0, 72),
            decode(4.0, "graph", 30, 90.0, 62),
        ]
    )
    assert {mode: event.tokens for mode, event in state.longest_by_mode.items()} == {"eager": 500, "graph": 900}
    assert state.decode_by_mode["eager"].tokens == 40
    assert state.speed_up == 4.0
    wrong = msgspec.structs.replace(decode(9.0, "graph", 5000, 200.0, 32), valid=False)
    assert fold(state, wrong).longest_by_mode["graph"].tokens == 900


def test_allocations_of_eager_are_unknown_rather_than_zero() -> None:
    event = msgspec.structs.replace(decode(1.0, "eager", 10, 30.0, 42), allocations=None)
    assert fold(RunState(), event).allocations_per_eager_token is None


def test_histories_are_bounded() -> None:
    state = RunState()
    for i in range(1000):
        state = fold(state, Decode(t=i, mode="graph", tokens=i, tok_s=1.0, position=1, capacity=2))
        state = fold(state, Tokens(t=i, mode="graph", ids=(i, i)))
    assert len(state.speeds) == SPEED_HISTORY and state.speeds[-1].t == 999
    assert len(state.tokens) == TOKENS_KEPT and state.tokens[-1] == 999


def test_an_error_marks_its_phase_and_keeps_what_was_measured() -> None:
    state = folded(list(sample_run(decode_events=1))[:12])
    done = [row.end for row in state.phases if row.status == "done"]
    failed = fold(state, Error(t=9.0, kind="out_of_memory", headline="out of memory", phase="warmup", recoverable=True))
    assert failed.phase("warmup").status == "failed"
    assert [row.end for row in failed.phases if row.status == "done"] == done
    assert fold(failed, PhaseEnd(t=9.1, phase="warmup", status="failed")).phase("warmup").status == "failed"


def test_results_without_end_stay_bounded_and_the_latest_are_kept() -> None:
    count = 2 * max(ERRORS_KEPT, CHECKS_KEPT, CLAIMS_KEPT, ROWS_KEPT)
    events: list[Event] = []
    for index in range(count):
        events += [
            Error(kind="internal", headline=str(index)),
            Check(name=str(index), status="PASS"),
            Claim(id=str(index), statement="", verdict="holds", finding=""),
            SweepRow(sweep="batches", value=index),
        ]
    state = folded(events)
    rows = state.sweeps["batches"].rows
    assert (len(state.errors), state.errors[-1].headline) == (ERRORS_KEPT, str(count - 1))
    assert (len(state.checks), state.checks[-1].name) == (CHECKS_KEPT, str(count - 1))
    assert (len(state.claims), state.claims[-1].id) == (CLAIMS_KEPT, str(count - 1))
    assert (len(rows), rows[-1].value) == (ROWS_KEPT, count - 1)
