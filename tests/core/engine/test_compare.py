"""Comparing decode modes: interleaving, when it is enough, what it flags, and that decoding goes on as before."""

import itertools
import math
import random
from collections.abc import Iterator

import pytest

from cgtop.core.commands import BreakInput, RunBench, RunPhase
from cgtop.core.engine import compare as comparing
from cgtop.core.engine.bandwidth import copy_bandwidth, link_under_load
from cgtop.core.engine.compare import Plan, Stretch, compare, run_bench
from cgtop.core.engine.decode import Arm
from cgtop.core.engine.devices import AllocatorCounters, CpuDevice
from cgtop.core.engine.watch import Watch
from cgtop.core.events import Addresses, Comparison, Status, Telemetry, Tokens
from cgtop.core.settings import Mode
from tests.core.engine.driving import Driven, last, with_
from tests.core.engine.laboratory import captured, lab_of, readings

BOTH: tuple[Mode, ...] = ("eager", "graph")
STEADY = Telemetry(sm_mhz=1980, memory_mhz=3201, power_w=300.0, throttle=())


@pytest.fixture(scope="module")
def driven() -> Driven:
    return captured(with_(verify_steps=0))


@pytest.fixture(autouse=True)
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparing, "READING_EVERY_S", 0.01)
    monkeypatch.setattr(comparing, "PREFILLS", 1)


def constant(monkeypatch: pytest.MonkeyPatch, graph: Iterator[float], eager: float = 20.0) -> list[Mode]:
    """Stretches of given speeds instead of real ones; returns the order in which they are made."""
    order: list[Mode] = []

    def stretch(self: object, arm: Arm) -> Stretch:
        order.append(arm.mode)
        tok_s = next(graph) if arm.mode == "graph" else eager
        return Stretch(tok_s, (1 / tok_s,), 0 if arm.mode == "graph" else 80)

    monkeypatch.setattr(comparing._Bench, "_stretch", stretch)
    return order


def test_both_modes_are_measured_on_the_real_steps(driven: Driven) -> None:
    driven.events.clear()
    run_bench(RunBench(modes=BOTH, tokens=4, rounds=2), lab_of(driven, readings([STEADY])))
    told = driven.of(Comparison)
    assert [(one.rounds, one.final) for one in told] == [(1, False), (2, False), (2, True)]
    found = told[-1]
    assert [arm.mode for arm in found.arms] == ["eager", "graph"]
    for arm in found.arms:
        assert (arm.rounds, arm.tokens) == (2, 8)
        assert 0 < arm.tok_s_low <= arm.tok_s <= arm.tok_s_high and 0 < arm.step_ms_p50 <= arm.step_ms_p99
        assert arm.gb_s and arm.gb_s > 0
    assert [arm.launches_per_token for arm in found.arms] == [3.0, 1.0]
    assert found.ratio is not None and found.ratio > 0
    assert (found.ratio_low, found.ratio_high) == (None, None)  # two rounds have no interval of 95 %
    assert (found.prefill_ms or 0) > 0 and found.prompt_len == 7
    assert (found.sm_mhz, found.power_w, found.throttled, found.steady) == (1980, 300.0, (), True)


def test_the_addresses_that_its_replays_compared_are_told_at_the_end(driven: Driven) -> None:
    guard = driven.session.workflow.guard
    assert guard is not None
    before = guard.checked
    compare(lab_of(driven, readings([STEADY])), Plan(BOTH, tokens=4, rounds=2), None)
    assert driven.of(Addresses)[-1].checked >= before + 8


def test_what_the_platform_does_not_count_is_unknown_and_not_zero(driven: Driven) -> None:
    found = compare(lab_of(driven), Plan(BOTH, tokens=2, rounds=1, warm_s=0.1), None)
    assert {arm.allocations_per_token for arm in found.arms} == {None}
    assert {(arm.share_of_copy, arm.share_of_datasheet) for arm in found.arms} == {(None, None)}
    assert (found.copy_bytes_s, found.sm_mhz, found.power_w) == (None, None, None)
    assert (found.throttled, found.steady, found.verdict) == (None, None, None)
    cpu = CpuDevice()
    assert copy_bandwidth(cpu, None) is None and link_under_load(cpu, None, Telemetry) is None


def test_allocations_are_counted_for_each_token(driven: Driven) -> None:
    assert driven.pretend is not None
    counted = itertools.count(step=12)
    driven.pretend.readings = lambda: AllocatorCounters(allocations=next(counted))
    try:
        found = compare(lab_of(driven), Plan(("eager",), tokens=6, rounds=1, warm_s=0.1), None)
    finally:
        driven.pretend.readings = AllocatorCounters
    assert (found.arms[0].allocations_per_token or 0) >= 2.0


def test_shares_are_of_the_bandwidths_that_are_known(driven: Driven) -> None:
    found = compare(lab_of(driven), Plan(("graph",), tokens=2, rounds=1, warm_s=0.1), 1e12)
    arm = found.arms[0]
    assert arm.gb_s is not None and arm.share_of_copy == pytest.approx(arm.gb_s / 1000)
    assert arm.share_of_datasheet is None and found.ratio is None


def test_arms_are_interleaved_so_that_a_drift_hits_both(driven: Driven, monkeypatch: pytest.MonkeyPatch) -> None:
    order = constant(monkeypatch, itertools.repeat(60.0))
    compare(lab_of(driven), Plan(BOTH, tokens=1, rounds=4, warm_s=0.1), None)
    assert order == ["eager", "graph", "graph", "eager"] * 2


