"""Two things that a student should see once: a capture on a DynamicCache, and an input that is rebound.

Both really happen on the run's own model, and both leave the decode state as they found it; where the cache is too full
for the second, its lap ends early.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import torch
from transformers import DynamicCache

from ..commands import Command
from ..events import Demonstration, DynamicCapture
from .caches import dynamic_copy
from .failures import EngineError, error_from
from .graphs import CapturedStep
from .holdings import addresses
from .lab import Lab
from .steps import DecodeStep, DynamicDecode, StaticDecode
from .sweep_verify import tolerance
from .verdicts import relative_difference

REPLAYS = 8
"""Replays, and eager steps that they are compared with."""
USELESS = (
    "a replay runs no Python: the cache's length stays where capture left it, and every replay computes the same "
    "position again from the same tensors"
)
STRIDE = 7
"""Between the ids that are fed: far enough from what the model would choose itself to tell the two apart."""


def try_dynamic_capture(command: Command, lab: Lab) -> None:
    """Capture a decode step on a DynamicCache; emits `DynamicCapture`, whatever comes of it."""
    if lab.device.capture_refusal is not None:
        raise _not_now(lab.device.capture_refusal)
    dynamic = lab.workflow.dynamic
    if dynamic is None or lab.workflow.loaded is None:
        raise _not_now("There is no DynamicCache yet", "run prefill first")
    with lab.device.on(lab.workflow.stream):
        expected, _ = _eager_on_a_copy(lab, dynamic)
    cache = _copied(lab, dynamic)
    with lab.device.on(lab.workflow.stream):
        step = DecodeStep(lab.workflow.loaded.model, cache, dynamic.first_ids)
    lab.device.synchronize()
    try:
        captured = lab.workflow.record(step, lab.workflow.stream)
    except Exception as problem:
        if error_from(problem, None).kind in ("device_lost", "out_of_memory"):
            raise  # nothing that a DynamicCache is to blame for
        lab.emit(
            DynamicCapture(
                captured=False,
                error=f"{type(problem).__name__}: {problem}",
                eager_ids=expected,
                note="this attention cannot be captured on a DynamicCache at all",
            )
        )
        return
    lab.workflow.keep(captured)
    captured.instantiate()
    before = int(cache.get_seq_length())
    replayed = []
    with lab.device.on(lab.workflow.stream):
        for _ in range(REPLAYS):
            captured.replay()
            replayed.append(_first(step.input_ids))
    after = int(cache.get_seq_length())
    usable = tuple(replayed) == expected and after == before + REPLAYS - 1
    lab.emit(
        DynamicCapture(
            captured=True,
            replays=REPLAYS,
            length_before=before,
            length_after=after,
            eager_ids=expected,
            replay_ids=tuple(replayed),
            usable=usable,
            note="" if usable else USELESS,
        )
    )


def break_input(command: Command, lab: Lab) -> None:
    """Rebind the static input and replay: the graph goes on reading the old address. Stays broken until mended."""
    static, captured = _captured(lab)
    workflow = lab.workflow
    assert workflow.loaded is not None
    if workflow.rebound is not None:
        raise _not_now("The input is rebound already", "mend it first (b)")
    _make_room(lab, static)
    eager = _eager(lab, static)
    original = static.step.input_ids

    def rebind(ids: int) -> None:
        static.step.input_ids = _as_input(ids, original)

    try:
        with lab.device.on(workflow.stream), _state_kept(static, original):
            replayed = _replays(captured, eager.fed, rebind)
        with lab.device.on(workflow.stream):
            static.step.input_ids = original.clone()
    except Exception:
        static.step.input_ids = original
        raise
    workflow.rebound = original
    refused = ""
    try:
        workflow.require_unmoved()
    except EngineError as reason:
        refused = reason.headline
    if workflow.guard is not None:
        lab.emit(addresses(workflow.guard))
    lab.emit(
        Demonstration(
            stage="broken",
            fed_ids=eager.fed,
            expected_ids=_chosen(eager.logits),
            replay_ids=_chosen(replayed),
            captured_address=original.data_ptr(),
            present_address=static.step.input_ids.data_ptr(),
            refused=refused,
            difference=_apart(replayed, eager),
            tolerance=tolerance(workflow.loaded),
        )
    )


def mend_input(command: Command, lab: Lab) -> None:
    """Put the captured input back, copy into it, and replay: the outputs are those of eager steps again."""
    static, captured = _captured(lab)
    workflow = lab.workflow
    assert workflow.loaded is not None
    original = workflow.rebound
    if original is None:
        raise _not_now("The input is where the graph reads it", "rebind it first (b)")
    _make_room(lab, static)
    with lab.device.on(workflow.stream):
        original.copy_(static.step.input_ids)
    rebound, static.step.input_ids = static.step.input_ids, original
    try:
        eager = _eager(lab, static)
        with lab.device.on(workflow.stream), _state_kept(static, original):
            replayed = _replays(captured, eager.fed, lambda ids: original.copy_(_as_input(ids, original)))
    except Exception:
        static.step.input_ids = rebound  # still to be put right
        raise
    workflow.rebound = None
    workflow.require_unmoved()
    if workflow.guard is not None:
        lab.emit(addresses(workflow.guard))
    lab.emit(
        Demonstration(
            stage="mended",
            fed_ids=eager.fed,
            expected_ids=_chosen(eager.logits),
            replay_ids=_chosen(replayed),
            captured_address=original.data_ptr(),
            present_address=static.step.input_ids.data_ptr(),
            difference=_apart(replayed, eager),
            tolerance=tolerance(workflow.loaded),
        )
    )


def _captured(lab: Lab) -> tuple[StaticDecode, CapturedStep]:
    static, captured = lab.workflow.static, lab.workflow.captured
    if static is None or captured is None:
        raise _not_now(lab.device.capture_refusal or "There is no graph yet", "run capture first")
    room = static.cursor.capacity - static.cursor.prompt_len
    if room < REPLAYS:
        why = f"The cache has room for {room} tokens after the prompt and this needs {REPLAYS}"
        raise _not_now(why, "a longer cache (o, --max-cache-len)")
    return static, captured


def _make_room(lab: Lab, static: StaticDecode) -> None:
    with lab.device.on(lab.workflow.stream):
        static.cursor.make_room(REPLAYS)


class Fed(NamedTuple):
    """Ids that are fed one after the other, and the logits, [batch, vocab] each, that came of them."""

    fed: tuple[int, ...]
    logits: list[torch.Tensor]


def _eager(lab: Lab, static: StaticDecode) -> Fed:
    """Ids to feed, and what eager steps from the present position make of them."""
    vocab = lab.workflow.plan.info.vocab_size
    lab.device.synchronize()
    first = _first(static.step.input_ids)
    fed = tuple((first + STRIDE * (number + 1)) % vocab for number in range(REPLAYS))
    logits = []
    with lab.device.on(lab.workflow.stream), _state_kept(static, static.step.input_ids):
        for ids in fed:
            static.step.input_ids.copy_(_as_input(ids, static.step.input_ids))
            logits.append(static.step().to("cpu", copy=True))
    return Fed(fed, logits)


def _replays(captured: CapturedStep, fed: Sequence[int], feed: Callable[[int], object]) -> list[torch.Tensor]:
    """The logits of a replay after each id was fed."""
    logits = []
    for ids in fed:
        feed(ids)
        captured.replay()
        logits.append(captured.logits.to("cpu", copy=True))  # the next replay writes the same tensor
    return logits


def _chosen(logits: Sequence[torch.Tensor]) -> tuple[int, ...]:
    return tuple(_first(step.argmax(dim=-1)) for step in logits)


def _apart(replayed: Sequence[torch.Tensor], eager: Fed) -> float | None:
    """How far the replays are from the eager steps, relative; null where that is no number."""
    apart = [relative_difference(ours, theirs) for ours, theirs in zip(replayed, eager.logits, strict=True)]
    return max(apart) if all(map(math.isfinite, apart)) else None


@contextmanager
def _state_kept(static: StaticDecode, input_ids: torch.Tensor) -> Iterator[None]:
    """Put length and input back; what was written behind the position is masked and will be overwritten."""
    before = input_ids.clone()
    try:
        yield
    finally:
        input_ids.copy_(before)
        static.kv.set_length(static.cursor.position)


def _eager_on_a_copy(lab: Lab, dynamic: DynamicDecode) -> tuple[tuple[int, ...], DynamicCache]:
    loaded = lab.workflow.loaded
    assert loaded is not None
    cache = _copied(lab, dynamic)
    step = DecodeStep(loaded.model, cache, dynamic.first_ids)
    ids = []
    for _ in range(REPLAYS):
        step()
        ids.append(_first(step.input_ids))
    return tuple(ids), cache


def _copied(lab: Lab, dynamic: DynamicDecode) -> DynamicCache:
    """The prompt's part of the run's DynamicCache, in a cache of its own."""
    loaded = lab.workflow.loaded
    assert loaded is not None
    with lab.device.on(lab.workflow.stream):
        return dynamic_copy(loaded.model.config, dynamic.cache, dynamic.cursor.prompt_len)


def _as_input(ids: int, like: torch.Tensor) -> torch.Tensor:
    return torch.full_like(like, ids)


def _first(ids: torch.Tensor) -> int:
    """The first sequence's id; waits for the device."""
    return int(ids.flatten()[0].item())


def _not_now(headline: str, hint: str = "") -> EngineError:
    return EngineError("settings", headline, hint, recoverable=True)
