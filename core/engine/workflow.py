"""The phases themselves, in order, on one device: what each does, and what it registers with the ledger.

Nothing here measures a Δ (that is `measured`) or knows of commands (that is `session`). Everything from prefill on runs
on one non-default stream, so there is one cuBLAS workspace; `guide_streams` warms up on the default stream and captures
on another one, as the guide's script does, and so shows two more.
"""

import contextlib
import gc
from collections.abc import Callable
from typing import NamedTuple, TypeVar

import torch
from transformers import DynamicCache

from ..events import Event, Graph, Item, PhaseId, Progress
from ..memory_map import MIB
from ..settings import Mode, RunSettings
from . import holdings
from .caches import AddressGuard, StaticKV, cache_too_small
from .decode import Arm
from .devices import Device, StepFunction
from .failures import EngineError
from .graphs import CapturedStep
from .holdings import addresses
from .host_memory import available_bytes, require_host_memory
from .ledger import Ledger
from .memory import Owner
from .models import LoadedModel, ModelPlan, check_model_state, forward_kwargs, graph_refusal, load, prompt_ids
from .reads import dynamic_reads, static_reads
from .steps import DynamicDecode, StaticDecode

Emit = Callable[[Event], None]
T = TypeVar("T")
CAPTURE_STATE = Owner("graph_io", "torch's random generator: seed and offset for graphs", "generator seed or offset")
"""Two int64 that `capture_begin` allocates, found as the blocks that are new right after it."""


class Outcome(NamedTuple):
    """What a phase knows of itself beyond its counters."""

    driver_pieces: tuple[Item, ...] = ()
    """Growth of the driver's memory that was measured while the phase ran."""
    notes: tuple[str, ...] = ()
    driver_measured: bool = False
    """The phase does nothing else that the driver could grow by."""


