"""Is a replay the same computation as an eager step? Measured on the same StaticCache, under the same tokens.

Whole runs are compared, not single steps: a graph that writes wrong KV would otherwise be forgiven by the eager step
that follows. The first eager run chooses its tokens greedily; every later run is fed those.
"""

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence

import torch

from ..events import Verification
from .steps import StaticDecode
from .verdicts import EagerRuns, Run, relative_difference, require_room, settle

Launch = Callable[[], torch.Tensor]


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
    `corrupt` spoils the prompt's KV during the replayed runs. To be called on the stream of the steps.
    """
    begun = time.perf_counter()
    start = decode.cursor.prompt_len if decode.cursor.full else decode.cursor.position
    ids = decode.step.input_ids.clone()
    eager = EagerRuns()

    def run_eager() -> Run:
        return run_steps(decode, decode.step, start, ids, steps, first.fed)

    def run_replay() -> Run:
        with _spoiled(decode) if corrupt else contextlib.nullcontext():
            return run_steps(decode, replay, start, ids, steps, first.fed)

    try:
        first = run_steps(decode, decode.step, start, ids, steps, None)
        require_room(first, 2)
        eager.add(first)
        eager.add(run_eager())
        judged = settle(eager, run_eager, run_replay)
    finally:
        decode.kv.set_length(decode.cursor.position)
        decode.step.input_ids.copy_(ids)
    relative = None if dynamic_logits is None else relative_difference(first.logits[0], dynamic_logits)
    return Verification(
        verdict=judged.verdict,
        steps=steps,
        batch_size=int(ids.shape[0]),
        identical_steps=judged.nearest.identical_steps,
        max_difference=judged.nearest.max_difference,
        eager_runs=judged.eager_runs,
        replay_runs=judged.replay_runs,
        replays_off=judged.replays_off,
        eager_identical_steps=judged.noise.identical_steps,
        eager_difference=judged.noise.max_difference,
        first_mismatch_step=judged.nearest.first_different,
        finite=judged.finite,
        distinct_tokens=len({tuple(token.flatten().tolist()) for token in first.fed}),
        dynamic_difference=relative,
        dynamic_tolerance=tolerance,
        dynamic_ok=None if relative is None or tolerance is None else relative <= tolerance,
        seconds=time.perf_counter() - begun,
        corrupted_on_purpose=corrupt,
    )


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


@contextlib.contextmanager
def _spoiled(decode: StaticDecode) -> Iterator[None]:
    """Add 1 to the first layer's values of the prompt for the duration of a `with`."""
    slots: torch.Tensor = decode.kv.layers[0].values[:, :, : decode.cursor.prompt_len]
    saved = slots.clone()
    slots.add_(1.0)
    try:
        yield
    finally:
        slots.copy_(saved)
