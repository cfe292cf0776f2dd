"""Records a program of one's own: any code that loads, captures and replays, with the accounting of cgtop's own runs.

    from cgtop.core.engine import Recorder

    with Recorder("mine.jsonl", name="my model") as r:
        with r.phase("load"):
            model = Net().to(r.device)
        r.own("weights", model)
        ...

`cgtop play mine.jsonl` shows it. `examples/own_model.py` is a whole program. The nine phases are those of every run
(`core.phases`), each at most once and in any order, and those that a program does not have are left out.

All methods are for one thread, the one that makes the CUDA calls. Phases end with a synchronise and a reading of every
counter, so nothing is read while a phase runs but what `tokens` needs.
"""

import contextlib
import functools
import os
import threading
import time
import typing
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

import msgspec
import torch

from ..events import End, Event, Hello, Item, PhaseBegin, PhaseEnd, PhaseId, Segments, Status
from ..memory_map import REQUESTED_BUCKETS
from ..phases import PHASE_BY_ID, PHASES
from ..recorder import RecordingError, RecordingWriter
from ..settings import MODES, Mode, RunSettings
from .explain import explain
from .failures import error_from
from .graph_facts import describe_graph
from .graphs import no_garbage_collection
from .late_ledger import LateLedger
from .measured import Meter, Span
from .memory import Sample
from .opening import Opening, open_run
from .owned import Owned, holdings
from .stretch import POLICY, Stretch
from .telemetry import telemetry_loop
from .workflow import CAPTURE_STATE, Outcome

BUCKETS = tuple(bucket for bucket in REQUESTED_BUCKETS if bucket != "cublas_workspace")
LIVE_MEMORY_S = 0.5


class _Held(typing.NamedTuple):
    """The end of a phase that is not told yet: what is owned may still be named."""

    span: Span
    end: PhaseEnd
    after: Sample
    pieces: tuple[Item, ...]
    t: float


