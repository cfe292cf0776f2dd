"""What runs of the same steps say about each other: how far apart they are, and whether a replay is one of them.

Some kernels do not repeat themselves to the bit, and a difference of one rounding grows in the steps that follow. So
eager runs are compared with each other as well, and a replay is judged by what they show.
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch

from ..events import Verdict
from ..memory_map import size_words
from ..plurals import counted
from .failures import EngineError
from .host_memory import available_bytes

EAGER_RUNS = 8
"""Made one by one while the replay is farther from eager than eager is known to be from itself."""
REPLAY_RUNS = 8
"""Made after those, while all of them are farther: a graph that recorded another step is wrong in every replay.

A right graph comes to that by chance at most twice in 12,870 verifications, which are the ways to part 16 runs that are
alike into 8 and 8: two such halves cannot overlap.
"""
EAGER_RUNS_MAX = 32
"""Made where only some replays are farther, until eager shows the same difference.

A right graph comes to a mismatch this way about once in 30 verifications at worst: where 1 run in 33 has another
outcome, one run is as likely as any of the 32 others to be the one. More common outcomes are seen in time.
"""


class Comparison(NamedTuple):
    """Two runs: how many steps have the same bits, the first that does not, and the largest |difference|."""

    identical_steps: int
    first_different: int | None
    max_difference: float

    @property
    def size(self) -> tuple[bool, float]:
        """To be ordered by: equal bits are nearer than values that compare equal."""
        return self.first_different is not None, self.max_difference


class Run(NamedTuple):
    """The logits of a run on the host, [batch, vocab] for each step, and the tokens fed, [batch, 1] each."""

    logits: list[torch.Tensor]
    fed: list[torch.Tensor]

    @property
    def nbytes(self) -> int:
        """Of the host's memory that its logits take."""
        return sum(step.nbytes for step in self.logits)


class EagerRuns:
    """Eager runs of the same steps under the same tokens; those with the same bits are kept once."""

    def __init__(self) -> None:
        self.made = 0
        self.distinct: list[Run] = []
        self.finite = True
        """Whether every logit of every step was a number."""
        self._apart: list[Comparison] = []

    def add(self, run: Run) -> None:
        """One more."""
        self.made += 1
        apart = [compare(run.logits, other.logits) for other in self.distinct]
        if all(found.first_different is not None for found in apart):
            self.finite = self.finite and is_finite(run)
            self.distinct.append(run)
            self._apart += apart

    @property
    def noise(self) -> Comparison:
        """The worst of all pairs; of a single run, no difference."""
        return Comparison(
            identical_steps=min((pair.identical_steps for pair in self._apart), default=len(self.distinct[0].logits)),
            first_different=min(
                (pair.first_different for pair in self._apart if pair.first_different is not None), default=None
            ),
            max_difference=max((pair.max_difference for pair in self._apart), default=0.0),
        )


class Judged(NamedTuple):
    """A verdict and what it rests on."""

    verdict: Verdict
    nearest: Comparison
    """The replay and the eager run nearest to it; of several replays, the farthest."""
    noise: Comparison
    """Eager runs against each other."""
    eager_runs: int
    replay_runs: int
    replays_off: int
    """Of those, the ones that alone would be a mismatch."""
    steps: int
    finite: bool
    """Whether every logit of every step was a number."""

    @property
    def eager_difference(self) -> float | None:
        """How far eager runs are apart at most; None: there was one."""
        return self.noise.max_difference if self.eager_runs > 1 else None

    @property
    def fault(self) -> str:
        """What is wrong, with the figures; empty unless it is a mismatch."""
        if self.verdict != "mismatch":
            return ""
        if not self.finite:
            return "some logits are not finite"
        where = "" if self.nearest.first_different is None else f", from step {self.nearest.first_different} on"
        return (
            f"the replay's logits are not those of eager steps{where}, in {self.replays_off} of "
            f"{counted(self.replay_runs, 'replayed run')}: up to {self.nearest.max_difference:.3g} from the nearest of "
            f"{counted(self.eager_runs, 'eager run')}, which are up to {self.noise.max_difference:.3g} apart"
        )


def _never() -> bool:
    return False


