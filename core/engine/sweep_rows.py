"""One row of a sweep: a cache, a graph on it, what they cost, whether it is right, and how fast it decodes.

A sweep has a stream of its own. Some versions of torch free a stream's cuBLAS workspaces when a graph captured on it is
dropped; on the run's stream that would take the workspace from under the run's own graph.
"""

import gc
import weakref
from typing import NamedTuple

import torch

from .. import sizing
from ..events import Decode, Event, SweepKind, SweepRow, Verdict
from ..memory_map import MIB
from .caches import AddressGuard, StaticKV
from .decode import Arm, DecodeLoop
from .devices import Device
from .graphs import CapturedStep, PoolHandle
from .lab import Lab
from .models import LoadedModel
from .prompts import Prompt, fill, prefill
from .reads import static_reads
from .steps import StaticDecode
from .strategies import Caches
from .sweep_costs import Cost, Meter, difference
from .sweep_verify import Reference, agreement, tolerance
from .workflow import CAPTURE_STATE

SPEED_STEPS = 100
"""Replays that a row's speed is taken over."""
SPIN_UP_STEPS = 8
"""Replays before those, for the clock and the pipeline to fill."""
KV = ("kv_static", "caches of a sweep")
IO = ("graph_io", "inputs and logits of a sweep's graphs")

_streams: "weakref.WeakKeyDictionary[Device, torch.cuda.Stream | None]" = weakref.WeakKeyDictionary()
"""One for all sweeps on a device: each stream has a workspace, and torch hands out no more than a few streams."""


class Served(NamedTuple):
    """A graph that stands, and what it decodes."""

    decode: StaticDecode
    captured: CapturedStep
    prompt: Prompt
    reference: Reference | None