class Recorder:
    """A recording of the code inside its `with`. Written to `path`, gzipped where that ends in ".gz".

    Raises `RecordingError` where the file cannot be opened, and `EngineError` where the device cannot be used.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        name: str = "own program",
        device: str | torch.device | None = None,
        capacity: int = 0,
        telemetry: bool = True,
    ) -> None:
        """`device`: null is "cuda" where there is one, else "cpu". `capacity`: tokens that the cache holds, if any."""
        wanted = str(device) if device is not None else "cuda" if torch.cuda.is_available() else "cpu"
        self._opening: Opening = open_run(RunSettings(model="tiny", device=wanted))
        self._device = self._opening.device
        self._fresh = self._device.kind == "cpu" or not torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
        self._settings = RunSettings(model=name, device=wanted)
        self._capacity = capacity
        self._telemetry = telemetry and self._device.kind == "cuda"
        self._lock = threading.Lock()
        self._origin = time.monotonic()
        self._ledger = LateLedger(self._device, self._opening.read_processes)
        self._meter = Meter(self._device, self._ledger, self._from_meter)
        self._span: Span | None = None
        self._pieces: list[Item] = []
        self._held: _Held | None = None
        self._done: list[PhaseId] = []
        self._stretch: Stretch | None = None
        self._replays = 0
        self._replay_allocations: int | None = 0
        self._live_memory_at = 0.0
        self._failed = False
        self._stop = threading.Event()
        self._writer: RecordingWriter | None = RecordingWriter(Path(path), self._settings)

    @property
    def device(self) -> torch.device:
        """Where to put the model."""
        return self._device.torch_device

    @property
    def can_capture(self) -> bool:
        """Whether this device has graphs; on a CPU a program runs its step eagerly instead."""
        return self._device.capture_refusal is None

    def __enter__(self) -> "Recorder":
        hello = self._opening.hello
        policies = {"synchronisation": POLICY, "recorded": "by cgtop.core.engine.Recorder, in a program of its own"}
        self._origin = time.monotonic()
        self._emit(msgspec.structs.replace(hello, model=None, settings=self._settings, policies=policies))
        self._emit(Status(state="idle"))
        if self._telemetry:
            loop = functools.partial(telemetry_loop, self._settings.device, self._write, self._stop)
            threading.Thread(target=loop, name="cgtop-telemetry", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        if error is not None and not self._failed:
            self._tell_failure(error, None)
        elif error is None:
            self._end_stretch()
        self._flush()
        reason = "done" if error is None else f"ended by {type(error).__name__}"
        self._emit(Status(state="failed" if error else "released" if "release" in self._done else "idle"))
        self._emit(End(reason=reason, exit_code=0 if error is None else 1))
        with self._lock, self._written():
            if self._writer is not None:
                self._writer.close()
            self._writer = None

    @contextlib.contextmanager
    def phase(self, phase: str, note: str = "") -> Iterator[None]:
        """Measure the code inside as one of the nine phases; `note` says in your words what it does.

        Raises `ValueError` for another name, a phase inside a phase, and one that was recorded already. An exception of
        the code is recorded and passes through.
        """
        span = self._begin(phase)
        try:
            yield
        except BaseException as error:
            self._span = self._stretch = None
            self._tell_failure(error, span.phase)
            raise
        self._finish(span, note)

    def skip(self, phase: str, reason: str) -> None:
        """Say that a phase cannot be on this device, and why. Raises `ValueError` as `phase` does."""
        known = self._known(phase)
        self._done.append(known)
        self._emit(PhaseEnd(phase=known, status="unavailable", reason=reason))

    def own(self, bucket: str, owned: Owned, item: str = "") -> None:
        """Say whose memory something is: from here on, and for the phase that has just ended.

        `bucket`: weights, kv_static, kv_dynamic, graph_io or other_tensors. Tensors are held weakly, so that owning
        keeps none alive; for what is made anew, such as a cache that grows, give a function. Raises `ValueError` for
        another bucket, and `TypeError` for what holds no tensors.
        """
        if bucket not in BUCKETS:
            raise ValueError(f"no bucket {bucket!r}: choose one of {', '.join(BUCKETS)}")
        self._ledger.own(bucket, item or bucket.replace("_", " "), holdings(owned, item or bucket))
        if self._held is not None and self._held.span.before is not None:
            held, after = self._held, self._ledger.again()
            explained = explain(held.span.phase, typing.cast(Sample, held.span.before), after, held.pieces)
            end = msgspec.structs.replace(held.end, explained=explained, after=after.counters)
            self._held = held._replace(end=end, after=after)
            self._meter.last = after

    def workspace(
        self, stream: torch.cuda.Stream | None = None, dtype: torch.dtype = torch.bfloat16, where: str = "the stream"
    ) -> int:
        """Have cuBLAS allocate its workspace for this stream (null: the default one) now; returns its bytes.

        Call it in the phase in which the workspace is to be counted, before the stream's first matrix product: a block
        that is there already cannot be told from others. 0 on a CPU.
        """
        self._flush()
        return self._ledger.provoke_workspace(stream, dtype, where)

    @contextlib.contextmanager
    def capture(self, graph: torch.cuda.CUDAGraph, *, stream: torch.cuda.Stream | None = None) -> Iterator[None]:
        """`torch.cuda.graph(graph)`, timed, with no collection of garbage meanwhile; then `self.graph(graph)`."""
        self._flush()
        before = self._active_blocks()
        with no_garbage_collection():
            with torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"):
                begun = time.perf_counter()
                for address, size in self._active_blocks().items():
                    if address not in before:
                        self._ledger.own_block(address, size, CAPTURE_STATE)
                yield
            took = time.perf_counter() - begun
        self.graph(graph, capture_s=took)

    def graph(self, graph: torch.cuda.CUDAGraph, *, capture_s: float | None = None, stream: str = "") -> None:
        """Tell what a captured graph consists of.

        Nodes can be counted only in a graph made with `torch.cuda.CUDAGraph(keep_graph=True)`; such a graph is
        instantiated here, timed, and the driver's bytes for it are measured: call this before its first replay.
        """
        facts = describe_graph(graph, self._device, self._ledger)
        if facts.instantiate_driver_bytes:
            name = "executable graph (instantiate)"
            self._pieces.append(Item(name=name, bytes=facts.instantiate_driver_bytes))
        self._emit(msgspec.structs.replace(facts, capture_s=capture_s, stream=stream))

    def decoding(self, mode: Mode, position: int = 0) -> None:
        """Steps from here on are in this mode ("eager", "dynamic" or "graph"); `position`: tokens in the cache.

        Raises `ValueError` for another mode.
        """
        if mode not in MODES:
            raise ValueError(f"no mode {mode!r}: choose one of {', '.join(MODES)}")
        self._end_stretch()
        self._emit(Status(state="decoding", mode=mode, phase=self._span.phase if self._span else None))
        self._stretch = Stretch(self._device, mode, position, self._capacity)

    def tokens(self, count: int = 1, *, position: int | None = None) -> None:
        """A step that gives `count` tokens has been launched on the current stream.

        Waits for the step before, so one stays in flight. Raises `ValueError` before `decoding` has named the mode.
        """
        if self._stretch is None:
            raise ValueError('say first how the steps are made: decoding("eager"), ("dynamic") or ("graph")')
        if self._stretch.launched(count, position):
            self._tell_speed(self._stretch)

    # -------------------------------------------------------------------------------------------------------- parts

    def _known(self, phase: str) -> PhaseId:
        if phase not in PHASE_BY_ID:
            names = ", ".join(f"{known.id} ({known.title})" for known in PHASES)
            raise ValueError(f"no phase {phase!r}: choose the nearest of {names}, and say the rest with note=")
        known = PHASE_BY_ID[phase].id
        if self._span is not None:
            raise ValueError(f"phase {phase} begins inside {self._span.phase}: phases do not nest")
        if known in self._done:
            raise ValueError(f"phase {phase} was recorded already: each is recorded once")
        return known

    def _begin(self, phase: str) -> Span:
        known = self._known(phase)
        if known == "context" and not self._fresh:
            raise ValueError("the CUDA context was there before the recorder: make it first, or leave this phase out")
        self._end_stretch()
        self._flush()
        self._fresh = False
        self._emit(Status(state="running", phase=known))
        if known != "context":
            self._device.open()
        self._pieces = []
        self._span = self._meter.begin(known)
        return self._span

    def _finish(self, span: Span, note: str) -> None:
        if span.phase == "context":
            self._device.open()
        self._end_stretch()
        pieces = tuple(self._pieces)
        notes = (note,) if note else ()
        outcome = Outcome(driver_pieces=pieces, driver_measured=span.phase == "context", notes=notes)
        end = self._meter.done(span, outcome)
        self._held = _Held(span, end, typing.cast(Sample, self._meter.last), pieces, self._now())
        self._span = None
        self._done.append(span.phase)

    def _from_meter(self, event: Event) -> None:
        """The end of a phase waits, see `_Held`; its begin does not."""
        if isinstance(event, PhaseBegin):
            self._emit(event)

    def _flush(self) -> None:
        held, self._held = self._held, None
        if held is None:
            return
        phase, after = held.span.phase, held.after
        for event in (held.end, after.event(phase)):
            self._write(msgspec.structs.replace(event, t=held.t))
        if after.segments:
            self._write(Segments(t=held.t, phase=phase, segments=after.segments))

    def _end_stretch(self) -> None:
        stretch, self._stretch = self._stretch, None
        if stretch is None:
            return
        stretch.drain()
        self._replays, self._replay_allocations = self._tell_speed(stretch)

    def _tell_speed(self, stretch: Stretch) -> tuple[int, int | None]:
        figures = stretch.figures(self._replays, self._replay_allocations)
        self._emit(figures)
        if self._now() - self._live_memory_at > LIVE_MEMORY_S and (live := self._meter.live(None)) is not None:
            self._live_memory_at = self._now()
            self._emit(live)
        held = self._replay_allocations if stretch.mode != "graph" else figures.replay_allocations
        return figures.replays, held

    def _tell_failure(self, error: BaseException, phase: PhaseId | None) -> None:
        self._failed = True
        if isinstance(error, Exception):
            self._emit(error_from(error, phase))

    def _active_blocks(self) -> dict[int, int]:
        return {
            block.address: block.requested
            for segment in self._device.snapshot()
            for block in segment.blocks
            if block.active
        }

    def _now(self) -> float:
        return round(time.monotonic() - self._origin, 4)

    def _emit(self, event: Event) -> None:
        self._flush()
        self._write(event)

    def _write(self, event: Event) -> None:
        """From any thread. A recording that cannot be written any more is told once; the program goes on."""
        if event.t == 0.0 and not isinstance(event, Hello):
            event = msgspec.structs.replace(event, t=self._now())
        with self._lock, self._written():
            if self._writer is not None:
                self._writer.write(event)

    @contextlib.contextmanager
    def _written(self) -> Iterator[None]:
        try:
            yield
        except RecordingError as error:
            self._writer = None
            warnings.warn(f"{error}; the program goes on", stacklevel=3)