def test_rounds_go_on_until_the_ratio_is_known_to_one_percent(driven: Driven, monkeypatch: pytest.MonkeyPatch) -> None:
    constant(monkeypatch, itertools.repeat(60.0))
    plan = Plan(BOTH, tokens=1, seconds=math.inf, warm_s=0.1)
    quiet = compare(lab_of(driven), plan, None)
    assert quiet.rounds == 6 and quiet.ratio == quiet.ratio_low == quiet.ratio_high == 3.0
    noise = random.Random(0)
    constant(monkeypatch, iter(lambda: noise.uniform(40, 80), None))
    monkeypatch.setattr(comparing, "ROUNDS_MAX", 20)
    noisy = compare(lab_of(driven), plan, None)
    assert noisy.rounds == 20
    assert noisy.ratio_low is not None and noisy.ratio_high is not None and noisy.ratio is not None
    assert (noisy.ratio_high - noisy.ratio_low) / 2 / noisy.ratio > comparing.HALF_WIDTH


def test_a_round_that_could_not_end_in_time_is_not_begun(driven: Driven) -> None:
    assert compare(lab_of(driven), Plan(BOTH, tokens=2, seconds=0.0, warm_s=0.1), None).rounds == 1


def test_it_can_be_cancelled_between_two_rounds(driven: Driven) -> None:
    driven.events.clear()
    compare(lab_of(driven, cancelled=lambda: True), Plan(BOTH, tokens=2, rounds=50, warm_s=0.1), None)
    assert last(driven.of(Comparison)).final and last(driven.of(Comparison)).rounds == 1


def test_an_idle_gpu_is_warmed_until_its_clock_stays(driven: Driven) -> None:
    ramp = [Telemetry(sm_mhz=clock, throttle=()) for clock in (345, 345, 900, 1410, 1800, 1980)]
    found = compare(lab_of(driven, readings(ramp)), Plan(BOTH, tokens=2, rounds=2, warm_s=20.0), None)
    assert (found.sm_mhz, found.steady) == (1980, True)


def test_a_clock_that_never_settles_is_flagged(driven: Driven) -> None:
    clocks = itertools.cycle([1980, 1500])
    found = compare(
        lab_of(driven, lambda: Telemetry(sm_mhz=next(clocks))), Plan(BOTH, tokens=2, rounds=1, warm_s=0.2), None
    )
    assert found.steady is False


def test_a_run_that_throttled_once_is_flagged(driven: Driven) -> None:
    held = Telemetry(sm_mhz=1980, throttle=("power cap",))
    found = compare(
        lab_of(driven, readings([STEADY] * 6 + [held, STEADY])), Plan(BOTH, tokens=2, rounds=4, warm_s=20.0), None
    )
    assert found.throttled == ("power cap",)


def test_one_missing_reading_leaves_throttling_and_clock_unknown() -> None:
    watch = Watch(readings([STEADY, Telemetry(), STEADY]))
    assert watch.throttled() is None and watch.steady() is None and watch.sm_mhz() is None
    watch.take()
    assert (watch.throttled(), watch.steady()) == ((), True)
    watch.take()
    assert (watch.throttled(), watch.steady(), watch.sm_mhz()) == (None, None, 1980)


def test_after_a_mismatch_no_speed_is_told() -> None:
    driven = captured(with_(inject_fault="corrupt_replay"))
    run_bench(RunBench(modes=BOTH, tokens=2, rounds=1), lab_of(driven))
    found = last(driven.of(Comparison))
    assert (found.verdict, found.arms, found.ratio, found.final) == ("mismatch", (), None, True)
    driven.events.clear()
    run_bench(RunBench(modes=("eager",), tokens=2, rounds=1), lab_of(driven))
    assert last(driven.of(Comparison)).arms[0].tok_s > 0  # eager does not rest on the graph


def tokens_after_a_pause(*, compared: bool, mode: Mode) -> list[int]:
    driven = captured(with_(verify_steps=0, max_cache_len=60))
    decoding = driven.session.decoding
    decoding.start(mode)
    decoding.stretch(10)
    decoding.stop()
    if compared:
        compare(lab_of(driven), Plan(("eager", "dynamic", "graph"), tokens=12, rounds=1, warm_s=0.05), None)
    driven.events.clear()
    decoding.start(mode)
    decoding.stretch(12)
    return [token for event in driven.of(Tokens) if event.mode == mode for token in event.ids]


@pytest.mark.parametrize("mode", ["graph", "dynamic"])
def test_decoding_goes_on_as_if_nothing_had_been_compared(mode: Mode) -> None:
    plain, compared = (tokens_after_a_pause(compared=compared, mode=mode) for compared in (False, True))
    assert len(plain) == 12 and plain == compared


def test_a_cpu_compares_what_it_has_and_refuses_a_graph() -> None:
    driven = Driven(with_(verify_steps=0))
    driven.run(RunBench(modes=BOTH, tokens=2, rounds=1))
    refusal = next(status for status in driven.of(Status) if status.refused)
    assert refusal.refused == "run_bench" and "CUDA" in refusal.why and not driven.of(Comparison)
    driven = Driven(with_(verify_steps=0))
    driven.run(RunBench(modes=("eager", "dynamic"), tokens=2, rounds=1))
    found = last(driven.of(Comparison))
    assert [arm.mode for arm in found.arms] == ["eager", "dynamic"] and found.ratio is None
    assert all(arm.launches_per_token is None for arm in found.arms)


def test_nothing_is_compared_while_the_input_is_rebound() -> None:
    driven = captured(with_(verify_steps=0))
    driven.run(BreakInput(), RunBench(tokens=2, rounds=1), RunPhase())
    refusal = next(status for status in driven.of(Status) if status.refused == "run_bench")
    assert "mend it" in refusal.why
