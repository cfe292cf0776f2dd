"""Medians, their intervals, and arms measured in turn."""

import random
from statistics import median

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cgtop.core.statistics import LEAST_FOR_95, median_interval, paired, paired_ratios, quantile

figures = st.lists(st.floats(0.1, 1e6), min_size=1, max_size=20)


@settings(max_examples=40, deadline=None)
@given(figures)
def test_an_interval_contains_its_median_and_stays_within_the_values(values: list[float]) -> None:
    found = median_interval(values)
    assert min(values) <= found.low <= found.median == median(values) <= found.high <= max(values)
    assert found.n == len(values) and found.half_width >= 0


@settings(max_examples=10, deadline=None)
@given(figures, st.floats(0.5, 4))
def test_an_interval_is_repeatable_and_scales_with_its_values(values: list[float], factor: float) -> None:
    once, scaled = median_interval(values), median_interval([value * factor for value in values])
    assert once == median_interval(values)
    assert scaled.half_width == pytest.approx(once.half_width, abs=1e-9)


def test_the_interval_covers_the_true_median_as_often_as_it_says() -> None:
    generator = random.Random(1)
    trials = 200
    covered = sum(
        found.low <= 100.0 <= found.high
        for found in (median_interval([generator.gauss(100, 5) for _ in range(15)]) for _ in range(trials))
    )
    assert covered / trials >= 0.9


def test_more_values_make_a_narrower_interval() -> None:
    generator = random.Random(2)
    values = [generator.gauss(100, 5) for _ in range(200)]
    assert median_interval(values).half_width < median_interval(values[:10]).half_width / 2


def test_too_few_values_have_a_range_and_no_interval_of_95_percent() -> None:
    few = median_interval([1.0, 2.0, 4.0])
    assert (few.low, few.high, few.is_95) == (1.0, 4.0, False) and "range" in str(few)
    assert median_interval([1.0] * LEAST_FOR_95).is_95
    with pytest.raises(ValueError, match="no values"):
        median_interval([])


def test_one_outlier_moves_neither_median_nor_a_quantile_far() -> None:
    values = [10.0] * 20 + [1000.0]
    assert median_interval(values).high == 10.0
    assert (quantile(values, 0.5), quantile(values, 0.99), quantile([3.0], 0.99)) == (10.0, 1000.0, 3.0)
    with pytest.raises(ValueError, match="no values"):
        quantile([], 0.5)


def test_a_drift_that_both_arms_share_cancels_in_their_ratios() -> None:
    drift = [1.0, 0.8, 0.6, 0.9]
    ratios = paired_ratios([300 * d for d in drift], [100 * d for d in drift])
    assert ratios == pytest.approx([3.0] * 4)
    with pytest.raises(ValueError):
        paired_ratios([1.0], [])


def test_arms_are_measured_a_b_b_a() -> None:
    order: list[str] = []

    def arm(name: str, value: float) -> float:
        order.append(name)
        return value

    ratio, a, b = paired(lambda: arm("a", 2.0), lambda: arm("b", 1.0), least=4, most=4, half_width=0.0)
    assert "".join(order) == "abbaabba" and len(a) == len(b) == 4
    assert ratio.median == 2.0


def test_arms_are_measured_until_the_ratio_is_known_well_enough_or_for_long_enough() -> None:
    steady, _, _ = paired(lambda: 2.0, lambda: 1.0, least=2, most=50, half_width=0.01)
    assert steady.n == LEAST_FOR_95
    generator = random.Random(3)
    noisy, _, _ = paired(lambda: generator.uniform(1, 9), lambda: 1.0, least=2, most=12, half_width=0.001)
    assert noisy.n == 12
