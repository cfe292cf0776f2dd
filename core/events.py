"""The events an engine emits, as data: everything that any surface shows is folded out of these.

A stream is JSON Lines: one object a line, `event` names its type and `t` is the time in seconds since `hello` on a
monotonic clock. Bytes are integers and never negative, but for differences and the `unattributed` bucket. A figure that
the platform cannot give is null. Readers skip event types and fields that they do not know (`decode_event`), and refuse
a `hello` of a newer schema (`SchemaError`).
"""

from typing import Annotated, Literal

import msgspec

from .settings import Mode, RunSettings

SCHEMA = 1

PhaseId = Literal["context", "load", "prefill", "static_cache", "copy_kv", "warmup", "capture", "replay", "release"]
CounterName = Literal["requested", "allocated", "reserved", "driver"]
Bytes = Annotated[int, msgspec.Meta(ge=0)]
"""A size: never negative."""
Certainty = Literal["measured", "computed", "inferred"]
Verdict = Literal["identical", "within_eager_noise", "mismatch"]
RunStateName = Literal["idle", "running", "decoding", "paused", "failed", "released"]


class SchemaError(ValueError):
    """A stream was written by a newer cgtop, in a schema that this one does not know."""


class Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="event"):
    """Base of all events. `t`: seconds since `hello`, monotonic."""

    t: float = 0.0


# --------------------------------------------------------------------------------------------- parts of events


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """Base of the values inside events."""


class DeviceInfo(Part, frozen=True, kw_only=True):
    """The device of a run; everything but kind and name may be unknown."""

    kind: Literal["cuda", "cpu"]
    name: str
    index: int | None = None
    uuid: str | None = None
    """Removed from recordings."""
    capability: str | None = None
    """Compute capability, as in "9.0"."""
    total_bytes: Bytes | None = None
    """By NVML before a context exists; `Memory.total_bytes` is CUDA's own figure."""
    free_bytes: Bytes | None = None
    integrated: bool | None = None
    driver_version: str | None = None
    memory_bandwidth_bytes_s: float | None = None
    """Theoretical, from memory clock and bus width."""


class ModelInfo(Part, frozen=True, kw_only=True):
    """What is decoded: the shape that every closed form needs, and where the weights come from."""

    name: str
    source: Literal["random", "checkpoint"]
    parameters: Bytes
    parameter_bytes: Bytes
    dtype: str
    attention: str
    layers: int
    kv_heads: int
    head_dim: int
    vocab_size: int
    static_cache_bytes: Bytes
    """Closed form for this run's batch size and max_cache_len (KV only, without the counters)."""
    has_tokenizer: bool = False


class Counters(Part, frozen=True, kw_only=True):
    """The four counters of a table row, in bytes."""

    requested: Bytes | None = None
    """What tensors asked for: `requested_bytes.all.current`."""
    allocated: Bytes | None = None
    """Blocks handed out, rounded: `torch.cuda.memory_allocated()`, the guide's only counter."""
    reserved: Bytes | None = None
    """Segments taken from the driver by the caching allocator."""
    driver: int | None = None
    """This process in NVML minus reserved: context, modules, executable graphs."""


class Item(Part, frozen=True, kw_only=True):
    """A named piece of a Δ or a bucket. `certainty` says whether the cause was measured or inferred."""

    name: str
    bytes: int
    certainty: Certainty = "measured"
    note: str = ""


class Pool(Part, frozen=True, kw_only=True):
    """A private memory pool of a graph."""

    id: str
    reserved_bytes: Bytes
    active_bytes: Bytes
    requested_bytes: Bytes


class Block(Part, frozen=True, kw_only=True):
    """A block of a segment. `bucket` is null for a free block."""

    offset: Bytes
    size: Bytes
    requested: Bytes
    bucket: str | None = None
    name: str = ""


class Segment(Part, frozen=True, kw_only=True):
    """One `cudaMalloc` of the caching allocator."""

    address: Bytes
    size: Bytes
    pool: str
    """"default", or the id of a private pool."""
    stream: int
    blocks: tuple[Block, ...]


class FixedTensor(Part, frozen=True, kw_only=True):
    """A tensor whose address a captured graph depends on."""

    name: str
    address: Bytes
    bytes: Bytes
    update: Literal["copy_", "in-graph", "constant"]
    """How its next value gets there."""
    moved: bool = False


# ------------------------------------------------------------------------------------------------------ events


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
    """Steps in which every logit of the replay has the bits of the eager run."""
    max_difference: float | None = None
    """Largest |replay - eager| of any logit, to the nearest eager run."""
    eager_runs: int
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
    allocations: int | None = None
    """Allocator blocks handed out since this mode was last entered."""
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


