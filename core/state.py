"""What a surface shows: `RunState`, folded out of events by `fold`, which is pure.

Nothing here is known that no event said. Histories are bounded, so a run of hours stays small.
"""

from typing import Literal

import msgspec

from .block_phases import first_seen
from .events import (
    Addresses,
    Caches,
    Check,
    Claim,
    Comparison,
    Decode,
    Demonstration,
    DeviceInfo,
    DynamicCapture,
    End,
    Error,
    Event,
    Graph,
    Hello,
    Log,
    Memory,
    PhaseBegin,
    PhaseEnd,
    PhaseId,
    Progress,
    Segments,
    Status,
    SweepBegin,
    SweepEnd,
    SweepKind,
    SweepRow,
    Telemetry,
    Tokens,
    Verification,
)
from .phases import PHASE_IDS
from .settings import Mode

SPEED_HISTORY = 120
"""Points of the speed sparkline: 12 s at 10 Hz."""
TOKENS_KEPT = 256
TEXT_KEPT = 4000
LOG_KEPT = 500
ERRORS_KEPT = 100
CHECKS_KEPT = CLAIMS_KEPT = 200
ROWS_KEPT = 1000
"""Of a sweep."""
CACHES_KEPT = 240
"""Two minutes at 2 Hz."""
RATIO_STEPS = 10
"""Fewer steps of a mode make no ratio: the first are slower, and the figure of two would stand on the screen."""

PhaseStatus = Literal["pending", "running", "done", "unavailable", "failed"]


