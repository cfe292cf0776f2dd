"""Verdicts on many graphs with few eager runs: eager references, shared by all graphs of the same computation.

Graphs of one batch size, cache length and attention compute the same from the same prompt, wherever their caches lie.
So one eager run is made for all of them, and another one only while a replay is farther from eager than eager is known
to be from itself.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch

from .models import LoadedModel
from .steps import StaticDecode
from .verdicts import EagerRuns, Judged, Run, dynamic_tolerance, relative_difference, require_room, settle
from .verify import Launch, run_steps


class Reference:
    """Eager runs of one computation. `feed`: tokens for them to be fed, [batch, 1] each; None: what they choose."""

    def __init__(self, feed: Sequence[torch.Tensor] | None = None) -> None:
        self._feed = feed
        self._eager = EagerRuns()

    @property
    def first(self) -> Run | None:
        """The first run, once there is one."""
        return self._eager.distinct[0] if self._eager.made else None

    @property
    def fed(self) -> list[torch.Tensor]:
        """The tokens that all runs are fed; empty before the first one."""
        return self.first.fed if self.first is not None else []

    def judge(self, decode: StaticDecode, replay: Launch, steps: int, cancelled: Callable[[], bool]) -> Judged:
        """Compare `steps` replays from the end of the prompt with eager steps; leaves `decode` there.

        To be called on the stream of the steps. Raises what `settle` raises.
        """

        def run_eager() -> Run:
            return self._run(decode, decode.step, steps, self.fed or self._feed)

        first = self.first or run_eager()
        if not self._eager.made:
            self._eager.add(first)
        require_room(first, 1)
        return settle(self._eager, run_eager, lambda: self._run(decode, replay, steps, first.fed), cancelled)

    def is_close(self, logits: torch.Tensor, tolerance: float) -> bool:
        """Whether a first step's logits, [batch, vocab], are those of the reference, within a relative tolerance."""
        return relative_difference(logits, self._eager.distinct[0].logits[0]) <= tolerance

    @staticmethod
    def _run(decode: StaticDecode, launch: Launch, steps: int, feed: Sequence[torch.Tensor] | None) -> Run:
        decode.cursor.rewind()
        made = run_steps(decode, launch, decode.cursor.prompt_len, decode.first_ids, steps, feed)
        decode.cursor.rewind()
        return made


def tolerance(loaded: LoadedModel) -> float:
    """How far two ways to compute the same step may be apart, relative; see `verdicts.dynamic_tolerance`."""
    config = loaded.model.config.get_text_config()
    return dynamic_tolerance(loaded.model.dtype, loaded.info.layers, config.hidden_size)


class Agreement(NamedTuple):
    """One computation against another one of the same function, both fed the same tokens."""

    first_difference: float
    """‖a - b‖ / ‖b‖ of the first step's logits."""
    equal_tokens: int
    """Greedy tokens that are the same, over all steps and sequences."""
    tokens: int


def agreement(run: Run, other: Run) -> Agreement:
    """How far apart other kernels and another layout of the cache bring an eager run of each."""
    pairs = list(zip(run.logits, other.logits, strict=True))
    equal = [a.argmax(dim=-1) == b.argmax(dim=-1) for a, b in pairs]
    return Agreement(
        first_difference=relative_difference(*pairs[0]),
        equal_tokens=sum(int(same.sum()) for same in equal),
        tokens=sum(same.numel() for same in equal),
    )
