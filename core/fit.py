"""A straight line through measured points, by least squares. Pure."""

import math
from collections.abc import Sequence
from typing import NamedTuple


class Line(NamedTuple):
    """y = intercept + slope · x, and the share of the variance of y that it explains."""

    slope: float
    intercept: float
    r_squared: float | None
    """1 for points on the line; None where y does not vary, so that there is nothing to explain."""

    def at(self, x: float) -> float:
        """The line's value."""
        return self.intercept + self.slope * x


def fit_line(xs: Sequence[float], ys: Sequence[float]) -> Line:
    """The least-squares line through the points (x, y).

    Sums are taken about the means, so that large values close to each other lose nothing. Raises `ValueError` for
    sequences of different lengths and for fewer than two different x.
    """
    if len(xs) != len(ys):
        raise ValueError(f"{len(xs)} values of x and {len(ys)} of y")
    if len(set(xs)) < 2:
        raise ValueError("a line needs two different x at least")
    mean_x, mean_y = math.fsum(xs) / len(xs), math.fsum(ys) / len(ys)
    from_x, from_y = [x - mean_x for x in xs], [y - mean_y for y in ys]
    slope = _products(from_x, from_y) / _products(from_x, from_x)
    varied = _products(from_y, from_y)
    left = math.fsum((y - slope * x) ** 2 for x, y in zip(from_x, from_y, strict=True))
    return Line(
        slope=slope,
        intercept=mean_y - slope * mean_x,
        r_squared=max(0.0, 1 - left / varied) if varied > 0 else None,
    )


def _products(left: Sequence[float], right: Sequence[float]) -> float:
    return math.fsum(a * b for a, b in zip(left, right, strict=True))