class Workflow(holdings.Holdings):
    """What one run holds on the device, built up phase by phase. For the GPU thread."""

    def __init__(self, settings: RunSettings, plan: ModelPlan, device: Device, ledger: Ledger, emit: Emit) -> None:
        super().__init__()
        self.settings = settings
        self.plan = plan
        self.device = device
        self.ledger = ledger
        self._emit = emit
        self.stream: torch.cuda.Stream | None = None
        self._filled = False
        self.tainted_bytes: int | None = None
        """What a failed capture has leaked; only a new process gives it back."""

    def run(self, phase: PhaseId) -> Outcome:
        """Do what a phase does. Raises what its libraries raise, and `EngineError` for what is known to be wrong."""
        steps: dict[PhaseId, Callable[[], Outcome]] = {
            "context": self._context,
            "load": self._load,
            "prefill": self._prefill,
            "static_cache": self._static_cache,
            "copy_kv": self._copy_kv,
            "warmup": self._warmup,
            "capture": self._capture,
            "release": self._release,
        }
        return steps[phase]()

    # ------------------------------------------------------------------------------------------------- the phases

    def _context(self) -> Outcome:
        self.device.open()
        return Outcome(driver_measured=True)

    def _load(self) -> Outcome:
        def progress(done: int, total: int | None, what: str) -> None:
            self._emit(Progress(phase="load", done=done, total=total, what=what))

        if self.device.torch_device.type == "cpu":
            require_host_memory(self.plan.info, self.settings, available_bytes())
        self.loaded = load(self.plan, self.device.torch_device, progress)
        self._own("weights", "parameters", holdings.parameters)
        self._own("weights", "buffers", holdings.buffers)
        return Outcome()

    def _prefill(self) -> Outcome:
        loaded = self._need_model()
        device, dtype = self.device, loaded.model.dtype
        ids = prompt_ids(loaded, self.settings, device.torch_device)
        if ids.shape[1] >= self.settings.max_cache_len:
            raise cache_too_small(ids.shape[1], self.settings.max_cache_len)
        self.stream = device.new_stream()
        self.ledger.provoke_workspace(self.stream, dtype, "the side stream")
        with device.on(self.stream):
            cache = DynamicCache(config=loaded.model.config)
            logits = loaded.model(
                input_ids=ids, use_cache=True, logits_to_keep=1, **forward_kwargs(loaded.model, cache)
            ).logits[:, -1]
            first_ids = logits.argmax(dim=-1, keepdim=True)
            self.dynamic = DynamicDecode(loaded.model, cache, first_ids, ids.shape[1], self.settings.max_cache_len)
        device.synchronize()
        del ids, logits
        self._own("kv_dynamic", "DynamicCache keys and values", holdings.dynamic_cache)
        self._own("graph_io", "first token and input of the dynamic step", holdings.dynamic_inputs)
        return Outcome()

    def _static_cache(self) -> Outcome:
        loaded, dynamic = self._need_model(), self._need_dynamic()
        with self.device.on(self.stream):
            self.kv = StaticKV(
                loaded.model.config,
                batch_size=self.settings.batch_size,
                max_cache_len=self.settings.max_cache_len,
                dtype=loaded.model.dtype,
                device=self.device.torch_device,
            )
            self.static = StaticDecode(loaded.model, self.kv, dynamic.first_ids, dynamic.cursor.prompt_len)
        self.device.synchronize()
        self._own("kv_static", "StaticCache keys and values", holdings.static_cache)
        self._own("kv_static", "StaticCache length counters", holdings.static_counters)
        self._own("graph_io", "static input of the decode step", holdings.static_inputs)
        return Outcome()

    def _copy_kv(self) -> Outcome:
        kv, static, dynamic = self._need_kv(), self._need_static(), self._need_dynamic()
        with self.device.on(self.stream):
            dynamic.cursor.rewind()
            kv.fill_from(dynamic.cache)
            static.cursor.rewind()
        self.device.synchronize()
        self.guard = AddressGuard(static.fixed)
        self._filled = True
        self._emit(addresses(self.guard))
        return Outcome(notes=(f"{len(self.guard.addresses())} addresses recorded, to be compared with",))

    def _warmup(self) -> Outcome:
        static, guard = self._need_static(), self._need_guard()
        stream = self.stream
        if self.settings.guide_streams:
            stream = None
            self.ledger.provoke_workspace(stream, self._need_model().model.dtype, "the default stream")
        with self.device.on(stream):
            static.cursor.rewind()
            for _ in range(self.settings.warmup):
                if static.cursor.full:
                    static.cursor.rewind()
                static.step()
                static.cursor.advance()
            static.cursor.rewind()
        self.device.synchronize()
        guard.require_unmoved()
        return Outcome(notes=(f"{self.settings.warmup} steps, then the length was set back in place",))

    def _capture(self) -> Outcome:
        loaded, static, kv = self._need_model(), self._need_static(), self._need_kv()
        check_model_state(loaded.model)
        refusal = graph_refusal(loaded.model)
        if refusal is not None:
            headline = f"this model's step must not be captured: {refusal}"
            raise EngineError("capture", headline, "decode eagerly (e, d)", recoverable=True)
        kv.require_initialized()
        stream = self.stream
        if self.settings.guide_streams:
            stream = self.device.new_stream()
            self.ledger.provoke_workspace(stream, loaded.model.dtype, "the capture stream")
        with self.device.on(self.stream):
            static.cursor.rewind()
        self.device.synchronize()
        reserved = self.device.counters().reserved
        self.device.empty_cache()
        given_back = _difference(reserved, self.device.counters().reserved)
        captured = self.record(static.step, stream)
        driver = self.ledger.driver_bytes()
        try:
            captured.instantiate()
            self.device.synchronize()
        except Exception:
            with contextlib.suppress(Exception):  # what has happened says more
                captured.release()
            raise
        instantiated = _difference(self.ledger.driver_bytes(), driver)
        nodes = captured.nodes_by_kind()
        self.captured, static.logits = captured, captured.logits
        self.guard = AddressGuard(static.fixed)
        self._own("graph_io", "logits kept by the graph", holdings.graph_logits)
        self._emit(
            Graph(
                nodes=None if nodes is None else sum(nodes.values()),
                nodes_by_kind=nodes or {},
                pool_id=captured.pool_id,
                stream="another stream, as in the guide" if self.settings.guide_streams else "the side stream",
                capture_s=captured.capture_s,
                instantiate_s=captured.instantiate_s,
                instantiate_driver_bytes=instantiated,
            )
        )
        self._emit(addresses(self.guard))
        pieces = () if instantiated is None else (Item(name="executable graph (instantiate)", bytes=instantiated),)
        notes = [f"recorded in {captured.capture_s:.2f} s, instantiated in {captured.instantiate_s:.2f} s"]
        if given_back:
            notes.append(f"before it, empty_cache gave {given_back / MIB:,.1f} MiB of the default pool back")
        return Outcome(driver_pieces=pieces, notes=tuple(notes))

    def _release(self) -> Outcome:
        for captured in (*self.kept, self.captured):
            if captured is not None:
                captured.release()
        self.kept.clear()
        self.captured = self.guard = self.static = self.kv = self.rebound = None
        self.dynamic = self.loaded = None
        self._filled = False
        self.ledger.disown()
        gc.collect()
        self.device.synchronize()
        self.device.empty_cache()
        reserved = self.device.counters().reserved
        self.device.clear_workspaces()
        self.device.empty_cache()
        given_back = _difference(reserved, self.device.counters().reserved)
        notes = []
        if given_back:
            notes.append(f"cuBLAS workspaces outlive the model; clearing them gave {given_back / MIB:,.1f} MiB back")
        return Outcome(notes=tuple(notes))

    # ------------------------------------------------------------------------------------------- for the decode loop

    def arm(self, mode: Mode) -> Arm:
        """What decodes in a mode. Raises `EngineError` with the reason while that is not possible."""
        loaded, batch_size = self._need_model(), self.settings.batch_size
        if mode == "dynamic":
            dynamic = self._need_dynamic()
            reads = dynamic_reads(loaded, batch_size)
            return Arm("dynamic", dynamic.launch, dynamic.step.input_ids, dynamic.cursor, reads)
        static = self._need_static()
        reads = static_reads(loaded, batch_size, static.kv.capacity)
        if not self._filled:
            raise EngineError("settings", "the StaticCache is still empty", "run copy KV first", recoverable=True)
        if mode == "eager":
            return Arm("eager", static.step, static.step.input_ids, static.cursor, reads)
        captured = self.captured
        if captured is None:
            why = self.device.capture_refusal
            raise EngineError("settings", why or "no graph yet", "" if why else "run capture first", recoverable=True)
        guard = self._need_guard()

        def replay() -> None:
            guard.require_unmoved()
            captured.replay()

        return Arm("graph", replay, static.step.input_ids, static.cursor, reads)

    def record(self, step: StepFunction, stream: torch.cuda.Stream | None) -> CapturedStep:
        """Capture a step and know what torch allocates for it; a failure's leak is kept in `tainted_bytes`."""
        before = self._private_bytes()
        try:
            captured = self.device.capture(step, stream)
        except Exception:
            leaked = _difference(self._private_bytes(), before)
            self.tainted_bytes = leaked if self.tainted_bytes is None else self.tainted_bytes + (leaked or 0)
            raise
        for address, size in captured.begin_blocks:
            self.ledger.own_block(address, size, CAPTURE_STATE)
        return captured

    def recover(self) -> None:
        """After a step that failed in the middle: layers may be at different positions, so go back to the prompt."""
        with self.device.on(self.stream):
            if self.static is not None and self._filled:
                self.static.cursor.rewind()
            if self.dynamic is not None:
                self.dynamic.cursor.rewind()
        self.device.synchronize()

    def keep(self, captured: CapturedStep) -> None:
        """Keep a demonstration's graph until release."""
        self.kept.append(captured)
        self._own("graph_io", "logits of demonstrations", holdings.kept_logits)

    def require_unmoved(self) -> None:
        """Raise `EngineError` (kind "stale_graph") if a replay would work on memory that is no longer the tensors'."""
        self._need_guard().require_unmoved()

    # -------------------------------------------------------------------------------------------------------- parts

    def _own(self, bucket: str, item: str, listing: holdings.Listing) -> None:
        self.ledger.own(bucket, item, lambda: listing(self))

    def _private_bytes(self) -> int | None:
        """Reserved by private pools; None where that cannot be asked any more."""
        try:
            return sum(segment.size for segment in self.device.snapshot() if any(segment.pool))
        except RuntimeError:
            return None

    def _need_model(self) -> LoadedModel:
        return _needed(self.loaded, "load")

    def _need_dynamic(self) -> DynamicDecode:
        return _needed(self.dynamic, "prefill")

    def _need_kv(self) -> StaticKV:
        return _needed(self.kv, "static cache")

    def _need_static(self) -> StaticDecode:
        return _needed(self.static, "static cache")

    def _need_guard(self) -> AddressGuard:
        return _needed(self.guard, "copy KV")


def _needed(value: T | None, phase: str) -> T:
    if value is None:
        raise EngineError("settings", f"{phase} has not been run", f"run {phase} first", recoverable=True)
    return value


def _difference(first: int | None, second: int | None) -> int | None:
    return None if first is None or second is None else first - second