def settle(
    eager: EagerRuns, run_eager: Callable[[], Run], replay: Callable[[], Run], cancelled: Callable[[], bool] = _never
) -> Judged:
    """Replay, and make more runs of both kinds for as long as they can change the verdict.

    `eager`: one run at least, of the same steps; runs that are made are added. A single eager run shows no noise.
    Raises `EngineError` (kind "settings") where the host has no room for a run that is needed, or when `cancelled`.
    """
    replays = [_Replayed(replay())]
    while True:
        found = [one.judge(eager) for one in replays]
        farthest = max(found, key=lambda one: (one[0] == "mismatch", one[1].size))
        finite = eager.finite and all(one.finite for one in replays)
        verdict: Verdict = farthest[0] if finite else "mismatch"
        off = sum(one == "mismatch" for one, _ in found)
        divided = 0 < off < len(replays)
        more_eager = eager.made < (EAGER_RUNS_MAX if divided else EAGER_RUNS)
        if verdict != "mismatch" or not finite or not (more_eager or (len(replays) < REPLAY_RUNS and not divided)):
            steps = len(eager.distinct[0].logits)
            return Judged(verdict, farthest[1], eager.noise, eager.made, len(replays), off, steps, finite)
        if cancelled():
            raise EngineError("settings", "cancelled before there was a verdict on the graph", recoverable=True)
        require_room(eager.distinct[0], 1)
        if more_eager:
            eager.add(run_eager())
        else:
            replays.append(_Replayed(replay()))


class _Replayed:
    """A replayed run, and the nearest of the eager runs that it has been compared with."""

    def __init__(self, run: Run) -> None:
        self.finite = is_finite(run)
        self._run = run
        self._nearest: Comparison | None = None
        self._seen = 0

    def judge(self, eager: EagerRuns) -> tuple[Verdict, Comparison]:
        """The verdict on this run alone, and its nearest eager run."""
        found = [compare(self._run.logits, run.logits) for run in eager.distinct[self._seen :]]
        self._seen = len(eager.distinct)
        nearest = min((*found, *(() if self._nearest is None else (self._nearest,))), key=lambda one: one.size)
        self._nearest = nearest
        return verdict_on(nearest, eager.noise), nearest


def verdict_on(nearest: Comparison, noise: Comparison) -> Verdict:
    """The verdict on a replay, from its nearest eager run and from eager runs against each other.

    Within eager's own noise: eager runs differ from each other, and the replay is no farther from its nearest eager run
    than they are at most.
    """
    if nearest.first_different is None:
        return "identical"
    if noise.first_different is not None and nearest.max_difference <= noise.max_difference:
        return "within_eager_noise"
    return "mismatch"


def compare(left: Sequence[torch.Tensor], right: Sequence[torch.Tensor]) -> Comparison:
    """Two runs of equal length, step by step, bit by bit."""
    same = [_same_bits(a, b) for a, b in zip(left, right, strict=True)]
    apart = [
        float((a.double() - b.double()).abs().max()) for a, b, equal in zip(left, right, same, strict=True) if not equal
    ]
    first = same.index(False) if False in same else None
    return Comparison(sum(same), first, math.inf if any(map(math.isnan, apart)) else max(apart, default=0.0))


def is_finite(run: Run) -> bool:
    """Whether every logit of every step is a number."""
    return all(bool(torch.isfinite(logits).all()) for logits in run.logits)


def relative_difference(value: torch.Tensor, reference: torch.Tensor) -> float:
    """‖value - reference‖ / ‖reference‖, in double precision."""
    reference = reference.cpu().double()
    norm = float(reference.norm())
    return float((value.cpu().double() - reference).norm()) / norm if norm else math.inf


def dynamic_tolerance(dtype: torch.dtype, layers: int, hidden_size: int) -> float:
    """How far the first step on a StaticCache may be from the same step on a DynamicCache, relative.

    Both compute the same sums, over the cache's length in one and the prompt's in the other, with other kernels, so
    roundings differ. Each of the 2·layers additions to the residual stream is rounded to `dtype`, by half an eps at
    most, after sums of about hidden_size products that are accumulated in fp32, off by sqrt(hidden_size)·eps(fp32)/2.
    Independent roundings add up as a random walk over the 2·layers additions; twice that is allowed.
    """
    rounding = float(torch.finfo(dtype).eps) / 2
    accumulation = math.sqrt(hidden_size) * float(torch.finfo(torch.float32).eps) / 2
    return 2 * math.sqrt(2 * layers) * (rounding + accumulation)


def require_room(run: Run, more: int) -> None:
    """Raise `EngineError` (kind "settings") where the host has no memory for so many more runs like this one.

    Linux would end the worker for it.
    """
    available = available_bytes()
    if available is not None and more * run.nbytes > available:
        raise EngineError(
            "settings",
            f"the host has no memory left to compare logits: {size_words(run.nbytes)} for each run of "
            f"{len(run.logits)} steps",
            "choose a smaller --batch-size, or --verify-steps 0 for no verification",
            recoverable=True,
        )


def _same_bits(left: torch.Tensor, right: torch.Tensor) -> bool:
    return torch.equal(left.contiguous().view(torch.uint8), right.contiguous().view(torch.uint8))
