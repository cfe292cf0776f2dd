# ruff: noqa: A005 - imported as cgtop.core.statistics only
"""Medians and what they are known to within: for speeds that are compared, and for arms measured in turn.

Pure but for `paired`, which calls the arms it is given. All randomness is seeded: the same figures give the same
interval.
"""

import random
from collections.abc import Callable, Sequence
from statistics import median
from typing import NamedTuple

RESAMPLES = 2000
LEAST_FOR_95 = 6
"""With fewer values not even the whole range covers the median of their source with 95 %: 1 - 2 · 0.5ⁿ."""


class Interval(NamedTuple):
    """The median of some values, and the interval that it is known to be in."""

    median: float
    low: float
    high: float
    n: int

    @property
    def is_95(self) -> bool:
        """Whether the interval is one of 95 %; else it is the whole range of too few values."""
        return self.n >= LEAST_FOR_95

    @property
    def half_width(self) -> float:
        """Half of the interval, relative to the median."""
        return (self.high - self.low) / 2 / self.median

    def __str__(self) -> str:
        kind = "95 %" if self.is_95 else "range"
        return f"{self.median:.4f} ({kind} {self.low:.4f} to {self.high:.4f}, n = {self.n})"


def median_interval(values: Sequence[float], seed: int = 0) -> Interval:
    """The median with its 95 % interval, by a percentile bootstrap; of fewer than `LEAST_FOR_95` values, their range.

    Raises `ValueError` for no values.
    """
    if not values:
        raise ValueError("no values: no median")
    if len(values) < LEAST_FOR_95:
        return Interval(median(values), min(values), max(values), len(values))
    generator = random.Random(seed)
    medians = sorted(median(generator.choices(values, k=len(values))) for _ in range(RESAMPLES))
    low, high = medians[int(0.025 * RESAMPLES)], medians[int(0.975 * RESAMPLES) - 1]
    return Interval(median(values), low, high, len(values))


def paired_ratios(numerators: Sequence[float], denominators: Sequence[float]) -> list[float]:
    """Round by round: what changes slowly, such as a clock, changes both arms of a round and cancels.

    Raises `ValueError` for sequences of different lengths.
    """
    return [a / b for a, b in zip(numerators, denominators, strict=True)]


def quantile(values: Sequence[float], share: float) -> float:
    """The value below which `share` (0 to 1) of the values lie, by rank. Raises `ValueError` for no values."""
    if not values:
        raise ValueError("no values: no quantile")
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def paired(
    first: Callable[[], float],
    second: Callable[[], float],
    *,
    least: int,
    most: int,
    half_width: float,
) -> tuple[Interval, list[float], list[float]]:
    """Measure both arms in turn, A B B A, until the interval of the median ratio is within ± `half_width`.

    At least `least` and at most `most` pairs. Returns the ratio A/B and both arms' figures.
    """
    a: list[float] = []
    b: list[float] = []
    while True:
        if len(a) % 2 == 0:
            a.append(first())
            b.append(second())
        else:
            b.append(second())
            a.append(first())
        ratio = median_interval(paired_ratios(a, b))
        narrow = ratio.is_95 and ratio.half_width <= half_width
        if len(a) >= most or (len(a) >= least and len(a) % 2 == 0 and narrow):
            return ratio, a, b