class Rig:
    """What all rows of a sweep share: model, stream, prompts, eager references, and the graphs that stand."""

    def __init__(self, lab: Lab, loaded: LoadedModel, *, max_cache_len: int) -> None:
        """`max_cache_len`: of the longest cache, for which the prompt leaves room."""
        self.lab = lab
        self.device = lab.device
        self.loaded = loaded
        self.max_cache_len = max_cache_len
        if lab.device not in _streams:
            _streams[lab.device] = lab.device.new_stream()
        self.stream = _streams[lab.device]
        self.served: list[Served] = []
        self.workspace_bytes = 0
        """Of the sweep's stream, as last provoked."""
        self.modules_bytes: int | None = None
        """What the driver loaded while rows were warmed up, in all."""
        self._prompts: dict[int, Prompt] = {}
        self._references: dict[tuple[str, int, int], Reference] = {}
        lab.ledger.own(*KV, self._caches_held)
        lab.ledger.own(*IO, self._io_held)

    @property
    def pools(self) -> set[str]:
        """Private pools of the graphs that stand."""
        return {served.captured.pool_id for served in self.served if served.captured.pool_id is not None}

    @property
    def tokens(self) -> int:
        """The longest that a sequence gets, where its cache has room."""
        prompt = self.lab.workflow.dynamic
        length = self.lab.settings.prompt_len if prompt is None else prompt.cursor.prompt_len
        return length + max(self.lab.settings.verify_steps, SPIN_UP_STEPS + SPEED_STEPS) + 1

    def prompt(self, batch_size: int) -> Prompt:
        """The prompt of a batch size, prefilled at first use."""
        if batch_size not in self._prompts:
            self._prompts[batch_size] = prefill(
                self.lab, self.loaded, self.stream, batch_size=batch_size, max_cache_len=self.max_cache_len
            )
        return self._prompts[batch_size]

    def reference(self, attention: str, batch_size: int, max_cache_len: int) -> Reference:
        """Eager runs of one computation. Another attention is fed the tokens of the model's own, to be compared."""
        key = (attention, batch_size, max_cache_len)
        if key not in self._references:
            own = self._references.get((Caches.attention, batch_size, max_cache_len))
            self._references[key] = Reference(own.fed if own is not None and own.runs else None)
        return self._references[key]

    def references(self, attention: str) -> dict[int, Reference]:
        """Those of an attention that have been run, by batch size."""
        return {key[1]: found for key, found in self._references.items() if key[0] == attention and found.runs}

    def provoke_workspace(self) -> int:
        """Have the stream's workspace allocated, if it is not there; returns what that took."""
        model = self.loaded.model
        taken = self.lab.ledger.provoke_workspace(self.stream, model.dtype, "the sweep's stream")
        self.workspace_bytes = taken or self.workspace_bytes
        return taken

    def count_modules(self, cold: int | None, warm: int | None) -> None:
        """Add what the driver grew by in a warmup."""
        grown = difference(warm, cold)
        if grown is not None:
            self.modules_bytes = (self.modules_bytes or 0) + grown

    def tidy(self) -> None:
        """Collect what nothing holds and give unused segments back, so that counters show what is held."""
        gc.collect()
        self.device.synchronize()
        self.device.empty_cache()

    def drop(self) -> None:
        """Drop all graphs together, once none of them can be running, and their caches."""
        self.device.synchronize()
        for served in self.served:
            served.captured.release()
        self.served.clear()
        self.tidy()

    def close(self) -> None:
        """Drop what still stands, as after an error that ends the sweep; nothing where the device is lost."""
        try:
            self.drop()
        except RuntimeError:
            self.served.clear()

    def tell_memory(self) -> None:
        """Emit where every byte is now."""
        self.lab.emit(self.lab.ledger.sample().event(None))

    def token_bytes(self) -> int:
        """Keys and values of one token of each sequence of the run's batch, over all layers, by the closed form."""
        return sizing.kv_bytes(
            self.loaded.kv, batch_size=self.lab.settings.batch_size, tokens=1, dtype=self.loaded.info.dtype
        )

    def notes(self) -> tuple[str, ...]:
        """What holds for all rows."""
        found = []
        if self.workspace_bytes:
            found.append(
                f"one cuBLAS workspace of {self.workspace_bytes / MIB:,.1f} MiB serves all graphs of the sweep: they "
                "are captured on one stream, which is not the run's"
            )
        if self.modules_bytes:
            found.append(
                f"the driver grew by {self.modules_bytes / MIB:,.1f} MiB while rows were warmed up (modules loaded "
                "lazily, once in a process): in no row"
            )
        if not self.lab.settings.verify_steps:
            found.append("not verified, as asked: nothing proves the replayed tokens")
        if self.device.kind == "cuda" and self.lab.ledger.driver_bytes() is None:
            found.append("NVML does not tell this process's memory: executable graphs are in no total")
        return tuple(found)

    def _caches_held(self) -> list[tuple[str, torch.Tensor]]:
        return [(fixed.name, fixed.tensor) for served in self.served for fixed in served.decode.kv.fixed()]

    def _io_held(self) -> list[tuple[str, torch.Tensor]]:
        return [
            (name, tensor)
            for served in self.served
            for name, tensor in (
                ("first token", served.decode.first_ids),
                ("static input_ids", served.decode.step.input_ids),
                ("graph logits", served.captured.logits),
            )
        ]


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
    verdict, reference = _verdict(rig, caches, decode, captured)
    tok_s = None if verdict == "mismatch" else _speed(rig, decode, captured)
    rig.served.append(Served(decode, captured, prompt, reference))
    if kv_bytes is None:
        kv_bytes = _storage_bytes(kv) if closed_form else 0
    return SweepRow(
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
        verdict=verdict,
        reason="" if verdict != "mismatch" else "the replay's logits are not those of eager steps: no speed is valid",
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


def _verdict(
    rig: Rig, caches: Caches, decode: StaticDecode, captured: CapturedStep
) -> tuple[Verdict | None, Reference | None]:
    """Of the graph against eager steps and, for another attention, of those against the model's own."""
    steps, batch_size, length = rig.lab.settings.verify_steps, decode.kv.batch_size, decode.kv.capacity
    if steps == 0:
        return None, None
    reference = rig.reference(caches.attention, batch_size, length)

    def replay() -> torch.Tensor:
        captured.replay()
        return captured.logits

    with rig.device.on(rig.stream):
        verdict = reference.verdict(decode, replay, steps)
    own = rig.reference(Caches.attention, batch_size, length)
    if own is not reference and own.runs:
        first_difference = agreement(reference, own).first_difference
        verdict = verdict if first_difference <= tolerance(rig.loaded) else "mismatch"
    return verdict, reference


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