class Tokens(Event, frozen=True, kw_only=True, tag="tokens"):
    """Tokens of the first sequence of the batch since the last such event."""

    mode: Mode
    ids: tuple[int, ...]
    text: str | None = None


class Caches(Event, frozen=True, kw_only=True, tag="caches"):
    """StaticCache beside DynamicCache, as tokens are added (at most 2 a second)."""

    static_bytes: Bytes | None = None
    """Keys, values and counters; the same at every position."""
    static_position: int | None = None
    static_moves: int | None = None
    """Tensors of the StaticCache that are not where they were after copy_kv."""
    dynamic_bytes: Bytes | None = None
    dynamic_position: int | None = None
    dynamic_steps: int = 0
    """Steps on the DynamicCache that were watched."""
    dynamic_moves: int = 0
    """In how many of them the first layer's keys came to another address."""


class DynamicCapture(Event, frozen=True, kw_only=True, tag="dynamic_capture"):
    """A capture on a DynamicCache, really attempted, and what its replays do."""

    captured: bool
    error: str = ""
    replays: int = 0
    length_before: int | None = None
    length_after: int | None = None
    """As the DynamicCache tells it after the replays: it stays, since a replay runs no Python."""
    eager_ids: tuple[int, ...] = ()
    """What eager steps give from the same position."""
    replay_ids: tuple[int, ...] = ()
    usable: bool = False
    note: str = ""


class Demonstration(Event, frozen=True, kw_only=True, tag="demonstration"):
    """The input rebound instead of copied into: the graph goes on reading the old address."""

    stage: Literal["broken", "mended"]
    fed_ids: tuple[int, ...]
    """Token written into the input before each replay: by rebinding while broken, by `copy_` once mended."""
    expected_ids: tuple[int, ...]
    """What eager steps give when fed these."""
    replay_ids: tuple[int, ...]
    """What the replays gave."""
    captured_address: Bytes
    present_address: Bytes
    """Where the tensor is that the code now calls the input."""
    refused: str = ""
    """What the address guard says of such a replay; it is let through for the demonstration only."""


SweepKind = Literal["cache_lens", "batches"]


class SweepBegin(Event, frozen=True, kw_only=True, tag="sweep_begin"):
    """A sweep starts: what will be measured, in order."""

    sweep: SweepKind
    values: tuple[int, ...]
    strategies: tuple[str, ...] = ()


class SweepRow(Event, frozen=True, kw_only=True, tag="sweep_row"):
    """One measured row. Byte figures are what this row added, in the order in which rows were captured.

    Rows share one stream and so its workspace: with `cache_lens` it counts in every row, as if each length were the
    only one; with `batches` in the first row of a strategy. Where memory ran out, `reserved_bytes` and `pool_bytes` are
    the device's when it did.
    """

    sweep: SweepKind
    strategy: str = "own"
    value: int
    """max_cache_len, or the batch size."""
    status: Literal["done", "out_of_memory", "failed", "skipped"] = "done"
    reason: str = ""
    kv_bytes: int | None = None
    """Requested bytes of the cache."""
    kv_closed_form_bytes: Bytes | None = None
    workspace_bytes: int | None = None
    pool_bytes: int | None = None
    """Reserved by the private pool: what the graph holds."""
    graph_io_bytes: int | None = None
    allocated_bytes: int | None = None
    reserved_bytes: int | None = None
    driver_bytes: int | None = None
    total_bytes: int | None = None
    """Allocated plus what the pools hold beyond it plus driver (where known); with `batches`, cumulative over the
    strategy's rows."""
    peak_bytes: int | None = None
    """Most that was allocated while the row was made, above what stood before it; `allocated_bytes` is what stayed."""
    pages_in_use: int | None = None
    page_bytes: Bytes | None = None
    tok_s: float | None = None
    verdict: Verdict | None = None
    free_bytes: Bytes | None = None
    needed_bytes: Bytes | None = None
    hint: str = ""


class SweepEnd(Event, frozen=True, kw_only=True, tag="sweep_end"):
    """A sweep is over, or was cancelled. The fit is over `cache_lens`: total overhead = intercept + slope × length."""

    sweep: SweepKind
    cancelled: bool = False
    slope_bytes_per_token: float | None = None
    intercept_bytes: float | None = None
    r_squared: float | None = None
    notes: tuple[str, ...] = ()


