"""Is a replay the same computation as an eager step? Measured on the same StaticCache, under the same tokens.

Whole runs are compared, not single steps: a graph that writes wrong KV would otherwise be forgiven by the eager step
that follows. The first eager run chooses its tokens greedily; every later run is fed those. Eager runs are also
compared with each other, because some kernels do not repeat themselves to the bit (split-K reductions, for one).
"""

import math
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch

from ..events import Verdict, Verification
from ..memory_map import size_words
from .failures import EngineError
from .host_memory import available_bytes
from .steps import StaticDecode

EAGER_RUNS_MAX = 8
"""Two are always made; more one by one while the replay is farther from eager than eager is known to be from itself.

The largest distance between a few runs is a small sample's maximum, so a right replay may lie beyond it by chance:
among as many runs like it, no more often than one in `EAGER_RUNS_MAX` + 1.
"""

Launch = Callable[[], torch.Tensor]


class Comparison(NamedTuple):
    """Two runs: how many steps have the same bits, the first that does not, and the largest |difference|."""

    identical_steps: int
    first_different: int | None
    max_difference: float


class Run(NamedTuple):
    """The logits of a run on the host, [batch, vocab] for each step, and the tokens fed, [batch, 1] each."""

    logits: list[torch.Tensor]
    fed: list[torch.Tensor]

    @property
    def nbytes(self) -> int:
        """Of the host's memory that its logits take."""
        return sum(step.nbytes for step in self.logits)


def verify_replay(
    decode: StaticDecode,
    replay: Launch,
    *,
    steps: int,
    dynamic_logits: torch.Tensor | None = None,
    tolerance: float | None = None,
    corrupt: bool = False,
) -> Verification:
    """Compare `steps` replays with eager steps from the present position on; leaves the decode state as it was.

    `dynamic_logits`: [batch, vocab] of the same first step on a DynamicCache, compared within the relative `tolerance`.
    `corrupt` spoils the prompt's KV during the replayed run. To be called on the stream of the steps.
    """
    begun = time.perf_counter()
    start = decode.cursor.prompt_len if decode.cursor.full else decode.cursor.position
    ids = decode.step.input_ids.clone()
    try:
        return _verified(decode, replay, start, ids, steps, dynamic_logits, tolerance, corrupt, begun)
    finally:
        decode.kv.set_length(decode.cursor.position)
        decode.step.input_ids.copy_(ids)


def _verified(
    decode: StaticDecode,
    replay: Launch,
    start: int,
    ids: torch.Tensor,
    steps: int,
    dynamic_logits: torch.Tensor | None,
    tolerance: float | None,
    corrupt: bool,
    begun: float,
) -> Verification:
    first = run_steps(decode, decode.step, start, ids, steps, None)
    require_room(first, 2)
    eager = [first, run_steps(decode, decode.step, start, ids, steps, first.fed)]
    if corrupt:
        with _spoiled(decode):
            replayed = run_steps(decode, replay, start, ids, steps, first.fed)
    else:
        replayed = run_steps(decode, replay, start, ids, steps, first.fed)
    finite = is_finite(*eager, replayed)
    verdict, nearest, noise = judge([run.logits for run in eager], replayed.logits, finite=finite)
    while verdict == "mismatch" and finite and len(eager) < EAGER_RUNS_MAX and has_room(first):
        eager.append(run_steps(decode, decode.step, start, ids, steps, first.fed))
        finite = is_finite(eager[-1])
        verdict, nearest, noise = judge([run.logits for run in eager], replayed.logits, finite=finite)
    relative = None if dynamic_logits is None else relative_difference(first.logits[0], dynamic_logits)
    return Verification(
        verdict=verdict,
        steps=steps,
        batch_size=int(ids.shape[0]),
        identical_steps=nearest.identical_steps,
        max_difference=nearest.max_difference,
        eager_runs=len(eager),
        eager_identical_steps=noise.identical_steps,
        eager_difference=noise.max_difference,
        first_mismatch_step=nearest.first_different,
        finite=finite,
        distinct_tokens=len({tuple(token.flatten().tolist()) for token in first.fed}),
        dynamic_difference=relative,
        dynamic_tolerance=tolerance,
        dynamic_ok=None if relative is None or tolerance is None else relative <= tolerance,
        seconds=time.perf_counter() - begun,
        corrupted_on_purpose=corrupt,
    )


