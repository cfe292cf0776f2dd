"""The verdict on a replay: bit by bit, beside eager's own repeatability."""

import json
import math
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import pytest
import torch

from cgtop.core.engine import verdicts
from cgtop.core.engine.failures import EngineError
from cgtop.core.engine.verdicts import (
    EAGER_RUNS,
    EAGER_RUNS_MAX,
    REPLAY_RUNS,
    EagerRuns,
    Judged,
    Run,
    compare,
    dynamic_tolerance,
    relative_difference,
    settle,
)


def run(*values: float) -> Run:
    """A run of one-logit steps."""
    return Run([torch.tensor([[value]], dtype=torch.bfloat16) for value in values], [])


def in_turn(runs: Iterable[Run]) -> Callable[[], Run]:
    """These, one at each call; asking for more is an error."""
    left = iter(runs)
    return lambda: next(left)


def settled(eager: Iterable[Run], replays: Iterable[Run]) -> Judged:
    """The verdict on these, of which the first two eager runs are always made."""
    make = in_turn(eager)
    family = EagerRuns()
    family.add(make())
    family.add(make())
    return settle(family, make, in_turn(replays))


def test_equal_bits_in_every_step_are_identical() -> None:
    found = settled([run(1, 2, 3)] * 2, [run(1, 2, 3)])
    assert (found.verdict, found.nearest.identical_steps, found.noise.identical_steps) == ("identical", 3, 3)
    assert (found.eager_runs, found.replay_runs, found.fault) == (2, 1, "")


def test_a_difference_that_eager_does_not_show_itself_is_a_mismatch_with_step_and_size() -> None:
    found = settled([run(1, 2, 3)] * EAGER_RUNS, [run(1, 2, 3.5)] * REPLAY_RUNS)
    assert (found.verdict, found.nearest.first_different, found.nearest.max_difference) == ("mismatch", 2, 0.5)
    assert (found.eager_runs, found.replay_runs, found.replays_off) == (EAGER_RUNS, REPLAY_RUNS, REPLAY_RUNS)
    assert "from step 2 on, in 8 of 8 replayed runs: up to 0.5 from the nearest of 8 eager runs" in found.fault


def test_no_farther_than_eager_from_itself_is_within_its_noise() -> None:
    found = settled([run(1, 2, 3), run(1, 2, 3.5)], [run(1, 2, 3.125)])
    assert found.verdict == "within_eager_noise"
    assert (found.nearest.max_difference, found.noise.max_difference, found.noise.identical_steps) == (0.125, 0.5, 2)


@pytest.mark.parametrize(
    ("replay", "verdict"), [(2.25 + 0.125, "mismatch"), (1.75, "mismatch"), (2.25, "within_eager_noise")]
)
def test_as_far_as_eager_from_itself_and_no_farther(replay: float, verdict: str) -> None:
    eager = [run(1, 2), *[run(1, 2.125)] * EAGER_RUNS]
    assert settled(eager, [run(1, replay)] * REPLAY_RUNS).verdict == verdict


def test_more_eager_runs_are_made_only_while_they_can_change_the_verdict() -> None:
    found = settled([run(1), run(1), run(1), run(1.5)], [run(1.5)])
    assert (found.verdict, found.eager_runs, found.replay_runs) == ("identical", 4, 1)


def test_a_rare_difference_that_eager_shows_late_is_no_mismatch() -> None:
    eager = [*[run(1)] * 20, run(1.5)]
    found = settled(eager, [run(1.5), run(1)])
    assert (found.verdict, found.eager_runs, found.replay_runs) == ("identical", 21, 2)


def test_replays_of_which_only_some_are_right_are_a_mismatch_if_eager_is_always_so() -> None:
    found = settled([run(1)] * EAGER_RUNS_MAX, [run(1.5), run(1)])
    assert (found.verdict, found.eager_runs, found.nearest.max_difference) == ("mismatch", EAGER_RUNS_MAX, 0.5)
    assert (found.replay_runs, found.replays_off) == (2, 1)
    assert "in 1 of 2 replayed runs" in found.fault


def drawn(outcomes: Sequence[int], dice: random.Random) -> Iterator[Run]:
    """Runs for ever, each with one of these outcomes: 0, or another that is a rounding away."""
    while True:
        yield run(1 + 0.015625 * dice.choice(outcomes))