class ArmResult(Part, frozen=True, kw_only=True):
    """One mode of a comparison."""

    mode: Mode
    rounds: int
    tokens: int
    tok_s: float
    """Median over the rounds."""
    tok_s_low: float
    tok_s_high: float
    """95 % interval of the median."""
    step_ms_p50: float
    step_ms_p99: float
    allocations_per_token: float | None = None
    launches_per_token: float | None = None
    gb_s: float | None = None
    share_of_copy: float | None = None
    """Of the measured copy bandwidth, 0 to 1."""
    share_of_datasheet: float | None = None
    """Of the theoretical bandwidth, 0 to 1."""


class Comparison(Event, frozen=True, kw_only=True, tag="comparison"):
    """Decode modes against each other, interleaved; also after each round, with `final` false."""

    arms: tuple[ArmResult, ...]
    rounds: int
    rounds_wanted: int | None = None
    final: bool = False
    ratio: float | None = None
    """Graph over eager: median of the paired rounds."""
    ratio_low: float | None = None
    ratio_high: float | None = None
    """95 % interval of that median."""
    prefill_ms: float | None = None
    prompt_len: int | None = None
    copy_bytes_s: float | None = None
    """Measured device-to-device copy bandwidth, bytes read plus written."""
    datasheet_bytes_s: float | None = None
    sm_mhz: int | None = None
    memory_mhz: int | None = None
    power_w: float | None = None
    throttled: tuple[str, ...] | None = None
    """Reasons seen during any round; null where NVML does not tell."""
    steady: bool | None = None
    """Whether the clock was steady over all rounds."""
    verdict: Verdict | None = None


class Check(Event, frozen=True, kw_only=True, tag="check"):
    """One verdict of `cgtop check`."""

    name: str
    status: Literal["PASS", "WARN", "FAIL", "n/a"]
    measured: str = ""
    expected: str = ""
    why: str = ""


class Claim(Event, frozen=True, kw_only=True, tag="claim"):
    """One statement of the guide against measurements."""

    id: str
    statement: str
    verdict: Literal["holds", "does_not_hold", "other_reason", "not_measured"]
    finding: str
    """A sentence with this run's numbers."""


class Process(Part, frozen=True, kw_only=True):
    """A process that uses the device."""

    pid: int
    bytes: Bytes | None = None
    own: bool = False


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

AnyEvent = (
    Hello
    | Progress
    | PhaseBegin
    | PhaseEnd
    | Memory
    | Segments
    | Graph
    | Addresses
    | Verification
    | Decode
    | Tokens
    | Caches
    | DynamicCapture
    | Demonstration
    | SweepBegin
    | SweepRow
    | SweepEnd
    | Comparison
    | Check
    | Claim
    | Telemetry
    | Status
    | Log
    | Error
    | End
)

EVENT_TYPES: dict[str, type[Event]] = {
    "hello": Hello,
    "progress": Progress,
    "phase_begin": PhaseBegin,
    "phase_end": PhaseEnd,
    "memory": Memory,
    "segments": Segments,
    "graph": Graph,
    "addresses": Addresses,
    "verification": Verification,
    "decode": Decode,
    "tokens": Tokens,
    "caches": Caches,
    "dynamic_capture": DynamicCapture,
    "demonstration": Demonstration,
    "sweep_begin": SweepBegin,
    "sweep_row": SweepRow,
    "sweep_end": SweepEnd,
    "comparison": Comparison,
    "check": Check,
    "claim": Claim,
    "telemetry": Telemetry,
    "status": Status,
    "log": Log,
    "error": Error,
    "end": End,
}

LIVE_EVENTS: tuple[type[Event], ...] = (Progress, Decode, Caches, Telemetry)
"""Events of which only the latest matters (and `Memory` with `live=True`): a sink may overwrite one not yet written."""


class _Envelope(msgspec.Struct):
    event: str = ""
    schema: int = SCHEMA


_encoder = msgspec.json.Encoder()
_envelope_decoder = msgspec.json.Decoder(_Envelope)
_decoders = {tag: msgspec.json.Decoder(kind) for tag, kind in EVENT_TYPES.items()}


def encode_event(event: Event) -> bytes:
    """One line of JSON, without its newline."""
    return _encoder.encode(event)


def decode_event(line: bytes) -> Event | None:
    """The event of one line, or None for a type that this version does not know.

    Raises `SchemaError` for a `hello` of a newer schema and `ValueError` (msgspec's errors are) for a line that is not
    an event at all.
    """
    envelope = _envelope_decoder.decode(line)
    if envelope.event == "hello" and envelope.schema > SCHEMA:
        raise SchemaError(
            f"written in schema {envelope.schema}; this cgtop reads up to schema {SCHEMA}: update cgtop to open it"
        )
    decoder = _decoders.get(envelope.event)
    if decoder is None:
        if not envelope.event:
            raise ValueError("not an event: no field 'event'")
        return None
    return decoder.decode(line)