def judge(
    eager: Sequence[Sequence[torch.Tensor]], replayed: Sequence[torch.Tensor], *, finite: bool = True
) -> tuple[Verdict, Comparison, Comparison]:
    """The verdict, the replay against its nearest eager run, and the eager runs against each other.

    Within eager's own noise: eager runs differ from each other, and the replay is no farther from its nearest eager run
    than they are at most; one eager run alone shows no noise. Results that are not finite prove nothing and are a
    mismatch.
    """
    nearest = min((compare(replayed, run) for run in eager), key=lambda found: found.max_difference)
    noise = combined([compare(a, b) for i, a in enumerate(eager) for b in eager[i + 1 :]], len(replayed))
    return verdict_on(nearest, noise, finite=finite), nearest, noise


def combined(pairs: Sequence[Comparison], steps: int) -> Comparison:
    """The worst of several comparisons of `steps` steps; of none, no difference."""
    differing = [pair.first_different for pair in pairs if pair.first_different is not None]
    return Comparison(
        identical_steps=min((pair.identical_steps for pair in pairs), default=steps),
        first_different=min(differing, default=None),
        max_difference=max((pair.max_difference for pair in pairs), default=0.0),
    )


def verdict_on(nearest: Comparison, noise: Comparison, *, finite: bool = True) -> Verdict:
    """The verdict of `judge`, from the replay against its nearest eager run and from eager's own noise."""
    if not finite:
        return "mismatch"
    if nearest.first_different is None:
        return "identical"
    if noise.first_different is not None and nearest.max_difference <= noise.max_difference:
        return "within_eager_noise"
    return "mismatch"


def compare(left: Sequence[torch.Tensor], right: Sequence[torch.Tensor]) -> Comparison:
    """Two runs of equal length, step by step, bit by bit."""
    same = [_same_bits(a, b) for a, b in zip(left, right, strict=True)]
    largest = max(
        (
            float((a.double() - b.double()).abs().max())
            for a, b, equal in zip(left, right, same, strict=True)
            if not equal
        ),
        default=0.0,
    )
    first = same.index(False) if False in same else None
    return Comparison(sum(same), first, math.inf if math.isnan(largest) else largest)


def has_room(run: Run, more: int = 1) -> bool:
    """Whether the host has memory for so many more runs like this one."""
    available = available_bytes()
    return available is None or more * run.nbytes <= available


def require_room(run: Run, more: int) -> None:
    """Raise `EngineError` (kind "settings") where it has not: Linux would end the worker for it."""
    if not has_room(run, more):
        raise EngineError(
            "settings",
            f"the host has no memory left to compare logits: {size_words(run.nbytes)} for each run of "
            f"{len(run.logits)} steps",
            "choose a smaller --batch-size, or --verify-steps 0 for no verification",
            recoverable=True,
        )


def is_finite(*runs: Run) -> bool:
    """Whether every logit of every step is a number."""
    return all(bool(torch.isfinite(logits).all()) for run in runs for logits in run.logits)


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


def run_steps(
    decode: StaticDecode,
    launch: Launch,
    start: int,
    ids: torch.Tensor,
    steps: int,
    feed: Sequence[torch.Tensor] | None,
) -> Run:
    """`steps` steps from `start`, going back there when the cache is full; fed `feed`, or what the steps choose.

    Every slot behind `start` is spoilt first, so no run can live on the KV that one before it has written.
    """
    logits: list[torch.Tensor] = []
    fed: list[torch.Tensor] = []
    room = decode.kv.capacity - start
    for number in range(steps):
        if number % room == 0:
            decode.kv.overwrite_from(start)
            decode.kv.set_length(start)
            decode.step.input_ids.copy_(ids)
        if feed is not None:
            decode.step.input_ids.copy_(feed[number])
        fed.append(decode.step.input_ids.cpu().clone())
        logits.append(launch().detach().cpu().clone())
    return Run(logits, fed)


class _spoiled:  # noqa: N801 - reads as what it does in a `with`
    """Adds 1 to the first layer's values of the prompt for the duration of a `with`."""

    def __init__(self, decode: StaticDecode) -> None:
        values = decode.kv.layers[0].values
        self._slots: torch.Tensor = values[:, :, : decode.cursor.prompt_len]

    def __enter__(self) -> None:
        self._saved = self._slots.clone()
        self._slots.add_(1.0)

    def __exit__(self, *_: object) -> None:
        self._slots.copy_(self._saved)


def _same_bits(left: torch.Tensor, right: torch.Tensor) -> bool:
    return torch.equal(left.contiguous().view(torch.uint8), right.contiguous().view(torch.uint8))