def test_a_right_graph_is_not_called_wrong_by_the_runs_that_an_h200_made() -> None:
    """Its attention kernel has two outcomes there; 8 eager runs and one replay were no proof, 16 times in 1,000."""
    seen = json.loads((Path(__file__).parents[2] / "data/h200-repeats.json").read_text())["runs"]
    assert set(seen["eager"]) == set(seen["replay"]) == {0, 1}
    dice = random.Random(20261201)
    found = Counter(settled(drawn(seen["eager"], dice), drawn(seen["replay"], dice)).verdict for _ in range(2000))
    assert found == {"identical": 2000}


@pytest.mark.parametrize("often", [2, 3, 5, 10, 20, 50])
def test_a_right_graph_is_seldom_called_wrong_however_rare_another_outcome_is(often: int) -> None:
    dice, outcomes = random.Random(often), [1, *[0] * (often - 1)]
    found = Counter(settled(drawn(outcomes, dice), drawn(outcomes, dice)).verdict for _ in range(1000))
    assert found["mismatch"] <= 1000 / 33, found


def test_a_wrong_graph_is_always_found_out_by_the_same_noise() -> None:
    dice = random.Random(1)
    wrong = (Run([logits + 0.0625 for logits in one.logits], []) for one in drawn([0, 0, 1], dice))
    found = Counter(settled(drawn([0, 0, 1], dice), wrong).verdict for _ in range(200))
    assert found == {"mismatch": 200}


def test_runs_with_the_same_bits_are_kept_once() -> None:
    family = EagerRuns()
    for value in (1.0, 2.0, 1.0, 2.0, 1.0):
        family.add(run(value))
    assert (family.made, len(family.distinct), family.noise.max_difference) == (5, 2, 1.0)


def test_a_run_that_is_equal_in_value_only_is_not_taken_for_the_nearest() -> None:
    found = settled([run(-0.0), run(0.0)], [run(0.0)])
    assert (found.verdict, found.nearest.first_different) == ("identical", None)


def test_results_that_are_not_finite_prove_nothing() -> None:
    same = run(1, math.nan)
    assert compare(same.logits, same.logits).identical_steps == 2
    found = settled([same, same], [same])
    assert (found.verdict, found.finite, found.fault) == ("mismatch", False, "some logits are not finite")


def test_a_replay_that_is_not_finite_is_a_mismatch_at_once() -> None:
    found = settled([run(1), run(1)], [run(math.inf)])
    assert (found.verdict, found.finite, found.eager_runs) == ("mismatch", False, 2)


def test_a_host_without_room_for_a_run_that_is_needed_gives_no_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verdicts, "available_bytes", lambda: 1)
    assert settled([run(1), run(1)], [run(1)]).verdict == "identical"
    with pytest.raises(EngineError, match="no memory left to compare logits") as caught:
        settled([run(1), run(1)], [run(2)])
    assert caught.value.recoverable


def test_what_is_cancelled_has_no_verdict_unless_it_has_one_already() -> None:
    family = EagerRuns()
    family.add(run(1))
    assert settle(family, in_turn([]), in_turn([run(1)]), lambda: True).verdict == "identical"
    with pytest.raises(EngineError, match="cancelled before there was a verdict"):
        settle(family, in_turn([]), in_turn([run(2)]), lambda: True)


@pytest.mark.parametrize("values", [(1, math.nan), (math.nan, 1.5), (1.5, math.nan)])
def test_a_nan_on_one_side_is_an_infinite_difference(values: tuple[float, float]) -> None:
    found = compare(run(1, 2).logits, run(*values).logits)
    assert found.first_different is not None and found.max_difference == math.inf


def test_zeros_of_different_sign_are_different_bits() -> None:
    assert compare(run(0.0).logits, run(-0.0).logits).first_different == 0


def test_relative_difference_is_of_norms() -> None:
    assert relative_difference(torch.tensor([3.0, 4.5]), torch.tensor([3.0, 4.0])) == pytest.approx(0.1)
    assert relative_difference(torch.tensor([1.0]), torch.tensor([0.0])) == math.inf


def test_the_tolerance_grows_with_depth_and_coarseness_and_stays_far_from_a_wrong_result() -> None:
    coarse, fine = dynamic_tolerance(torch.bfloat16, 36, 2560), dynamic_tolerance(torch.float32, 36, 2560)
    assert fine < 1e-3 < coarse < 0.25
    assert dynamic_tolerance(torch.bfloat16, 4, 2560) < coarse
