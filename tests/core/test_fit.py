"""The line through measured points."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cgtop.core.fit import fit_line

MIB = 1 << 20
lengths = st.lists(st.integers(1, 1 << 17), min_size=2, max_size=8, unique=True)


@given(lengths, st.integers(-(1 << 20), 1 << 20), st.integers(0, 1 << 34))
def test_points_on_a_line_give_that_line(xs: list[int], slope: int, intercept: int) -> None:
    line = fit_line(xs, [intercept + slope * x for x in xs])
    assert line.slope == pytest.approx(slope, rel=1e-9, abs=1e-6)
    assert line.intercept == pytest.approx(intercept, rel=1e-9, abs=1 + 1e-9 * abs(slope) * max(xs))
    assert (line.r_squared is None) == (slope == 0)
    assert line.r_squared is None or line.r_squared == pytest.approx(1)


@given(lengths, st.data())
def test_no_other_line_is_closer(xs: list[int], data: st.DataObject) -> None:
    ys = data.draw(st.lists(st.integers(0, 1 << 30), min_size=len(xs), max_size=len(xs)))
    line = fit_line(xs, ys)

    def left(slope: float, intercept: float) -> float:
        return sum((y - intercept - slope * x) ** 2 for x, y in zip(xs, ys, strict=True))

    best = left(line.slope, line.intercept)
    off_slope = data.draw(st.floats(-1000, 1000))
    off_intercept = data.draw(st.floats(-1e6, 1e6))
    assert best <= left(line.slope + off_slope, line.intercept + off_intercept) * (1 + 1e-9) + 1
    assert line.r_squared is None or 0 <= line.r_squared <= 1


@given(lengths, st.data())
def test_order_does_not_matter(xs: list[int], data: st.DataObject) -> None:
    points = [(x, data.draw(st.integers(0, 1 << 30))) for x in xs]
    shuffled = data.draw(st.permutations(points))
    first, second = fit_line(*zip(*points, strict=True)), fit_line(*zip(*shuffled, strict=True))
    assert first.slope == pytest.approx(second.slope) and first.intercept == pytest.approx(second.intercept, abs=1e-3)


def test_the_guides_table_is_a_line_of_the_kv_bytes_of_a_token() -> None:
    line = fit_line([256, 512, 1024, 2048, 4096], [53, 89, 161, 305, 593])
    assert line.slope * 1024 == pytest.approx(144)
    assert line.intercept == pytest.approx(17)
    assert line.r_squared == pytest.approx(1) and line.at(1024) == pytest.approx(161)


@pytest.mark.parametrize(("xs", "ys"), [([], []), ([1], [1]), ([5, 5, 5], [1, 2, 3]), ([1, 2], [1])])
def test_too_few_points_have_no_line(xs: list[float], ys: list[float]) -> None:
    with pytest.raises(ValueError):
        fit_line(xs, ys)
