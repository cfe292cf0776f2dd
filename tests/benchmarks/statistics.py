"""Paired arms in ABBA order, and what their ratio is known to be."""

import random
from collections.abc import Callable, Sequence
from statistics import median
from typing import NamedTuple

RESAMPLES = 2000


class Ratio(NamedTuple):
    """The median of paired ratios A/B with its 95 % bootstrap interval."""

    median: float
    low: float
    high: float
    pairs: int

    @property
    def half_width(self) -> float:
        """Half of the interval, relative to the median."""
        return (self.high - self.low) / 2 / self.median

    def __str__(self) -> str:
        return f"{self.median:.4f} (95 % {self.low:.4f} to {self.high:.4f}, {self.pairs} pairs)"


def median_ratio(ratios: Sequence[float], seed: int = 0) -> Ratio:
    """Percentile bootstrap of the median; the seed makes it repeatable."""
    generator = random.Random(seed)
    medians = sorted(median(generator.choices(ratios, k=len(ratios))) for _ in range(RESAMPLES))
    return Ratio(median(ratios), medians[int(0.025 * RESAMPLES)], medians[int(0.975 * RESAMPLES) - 1], len(ratios))


def paired(
    first: Callable[[], float],
    second: Callable[[], float],
    *,
    least: int,
    most: int,
    half_width: float,
) -> tuple[Ratio, list[float], list[float]]:
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
        ratio = median_ratio([x / y for x, y in zip(a, b, strict=True)])
        if len(a) >= most or (len(a) >= least and len(a) % 2 == 0 and ratio.half_width <= half_width):
            return ratio, a, b
