"""The events of a run: its phases, its memory, its decoding, and how it ends."""

from typing import Literal

from ..settings import Mode, RunSettings
from .base import Bytes, CounterName, Event, PhaseId, RunStateName, Verdict
from .parts import Counters, DeviceInfo, FixedTensor, Item, ModelInfo, Pool, Process, Segment


class Hello(Event, frozen=True, kw_only=True, tag="hello"):
    """First of a stream: who measures what, on what, by which rules."""

    schema: int
    started_at: str = ""
    """ISO 8601, UTC."""
    versions: dict[str, str] = {}
    device: DeviceInfo
    model: ModelInfo | None = None
    settings: RunSettings
    policies: dict[str, str] = {}
    """Name -> what is done: synchronisation, streams, sampling."""
    allocator_config: str | None = None
    """PYTORCH_ALLOC_CONF / PYTORCH_CUDA_ALLOC_CONF as found."""


class Progress(Event, frozen=True, kw_only=True, tag="progress"):
    """How far a running phase is. `total` is null when unknown."""

    phase: PhaseId
    done: int
    total: int | None = None
    what: str = ""


class PhaseBegin(Event, frozen=True, kw_only=True, tag="phase_begin"):
    """A phase starts."""

    phase: PhaseId


class PhaseEnd(Event, frozen=True, kw_only=True, tag="phase_end"):
    """A phase is over: counters before and after, and what each Δ is made of.

    `explained[counter]` adds up to `after - before` of that counter exactly; what has no cause is an item named
    "unexplained".
    """

    phase: PhaseId
    status: Literal["done", "unavailable", "failed"] = "done"
    reason: str = ""
    """Why it is unavailable or failed."""
    before: Counters = Counters()
    after: Counters = Counters()
    peak_allocated: Bytes | None = None
    """Highest `allocated` during the phase, absolute."""
    seconds: float | None = None
    allocations: int | None = None
    """Blocks handed out by the allocator during the phase."""
    device_allocations: int | None = None
    """`cudaMalloc` calls of the allocator during the phase."""
    explained: dict[CounterName, tuple[Item, ...]] = {}
    notes: tuple[str, ...] = ()


class Memory(Event, frozen=True, kw_only=True, tag="memory"):
    """Where every byte of the device is.

    `buckets` (see `core.memory_map.BUCKETS` for names and order) add up to `total_bytes` exactly when that is known.
    A bucket that cannot be known is absent. `live` samples carry the last full attribution forward by the counters.
    """

    phase: PhaseId | None = None
    live: bool = False
    total_bytes: Bytes | None = None
    free_bytes: Bytes | None = None
    counters: Counters = Counters()
    buckets: dict[str, int] = {}
    reasons: dict[str, str] = {}
    """Absent bucket -> why."""
    pools: tuple[Pool, ...] = ()
    settled: bool = True
    """False: free memory changed while the processes were read, again and again."""
    source: str = ""
    """Which interfaces gave the figures, as in "cudaMemGetInfo + NVML v3 processes"."""


class Segments(Event, frozen=True, kw_only=True, tag="segments"):
    """The allocator's map at a phase boundary."""

    phase: PhaseId | None = None
    segments: tuple[Segment, ...]


class Graph(Event, frozen=True, kw_only=True, tag="graph"):
    """A captured and instantiated graph."""

    nodes: int | None = None
    nodes_by_kind: dict[str, int] = {}
    pool_id: str | None = None
    stream: str = ""
    capture_s: float | None = None
    instantiate_s: float | None = None
    instantiate_driver_bytes: int | None = None


class Addresses(Event, frozen=True, kw_only=True, tag="addresses"):
    """What must not move between capture and replay."""

    fixed: tuple[FixedTensor, ...]
    moved: int = 0
    checked: int = 0
    """How many times the whole list has been compared."""


class Verification(Event, frozen=True, kw_only=True, tag="verification"):
    """Replay against eager steps on the same StaticCache, under the same tokens."""

    verdict: Verdict
    steps: int
    batch_size: int
    identical_steps: int
    """Steps in which every logit of the replay has the bits of the eager run nearest to it."""
    max_difference: float | None = None
    """Largest |replay - eager| of any logit, to the nearest eager run."""
    eager_runs: int
    replay_runs: int = 1
    """More than one where the first was farther from eager than eager from itself; the figures are of the farthest."""
    replays_off: int | None = None
    """Of those runs, the ones that alone would be a mismatch."""
    eager_identical_steps: int
    eager_difference: float | None = None
    """Largest |eager - eager| of any logit between eager runs."""
    first_mismatch_step: int | None = None
    finite: bool = True
    distinct_tokens: int | None = None
    """How many different tokens were fed: few of them prove little."""
    dynamic_difference: float | None = None
    """First step against DynamicCache: ‖static - dynamic‖ / ‖dynamic‖ of the logits."""
    dynamic_tolerance: float | None = None
    dynamic_ok: bool | None = None
    seconds: float
    corrupted_on_purpose: bool = False

    @property
    def is_divided(self) -> bool:
        """Whether some replayed runs are a mismatch and others are not."""
        return self.replays_off is not None and 0 < self.replays_off < self.replay_runs


