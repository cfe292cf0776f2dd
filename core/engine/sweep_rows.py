"""One row of a sweep: a cache, a graph on it, what they cost, whether it is right, and how fast it decodes."""

import msgspec
import torch

from ..events import Decode, Event, SweepKind, SweepRow
from .caches import AddressGuard, StaticKV
from .decode import Arm, DecodeLoop
from .graphs import CapturedStep, PoolHandle
from .prompts import fill
from .reads import static_reads
from .steps import StaticDecode
from .strategies import Caches
from .sweep_costs import Cost, Meter, difference
from .sweep_rig import Rig, Served
from .sweep_verify import Reference, agreement, tolerance
from .verdicts import Judged
from .workflow import CAPTURE_STATE

SPEED_STEPS = 100
"""Replays that a row's speed is taken over."""
SPIN_UP_STEPS = 8
"""Replays before those, for the clock and the pipeline to fill."""


def tokens_at_most(rig: Rig) -> int:
    """The longest that a sequence gets in a row, where its cache has room."""
    dynamic = rig.lab.workflow.dynamic
    prompt_len = rig.lab.settings.prompt_len if dynamic is None else dynamic.cursor.prompt_len
    return prompt_len + max(rig.lab.settings.verify_steps, SPIN_UP_STEPS + SPEED_STEPS) + 1


def measure(rig: Rig, sweep: SweepKind, caches: Caches, batch_size: int, pool: PoolHandle | None) -> SweepRow:
    """Serve one more graph and measure it; it stands until `Rig.drop`. `total_bytes` is of this row alone.

    Raises what allocating, capturing or decoding raises; nothing of the row then stands.
    """
    device, lab = rig.device, rig.lab
    prompt = rig.prompt(batch_size)
    rig.tidy()
    meter = Meter(device, lab.ledger, rig.pools)
    workspace = rig.provoke_workspace()
    cold = lab.ledger.driver_bytes()
    with device.on(rig.stream):
        requested = device.counters().requested
        kv, closed_form = caches.allocate(batch_size)
        kv_bytes = difference(device.counters().requested, requested)
        decode = caches.decode(kv, prompt)
        _warm_up(decode, max(1, lab.settings.warmup))
    device.synchronize()
    device.empty_cache()  # of the warmup's activations: what the allocator keeps of them is no cost of the graph
    rig.count_modules(cold, meter.read_driver())
    captured = device.capture(decode.step, rig.stream, pool)
    for address, size in captured.begin_blocks:
        lab.ledger.own_block(address, size, CAPTURE_STATE)
    captured.instantiate()
    with device.on(rig.stream):
        captured.replay()
        decode.cursor.rewind()
    cost = meter.cost(rig.pools | {captured.pool_id or ""})
    judged, reference, wrong = _judge(rig, caches, decode, captured)
    tok_s = None if wrong else _speed(rig, decode, captured)
    rig.served.append(Served(decode, captured, prompt, reference))
    if kv_bytes is None:
        kv_bytes = _storage_bytes(kv) if closed_form else 0
    row = SweepRow(
        sweep=sweep,
        value=batch_size,
        kv_bytes=kv_bytes,
        kv_closed_form_bytes=closed_form,
        workspace_bytes=workspace,
        pool_bytes=cost.pool,
        graph_io_bytes=_io_bytes(cost, kv_bytes, workspace, decode, captured),
        allocated_bytes=cost.allocated,
        reserved_bytes=cost.reserved,
        driver_bytes=cost.driver,
        total_bytes=cost.total,
        peak_bytes=cost.peak,
        pages_in_use=caches.pages_in_use(),
        page_bytes=caches.page_bytes(),
        tok_s=tok_s,
        reason=f"{wrong}: no speed is valid" if wrong else "",
    )
    if judged is None:
        return row
    return msgspec.structs.replace(
        row,
        verdict="mismatch" if wrong else judged.verdict,
        verify_steps=judged.steps,
        identical_steps=judged.nearest.identical_steps,
        max_difference=judged.nearest.max_difference,
        eager_runs=judged.eager_runs,
        eager_difference=judged.eager_difference,
        first_mismatch_step=judged.nearest.first_different,
    )


