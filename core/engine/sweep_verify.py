"""Verdicts on many graphs with few eager runs: eager references, shared by all graphs of the same computation.

Graphs of one batch size, cache length and attention compute the same from the same prompt, wherever their caches lie.
So one eager run is made for all of them, and another one only while a replay is farther from eager than eager is known
to be from itself.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch

from ..events import Verdict
from .models import LoadedModel
from .steps import StaticDecode
from .verify import (
    EAGER_RUNS_MAX,
    Comparison,
    Launch,
    Run,
    combined,
    compare,
    dynamic_tolerance,
    has_room,
    is_finite,
    relative_difference,
    require_room,
    run_steps,
    verdict_on,
)


class Judged(NamedTuple):
    """A replay's verdict and what it rests on: its nearest eager run, and eager's own noise, over `eager_runs`."""

    verdict: Verdict
    nearest: Comparison
    noise: Comparison
    eager_runs: int
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
            f"the replay's logits are not those of eager steps{where}: up to {self.nearest.max_difference:.3g} from "
            f"the nearest of {self.eager_runs} eager runs, which are up to {self.noise.max_difference:.3g} apart"
        )


class Reference:
    """Eager runs of one computation. `feed`: tokens for them to be fed, [batch, 1] each; None: what they choose."""

    def __init__(self, feed: Sequence[torch.Tensor] | None = None) -> None:
        self._feed = feed
        self._pairs: list[Comparison] = []
        self.runs: list[Run] = []

    @property
    def fed(self) -> list[torch.Tensor]:
        """The tokens that all runs are fed; empty before the first one."""
        return self.runs[0].fed if self.runs else []

    def judge(self, decode: StaticDecode, replay: Launch, steps: int) -> Judged:
        """Compare `steps` replays from the end of the prompt with eager steps; leaves `decode` there.

        To be called on the stream of the steps.
        """
        if not self.runs:
            self._run_eager(decode, steps)
        require_room(self.runs[0], 1)
        replayed = self._run(decode, replay, steps, self.fed)
        finite = is_finite(*self.runs, replayed)
        against = [compare(replayed.logits, run.logits) for run in self.runs]
        while True:
            nearest = min(against, key=lambda found: found.max_difference)
            noise = combined(self._pairs, steps)
            verdict = verdict_on(nearest, noise, finite=finite)
            more = len(self.runs) < EAGER_RUNS_MAX and has_room(self.runs[0])
            if verdict != "mismatch" or not finite or not more:
                return Judged(verdict, nearest, noise, len(self.runs), steps, finite)
            self._run_eager(decode, steps)
            finite = is_finite(self.runs[-1])
            against.append(compare(replayed.logits, self.runs[-1].logits))

    def is_close(self, logits: torch.Tensor, tolerance: float) -> bool:
        """Whether a first step's logits, [batch, vocab], are those of the reference, within a relative tolerance."""
        return relative_difference(logits, self.runs[0].logits[0]) <= tolerance

    def _run_eager(self, decode: StaticDecode, steps: int) -> None:
        made = self._run(decode, decode.step, steps, self.fed or self._feed)
        self._pairs += [compare(made.logits, run.logits) for run in self.runs]
        self.runs.append(made)

    @staticmethod
    def _run(decode: StaticDecode, launch: Launch, steps: int, feed: Sequence[torch.Tensor] | None) -> Run:
        decode.cursor.rewind()
        made = run_steps(decode, launch, decode.cursor.prompt_len, decode.first_ids, steps, feed)
        decode.cursor.rewind()
        return made


def tolerance(loaded: LoadedModel) -> float:
    """How far two ways to compute the same step may be apart, relative; see `verify.dynamic_tolerance`."""
    config = loaded.model.config.get_text_config()
    return dynamic_tolerance(loaded.model.dtype, loaded.info.layers, config.hidden_size)


class Agreement(NamedTuple):
    """One computation against another one of the same function, both fed the same tokens."""

    first_difference: float
    """‖a - b‖ / ‖b‖ of the first step's logits."""
    equal_tokens: int
    """Greedy tokens that are the same, over all steps and sequences."""
    tokens: int


def agreement(reference: Reference, other: Reference) -> Agreement:
    """The first eager run of each: how far apart other kernels and another layout of the cache bring them."""
    pairs = list(zip(reference.runs[0].logits, other.runs[0].logits, strict=True))
    equal = [a.argmax(dim=-1) == b.argmax(dim=-1) for a, b in pairs]
    return Agreement(
        first_difference=relative_difference(*pairs[0]),
        equal_tokens=sum(int(same.sum()) for same in equal),
        tokens=sum(same.numel() for same in equal),
    )
