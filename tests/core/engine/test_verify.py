"""The verdict on a replay: bit by bit, beside eager's own repeatability."""

import math

import pytest
import torch

from cgtop.core.engine.verify import compare, dynamic_tolerance, judge, relative_difference


def run(*values: float) -> list[torch.Tensor]:
    """A run of one-logit steps."""
    return [torch.tensor([[value]], dtype=torch.bfloat16) for value in values]


def test_equal_bits_in_every_step_are_identical() -> None:
    verdict, nearest, noise = judge([run(1, 2, 3), run(1, 2, 3)], run(1, 2, 3))
    assert verdict == "identical" and nearest.identical_steps == 3 and noise.identical_steps == 3


def test_a_difference_that_eager_does_not_show_itself_is_a_mismatch_with_step_and_size() -> None:
    verdict, nearest, _ = judge([run(1, 2, 3)] * 4, run(1, 2, 3.5))
    assert (verdict, nearest.first_different, nearest.max_difference) == ("mismatch", 2, 0.5)


def test_no_farther_than_eager_from_itself_is_within_its_noise() -> None:
    eager = [run(1, 2, 3), run(1, 2, 3.5), run(1, 2, 3.25), run(1, 2, 3)]
    verdict, nearest, noise = judge(eager, run(1, 2, 3.125))
    assert verdict == "within_eager_noise"
    assert (nearest.max_difference, noise.max_difference, noise.identical_steps) == (0.125, 0.5, 2)


def test_farther_than_eager_from_itself_is_a_mismatch() -> None:
    assert judge([run(1, 2), run(1, 2.125)], run(1, 2.25 + 0.125))[0] == "mismatch"
    assert judge([run(1, 2), run(1, 2.125)], run(1, 1.75))[0] == "mismatch"
    assert judge([run(1, 2), run(1, 2.125)], run(1, 2.25))[0] == "within_eager_noise"


def test_results_that_are_not_finite_prove_nothing() -> None:
    same = run(1, math.nan)
    assert compare(same, same).identical_steps == 2
    assert judge([same, same], same, finite=False)[0] == "mismatch"


def test_a_nan_on_one_side_is_an_infinite_difference() -> None:
    found = compare(run(1, 2), run(1, math.nan))
    assert found.first_different == 1 and found.max_difference == math.inf


def test_zeros_of_different_sign_are_different_bits() -> None:
    assert compare(run(0.0), run(-0.0)).first_different == 0


def test_relative_difference_is_of_norms() -> None:
    assert relative_difference(torch.tensor([3.0, 4.5]), torch.tensor([3.0, 4.0])) == pytest.approx(0.1)
    assert relative_difference(torch.tensor([1.0]), torch.tensor([0.0])) == math.inf


def test_the_tolerance_grows_with_depth_and_coarseness_and_stays_far_from_a_wrong_result() -> None:
    coarse, fine = dynamic_tolerance(torch.bfloat16, 36, 2560), dynamic_tolerance(torch.float32, 36, 2560)
    assert fine < 1e-3 < coarse < 0.25
    assert dynamic_tolerance(torch.bfloat16, 4, 2560) < coarse