def again(rig: Rig, caches: Caches) -> list[int]:
    """Replay each graph that stands once more, after all were captured; returns batch sizes with other logits.

    Graphs of one pool use the same memory in turn: this is where one that was written over would show.
    """
    wrong = []
    for served in rig.served:
        decode, captured = served.decode, served.captured
        if served.reference is None:
            continue
        with rig.device.on(rig.stream):
            caches.claim(decode.kv)
            fill(decode.kv, served.prompt)
            decode.cursor.rewind()
            captured.replay()
            logits = captured.logits.cpu()
            decode.cursor.rewind()
        if not served.reference.is_close(logits, tolerance(rig.loaded)):
            wrong.append(decode.kv.batch_size)
    return wrong


def _warm_up(decode: StaticDecode, steps: int) -> None:
    for _ in range(steps):
        decode.cursor.make_room()
        decode.step()
        decode.cursor.advance()
    decode.cursor.rewind()


def _judge(
    rig: Rig, caches: Caches, decode: StaticDecode, captured: CapturedStep
) -> tuple[Judged | None, Reference | None, str]:
    """The graph against eager steps and, for another attention, those against the model's own; what is wrong, if so."""
    steps, batch_size, length = rig.lab.settings.verify_steps, decode.kv.batch_size, decode.kv.capacity
    if steps == 0:
        return None, None, ""
    reference = rig.reference(caches.attention, batch_size, length)

    def replay() -> torch.Tensor:
        captured.replay()
        return captured.logits

    with rig.device.on(rig.stream):
        judged = reference.judge(decode, replay, steps, rig.lab.cancelled)
    wrong = judged.fault
    own = rig.reference(Caches.attention, batch_size, length)
    if own is not reference and reference.first is not None and own.first is not None:
        rig.agreements.append(agreement(reference.first, own.first))
        apart, allowed = rig.agreements[-1].first_difference, tolerance(rig.loaded)
        if not wrong and not apart <= allowed:
            wrong = (
                f"the first step is {apart:.3g} from that of the model's own attention, and {allowed:.3g} is allowed"
            )
    return judged, reference, wrong


def _speed(rig: Rig, decode: StaticDecode, captured: CapturedStep) -> float | None:
    """Tokens a second of all sequences together, by the decode loop's own policy."""
    told: list[Event] = []
    loop = DecodeLoop(rig.device, told.append, decode.kv.batch_size)
    guard = AddressGuard(decode.fixed)

    def replay() -> None:
        guard.require_unmoved()
        captured.replay()

    reads = static_reads(rig.loaded, decode.kv.batch_size, decode.kv.capacity)
    arm = Arm("graph", replay, decode.step.input_ids, decode.cursor, reads)
    with rig.device.on(rig.stream):
        for steps in (SPIN_UP_STEPS, SPEED_STEPS):
            loop.enter(arm)
            told.clear()
            for _ in range(steps):
                loop.step()
        loop.drain()
        decode.cursor.rewind()
    figures = [event for event in told if isinstance(event, Decode)]
    return figures[-1].tok_s_mean if figures else None


def _storage_bytes(kv: StaticKV) -> int:
    storages = {fixed.tensor.untyped_storage().data_ptr(): fixed.tensor.untyped_storage() for fixed in kv.fixed()}
    return sum(storage.nbytes() for storage in storages.values())


def _io_bytes(cost: Cost, kv_bytes: int, workspace: int, decode: StaticDecode, captured: CapturedStep) -> int:
    """Inputs, logits and torch's state for a capture: what was requested beside KV and workspace."""
    if cost.requested is not None:
        return cost.requested - kv_bytes - workspace
    return decode.first_ids.nbytes + decode.step.input_ids.nbytes + captured.logits.nbytes