class Decode(Event, frozen=True, kw_only=True, tag="decode"):
    """The decode loop, as it runs (at most 10 a second)."""

    mode: Mode
    tokens: int
    """Steps in this mode since it was last entered; a step is one token for each sequence of the batch."""
    tok_s: float | None = None
    """Tokens a second over the last second, of all sequences together."""
    tok_s_mean: float | None = None
    """The same since this mode was last entered, pauses left out."""
    step_ms_p50: float | None = None
    step_ms_p99: float | None = None
    launched: int | None = None
    """Steps launched in this mode: one more than came back while one is in flight."""
    allocations: int | None = None
    """Allocator blocks handed out since this mode was last entered, by all the steps launched."""
    device_allocations: int | None = None
    replays: int = 0
    """Replays of this graph in all."""
    replay_allocations: int | None = None
    """Allocations during all those replays."""
    position: int
    """Tokens in the cache of each sequence."""
    capacity: int
    laps: int = 0
    gb_s: float | None = None
    """Bytes that a step must read (weights once, the whole StaticCache or the DynamicCache's tokens) over its time."""
    valid: bool = True
    """False after a MISMATCH verdict: the speed is of wrong results."""

    @property
    def allocations_per_step(self) -> float | None:
        """Blocks handed out for a step of this mode; null where they or the steps are unknown.

        Recordings from before `launched` do not tell of the step in flight. Every step hands out the same number of
        blocks, so where one step more divides them evenly, it was in flight.
        """
        if self.allocations is None:
            return None
        steps = self.launched
        if steps is None:
            steps = self.tokens + (self.tokens > 0 and self.allocations % (self.tokens + 1) == 0)
        return self.allocations / steps if steps else None


class Tokens(Event, frozen=True, kw_only=True, tag="tokens"):
    """Tokens of the first sequence of the batch since the last such event."""

    mode: Mode
    ids: tuple[int, ...]
    text: str | None = None


class Telemetry(Event, frozen=True, kw_only=True, tag="telemetry"):
    """NVML at 1-2 Hz. Every field is optional; `reasons` says why one is missing."""

    used_bytes: Bytes | None = None
    free_bytes: Bytes | None = None
    total_bytes: Bytes | None = None
    reserved_bytes: Bytes | None = None
    """By the driver, v2 only; NVML's figures are never mixed with CUDA's in one sum."""
    memory_api: Literal["v2", "v1"] | None = None
    gpu_percent: int | None = None
    memory_percent: int | None = None
    sm_mhz: int | None = None
    memory_mhz: int | None = None
    power_w: float | None = None
    power_limit_w: float | None = None
    temperature_c: int | None = None
    throttle: tuple[str, ...] | None = None
    pcie_gen: int | None = None
    pcie_width: int | None = None
    pcie_gen_max: int | None = None
    pcie_width_max: int | None = None
    processes: tuple[Process, ...] | None = None
    pid_hidden: bool = False
    matched_by: str | None = None
    """"uuid", "pci", or null when no card was matched."""
    reasons: dict[str, str] = {}


class Status(Event, frozen=True, kw_only=True, tag="status"):
    """What the engine does now; also the answer to a command that it refuses."""

    state: RunStateName
    mode: Mode | None = None
    phase: PhaseId | None = None
    next_phase: PhaseId | None = None
    refused: str | None = None
    """The command that was refused."""
    why: str = ""
    tainted_bytes: Bytes | None = None
    """Leaked by a failed capture; only a restart gives them back."""
    experiment: str | None = None
    """The command whose experiment is being carried out, with the phases and the verification that it runs."""


class Log(Event, frozen=True, kw_only=True, tag="log"):
    """A line that something printed in the worker."""

    source: Literal["stdout", "stderr", "engine", "client"]
    text: str


class Error(Event, frozen=True, kw_only=True, tag="error"):
    """A failure as a person needs it: what, what it means, what to do. `detail` is the traceback."""

    kind: str
    """A stable identifier, one of `ERROR_KINDS`."""
    headline: str
    hint: str = ""
    detail: str = ""
    phase: PhaseId | None = None
    recoverable: bool = False
    """Whether this worker can go on."""
    free_bytes: Bytes | None = None
    reserved_bytes: Bytes | None = None
    needed_bytes: Bytes | None = None


class End(Event, frozen=True, kw_only=True, tag="end"):
    """Last of a stream. `exit_code` is what a headless command returns."""

    reason: str
    exit_code: int = 0
    signal: int | None = None
    dropped_samples: int = 0
    """Live samples that a newer one replaced before they were written."""


ERROR_KINDS = (
    "no_cuda",
    "driver_too_old",
    "no_device",
    "wrong_architecture",
    "out_of_memory",
    "checkpoint",
    "remote_code",
    "cache_too_small",
    "device_lost",
    "capture",
    "stale_graph",
    "model_state",
    "batch_size",
    "settings",
    "worker_died",
    "missing_package",
    "internal",
)