class PhaseState(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the phase list."""

    id: PhaseId
    status: PhaseStatus = "pending"
    began: float | None = None
    progress: Progress | None = None
    end: PhaseEnd | None = None


class SpeedPoint(msgspec.Struct, frozen=True):
    """One point of the sparkline."""

    t: float
    mode: Mode
    tok_s: float


class Sweep(msgspec.Struct, frozen=True, kw_only=True):
    """A sweep as far as it has come."""

    begin: SweepBegin | None = None
    rows: tuple[SweepRow, ...] = ()
    end: SweepEnd | None = None


class RunState(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that is known of a run at one moment."""

    t: float = 0.0
    expected_device: DeviceInfo | None = None
    """What a live surface found out of the device by itself, to be shown until `hello` says it."""
    hello: Hello | None = None
    phases: tuple[PhaseState, ...] = tuple(PhaseState(id=phase) for phase in PHASE_IDS)
    memory: Memory | None = None
    """The latest sample, live or full."""
    boundary_memory: dict[PhaseId, Memory] = {}
    """The full attribution at the end of each phase."""
    segments: Segments | None = None
    block_phases: dict[int, PhaseId] = {}
    """Address of each block in use of `segments` -> phase in which it first appeared with its size and bucket."""
    graph: Graph | None = None
    addresses: Addresses | None = None
    verification: Verification | None = None
    decode: Decode | None = None
    decode_by_mode: dict[Mode, Decode] = {}
    """The last figures of each mode; those of the other modes stay when one switches."""
    longest_by_mode: dict[Mode, Decode] = {}
    """Of each mode the figures over most steps, which its mean is known best by; none of wrong results."""
    speeds: tuple[SpeedPoint, ...] = ()
    tokens: tuple[int, ...] = ()
    text: str | None = None
    caches: tuple[Caches, ...] = ()
    """Samples of both caches while tokens are added; the last `CACHES_KEPT`."""
    dynamic_capture: DynamicCapture | None = None
    demonstration: Demonstration | None = None
    earlier_demonstration: Demonstration | None = None
    """The last of the other stage before it: the input rebound, once it has been put right."""
    sweeps: dict[SweepKind, Sweep] = {}
    comparison: Comparison | None = None
    checks: tuple[Check, ...] = ()
    claims: tuple[Claim, ...] = ()
    telemetry: Telemetry | None = None
    status: Status | None = None
    log: tuple[Log, ...] = ()
    errors: tuple[Error, ...] = ()
    end: End | None = None

    def phase(self, phase: PhaseId) -> PhaseState:
        """The row of one phase."""
        return self.phases[PHASE_IDS.index(phase)]

    @property
    def running_phase(self) -> PhaseState | None:
        """The phase that runs now, if any."""
        return next((row for row in self.phases if row.status == "running"), None)

    @property
    def next_phase(self) -> PhaseState | None:
        """The first phase that has not ended well; a failed one may be tried again."""
        return next((row for row in self.phases if row.status in ("pending", "failed")), None)

    @property
    def allocations_per_eager_token(self) -> float | None:
        """Measured over the last stretch of eager decoding, or null."""
        eager = self.decode_by_mode.get("eager")
        return None if eager is None else eager.allocations_per_step

    @property
    def speed_up(self) -> float | None:
        """Graph over eager, by mean tok/s over the longest stretch of each.

        Null while one is unknown or known by a few steps only, or the graph's results are wrong.
        """
        last = self.decode_by_mode.get("graph")
        graph, eager = self.longest_by_mode.get("graph"), self.longest_by_mode.get("eager")
        if last is None or not last.valid or graph is None or eager is None:
            return None
        if min(graph.tokens, eager.tokens) < RATIO_STEPS or not graph.tok_s_mean or not eager.tok_s_mean:
            return None
        return graph.tok_s_mean / eager.tok_s_mean


def fold(state: RunState, event: Event) -> RunState:
    """The state after one more event. Pure: an event of an unknown type changes the time only."""
    t = max(state.t, event.t)
    change: dict[str, object] = {"t": t}
    match event:
        case Hello():
            return RunState(t=event.t, hello=event, log=state.log)
        case Progress():
            change["phases"] = _with_phase(state, event.phase, progress=event)
        case PhaseBegin():
            change["phases"] = _with_phase(state, event.phase, status="running", began=event.t, end=None)
        case PhaseEnd():
            change["phases"] = _with_phase(state, event.phase, status=event.status, end=event, progress=None)
        case Memory():
            change["memory"] = event
            if event.phase is not None and not event.live:
                change["boundary_memory"] = {**state.boundary_memory, event.phase: event}
        case Segments():
            change["segments"] = event
            change["block_phases"] = first_seen(state.block_phases, state.segments, event)
        case Graph():
            change["graph"] = event
        case Addresses():
            change["addresses"] = event
        case Verification():
            change["verification"] = event
            if event.verdict == "mismatch":
                change |= _without_graph_speeds(state)
        case Decode():
            change["decode"] = event
            change["decode_by_mode"] = {**state.decode_by_mode, event.mode: event}
            longest = state.longest_by_mode.get(event.mode)
            if event.valid and event.tok_s_mean is not None and (longest is None or event.tokens >= longest.tokens):
                change["longest_by_mode"] = {**state.longest_by_mode, event.mode: event}
            if event.tok_s is not None:
                change["speeds"] = (*state.speeds[1 - SPEED_HISTORY :], SpeedPoint(t, event.mode, event.tok_s))
        case Tokens():
            change["tokens"] = (state.tokens + event.ids)[-TOKENS_KEPT:]
            if event.text is not None:
                change["text"] = ((state.text or "") + event.text)[-TEXT_KEPT:]
        case Caches():
            change["caches"] = (*state.caches[1 - CACHES_KEPT :], event)
        case DynamicCapture():
            change["dynamic_capture"] = event
        case Demonstration():
            change["demonstration"] = event
            if state.demonstration is not None and state.demonstration.stage != event.stage:
                change["earlier_demonstration"] = state.demonstration
        case SweepBegin():
            change["sweeps"] = {**state.sweeps, event.sweep: Sweep(begin=event)}
        case SweepRow():
            sweep = state.sweeps.get(event.sweep, Sweep())
            grown = msgspec.structs.replace(sweep, rows=(*sweep.rows[1 - ROWS_KEPT :], event))
            change["sweeps"] = {**state.sweeps, event.sweep: grown}
        case SweepEnd():
            ended = msgspec.structs.replace(state.sweeps.get(event.sweep, Sweep()), end=event)
            change["sweeps"] = {**state.sweeps, event.sweep: ended}
        case Comparison():
            change["comparison"] = event
        case Check():
            change["checks"] = (*(check for check in state.checks if check.name != event.name), event)[-CHECKS_KEPT:]
        case Claim():
            change["claims"] = (*(claim for claim in state.claims if claim.id != event.id), event)[-CLAIMS_KEPT:]
        case Telemetry():
            change["telemetry"] = event
        case Status():
            change["status"] = event
        case Log():
            change["log"] = (*state.log[1 - LOG_KEPT :], event)
        case Error():
            change["errors"] = (*state.errors[1 - ERRORS_KEPT :], event)
            if event.phase is not None and state.phase(event.phase).status != "done":  # what was done stays done
                change["phases"] = _with_phase(state, event.phase, status="failed")
        case End():
            change["end"] = event
    return msgspec.structs.replace(state, **change)


def _without_graph_speeds(state: RunState) -> dict[str, object]:
    """Replays turned out to be wrong: their speed is the speed of nothing."""
    graph = state.decode_by_mode.get("graph")
    if graph is None:
        return {}
    wrong = msgspec.structs.replace(graph, valid=False)
    return {
        "decode": wrong if state.decode is graph else state.decode,
        "decode_by_mode": {**state.decode_by_mode, "graph": wrong},
        "longest_by_mode": {mode: made for mode, made in state.longest_by_mode.items() if mode != "graph"},
    }


def _with_phase(state: RunState, phase: PhaseId, **change: object) -> tuple[PhaseState, ...]:
    return tuple(msgspec.structs.replace(row, **change) if row.id == phase else row for row in state.phases)
