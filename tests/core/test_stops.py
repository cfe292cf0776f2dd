"""Where a step through a recording stops."""

from cgtop.core.events import (
    Check,
    Comparison,
    Demonstration,
    DynamicCapture,
    End,
    Error,
    Event,
    Memory,
    PhaseBegin,
    PhaseEnd,
    Status,
    SweepEnd,
    SweepRow,
)
from cgtop.core.stops import stops_of
from tests.sample import decode, hello


def found(*events: Event) -> list[tuple[int, str]]:
    run = [hello(), *events]
    return [(stop.index, stop.what) for stop in stops_of(run, [event.t for event in run])]


def test_an_error_is_a_stop() -> None:
    stale = Error(t=1.0, kind="stale_graph", headline="Stale graph")
    assert found(stale, End(t=1.01, reason="quit")) == [(3, "an error: Stale graph")]


def test_stops_stay_in_order_where_an_experiment_goes_on_after_an_error() -> None:
    places = [index for index, _ in found(
        SweepRow(t=1.0, sweep="batches", value=1),
        Error(t=2.0, kind="capture", headline="other logits", recoverable=True),
        SweepRow(t=4.0, sweep="batches", value=2),
        SweepEnd(t=6.0, sweep="batches"),
        Status(t=6.2, state="idle"),
    )]  # fmt: skip
    assert places == [2, 3, 4, 5]


def test_the_stop_of_an_error_shows_what_it_led_to() -> None:
    stale = Error(t=1.0, kind="stale_graph", headline="Stale graph")
    memory, failed = Memory(t=1.1, live=True), Status(t=1.2, state="failed")
    assert found(stale, memory, failed, Status(t=30.0, state="idle")) == [(4, "an error: Stale graph")]
    assert found(stale, Status(t=30.0, state="idle")) == [(2, "an error: Stale graph")]


def test_a_phase_stops_behind_the_memory_that_it_left_and_before_the_next() -> None:
    assert found(
        PhaseBegin(t=1.0, phase="load"),
        PhaseEnd(t=2.0, phase="load"),
        Memory(t=2.01, phase="load"),
        Status(t=2.02, state="idle"),
        Status(t=2.02, state="running", phase="prefill"),
        PhaseBegin(t=2.03, phase="prefill"),
        PhaseEnd(t=3.0, phase="prefill", status="failed"),
    ) == [(5, "Model load: done"), (8, "Prefill (eager, DynamicCache): failed")]


def test_a_change_of_mode_is_a_stop_but_the_first_mode_of_replay_is_not() -> None:
    assert found(
        PhaseBegin(t=1.0, phase="replay"),
        decode(1.1, "graph", 1, 100.0, 40),
        PhaseEnd(t=2.0, phase="replay"),
        decode(3.0, "graph", 9, 100.0, 50),
        decode(4.0, "eager", 1, 20.0, 51),
        decode(5.0, "eager", 2, 20.0, 52),
        decode(6.0, "graph", 1, 100.0, 53),
    ) == [(4, "Graph replay: done"), (7, "decoding in mode eager"), (8, "decoding in mode graph")]


def test_a_change_of_mode_stops_once_the_mode_has_a_speed_or_something_else_happens() -> None:
    samples = [decode(t, "eager", round(t * 10), 20.0, 51) for t in (3.1, 3.2, 3.9, 4.2, 4.3)]
    first = decode(1.0, "graph", 1, 100.0, 40)
    assert found(first, *samples) == [(2, "decoding in mode graph"), (6, "decoding in mode eager")]
    shown = Demonstration(
        t=3.25, stage="broken", fed_ids=(), expected_ids=(), replay_ids=(), captured_address=1, present_address=2
    )
    assert found(first, *samples[:2], shown, *samples[2:])[1:] == [
        (4, "decoding in mode eager"),
        (5, "the input rebound"),
    ]


def test_demonstrations_and_results_are_stops_and_rounds_in_between_are_not() -> None:
    broken = Demonstration(
        t=2.0, stage="broken", fed_ids=(), expected_ids=(), replay_ids=(), captured_address=1, present_address=2
    )
    assert [what for _, what in found(
        DynamicCapture(t=1.0, captured=True),
        broken,
        Comparison(t=3.0, arms=(), rounds=1),
        Comparison(t=4.0, arms=(), rounds=2, final=True),
        SweepRow(t=5.0, sweep="cache_lens", value=4096),
        SweepEnd(t=6.0, sweep="cache_lens"),
    )] == [
        "capture attempted on the DynamicCache",
        "the input rebound",
        "the modes compared",
        "measured: cache length 4,096",
        "cache lengths: the measurement ends",
    ]  # fmt: skip


def test_the_last_stop_is_the_end_where_nothing_follows_it() -> None:
    assert found(PhaseEnd(t=1.0, phase="release"), Status(t=1.0, state="released"), End(t=1.02, reason="done")) == [
        (4, "Release: done")
    ]


def test_checks_that_come_together_are_one_stop() -> None:
    checks = [Check(t=t, name="memory", status="PASS") for t in (1.0, 1.1, 1.2, 9.0)]
    assert [index for index, _ in found(*checks)] == [4, 5]


def test_a_stop_of_checks_tells_how_they_stand() -> None:
    checks = [
        Check(t=1.0, name="weights", status="PASS"),
        Check(t=1.1, name="StaticCache", status="PASS"),
        Check(t=9.0, name="company", status="FAIL"),
    ]
    assert [what for _, what in found(*checks)] == [
        "checked so far: 2 PASS",
        "checked so far: 2 PASS, 1 FAIL",
    ]
