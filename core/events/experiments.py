"""The events of experiments: demonstrations, sweeps, comparisons, checks, and the guide's statements."""

from typing import Literal

from ..settings import Mode
from .base import Bytes, Event, Part, Verdict


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
    difference: float | None = None
    """Largest ‖replay - eager‖ / ‖eager‖ of a step's logits, over all sequences; null where that is no number."""
    tolerance: float | None = None
    """Up to which a step is the same computation, by roundings of the dtype."""

    @property
    def follows(self) -> bool:
        """Whether the replays compute what eager steps do. By logits: an id flips where two of them are nearly equal.

        Eager steps do not repeat themselves to the bit either. By the ids in recordings without a tolerance.
        """
        if not self.expected_ids or len(self.replay_ids) != len(self.expected_ids):
            return False
        if self.tolerance is None:
            return self.replay_ids == self.expected_ids
        return self.difference is not None and self.difference <= self.tolerance


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
    verify_steps: int | None = None
    """Steps that the verdict rests on; it and the figures below are as in `Verification`."""
    identical_steps: int | None = None
    max_difference: float | None = None
    eager_runs: int | None = None
    eager_difference: float | None = None
    """None also where the first eager run was enough: one run shows no noise."""
    first_mismatch_step: int | None = None
    free_bytes: Bytes | None = None
    needed_bytes: Bytes | None = None
    hint: str = ""

    @property
    def held_bytes(self) -> int | None:
        """What the pools of a cache length's row hold beyond tensors that stay: temporaries, in whole segments."""
        if self.total_bytes is None or self.allocated_bytes is None:
            return None
        return self.total_bytes - self.allocated_bytes - (self.driver_bytes or 0)


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
    """95 % interval of the median; of fewer than 6 rounds, which are too few for one, their whole range."""
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
    stopped: bool = False
    """Ended by a person or an error before the figures were known as well as was asked for."""
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
