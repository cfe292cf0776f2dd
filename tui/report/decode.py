"""The sections about the graph: its nodes, the verification verdict, the speeds of each decode mode."""

from ...core.events import Decode, Verification
from ...core.plurals import counted
from ...core.settings import MODES
from ...core.state import RunState
from ..format import NA, count, duration, percent, rough_ratio, significant, size, tok_s
from .model import Column, Row, Section, Table, Tone, row

FEW_TOKENS = 16
"""Fewer different tokens than this are a loop of a few: their replays prove little."""
NO_GRAPH = "no graph was captured"
VERDICT_WORDS = {
    "identical": "IDENTICAL",
    "within_eager_noise": "WITHIN EAGER'S OWN NOISE",
    "mismatch": "MISMATCH",
}


def graph_section(state: RunState) -> Section:
    """The captured graph: nodes by kind, what instantiating it cost, allocations during replay, addresses."""
    graph = state.graph
    if graph is None:
        return Section(title="Graph", lines=(_no_graph(state),))
    kinds = ", ".join(f"{kind} {nodes:,}" for kind, nodes in sorted(graph.nodes_by_kind.items(), key=lambda kv: -kv[1]))
    lines = [
        f"nodes: {count(graph.nodes)}{f' ({kinds})' if kinds else ''}",
        f"capture {duration(graph.capture_s)}, instantiate {duration(graph.instantiate_s)}",
        f"driver bytes of the executable graph: {size(graph.instantiate_driver_bytes)}",
        f"graph's private pool {graph.pool_id or NA}, stream {graph.stream or NA}",
    ]
    replayed = state.decode_by_mode.get("graph")
    if replayed is not None:
        lines.append(
            f"allocations during {replayed.replays:,} replays: {count(replayed.replay_allocations)}, "
            f"device allocations: {count(replayed.device_allocations)}"
        )
    if state.addresses is not None:
        fixed = state.addresses
        compared = f"moved: {fixed.moved:,}, compared {fixed.checked:,} times"
        found = compared if fixed.checked or fixed.moved else "no comparison told"
        lines.append(f"fixed addresses: {len(fixed.fixed):,}, {found}")
    return Section(title="Graph", lines=tuple(lines))


def _no_graph(state: RunState) -> str:
    return "no graph of its own was captured; those of the sweep are in its rows" if state.sweeps else NO_GRAPH


def verification_section(state: RunState) -> Section:
    """The verdict, with the figures that it rests on."""
    check = state.verification
    title = "Verification: replay against eager steps on the same StaticCache"
    if check is None:
        line = "not done in this run: nothing proves the replayed tokens"
        if state.graph is None and state.phase("capture").status != "done":
            line = f"not done in this run: {_no_graph(state)}"
        return Section(title=title, lines=(line,), tone="quiet")
    tone: Tone = "bad" if check.verdict == "mismatch" else "good"
    return Section(title=title, lines=_verdict_lines(check), tone=tone, notes=_verdict_notes(check))


def speed_sections(state: RunState) -> tuple[Section, ...]:
    """Speed of each decode mode that ran; after a MISMATCH none is shown as valid. A run that made a comparison, checks
    or sweeps instead of decoding has no such section."""
    instead = state.comparison is not None or state.checks or state.sweeps
    return () if instead and not state.decode_by_mode else (_speed_table(state),)


def _speed_table(state: RunState) -> Section:
    columns = (
        Column("mode"),
        Column("tok/s", right=True),
        Column("p50 ms", right=True, rank=1),
        Column("p99 ms", right=True, rank=3),
        Column("steps", right=True, rank=2),
        Column("allocs/step", right=True, rank=1),
        Column("GB/s", right=True, rank=4),
        Column("of bandwidth", right=True, rank=4),
    )
    wrong = is_mismatch(state)
    limit = state.hello.device.memory_bandwidth_bytes_s if state.hello is not None else None
    shown = {
        mode: state.longest_by_mode.get(mode, last) if last.valid else last
        for mode, last in state.decode_by_mode.items()
    }
    rows = tuple(_speed_row(shown[mode], limit, wrong=wrong) for mode in MODES if mode in shown)
    if not rows:
        return Section(title="Decode speed", lines=("no token was decoded",))
    notes: list[str] = ["tok/s is the mean over the longest stretch of a mode, of all sequences of the batch together"]
    if wrong or any(not decode.valid for decode in state.decode_by_mode.values()):
        notes.append("A speed of wrong results is no speed: the figures are withheld.")
    elif state.speed_up is not None:
        notes.insert(0, f"graph over eager: {rough_ratio(state.speed_up)}, of these means; bench gives an interval")
    if limit is not None:
        notes.append(f"of bandwidth: of the theoretical {limit / 1e9:,.0f} GB/s, from memory clock and bus width")
    return Section(title="Decode speed", table=Table(columns, rows), notes=tuple(notes))


def is_mismatch(state: RunState) -> bool:
    """Whether the last verification found the replay wrong."""
    return state.verification is not None and state.verification.verdict == "mismatch"


def _speed_row(decode: Decode, limit: float | None, *, wrong: bool) -> Row:
    if wrong or not decode.valid:
        return row(decode.mode, "not valid", *(NA,) * 2, f"{decode.tokens:,}", *(NA,) * 3, tone="bad")
    allocations = decode.allocations_per_step
    bytes_s = None if decode.gb_s is None else decode.gb_s * 1e9
    return row(
        decode.mode,
        tok_s(decode.tok_s_mean),
        _decimals(decode.step_ms_p50, 2),
        _decimals(decode.step_ms_p99, 2),
        f"{decode.tokens:,}",
        _decimals(allocations, 1) if allocations else count(allocations),
        count(decode.gb_s) if decode.gb_s is None or decode.gb_s >= 10 else _decimals(decode.gb_s, 2),
        percent(bytes_s, limit),
    )


def _verdict_lines(check: Verification) -> tuple[str, ...]:
    lines = [
        VERDICT_WORDS[check.verdict],
        f"replay against eager: {check.identical_steps} of {check.steps} steps bit-equal in every logit, "
        f"largest difference {significant(check.max_difference)}"
        + (f", the farthest of {check.replay_runs} replayed runs" if check.replay_runs > 1 else ""),
        f"eager against itself: {check.eager_identical_steps} of {check.steps} steps over {check.eager_runs} runs, "
        f"largest difference {significant(check.eager_difference)}",
    ]
    if check.first_mismatch_step is not None:
        lines.append(f"first step that differs in a bit: {check.first_mismatch_step}")
    if check.dynamic_difference is not None:
        verdict = {True: "within", False: "BEYOND", None: "without"}[check.dynamic_ok]
        lines.append(
            f"first step against DynamicCache: relative difference {significant(check.dynamic_difference)}, "
            f"{verdict} the tolerance of {significant(check.dynamic_tolerance)}"
        )
    return tuple(lines)


def _verdict_notes(check: Verification) -> tuple[str, ...]:
    notes = [
        f"batch {check.batch_size}, {count(check.distinct_tokens)} different tokens fed, {duration(check.seconds)}"
    ]
    if check.distinct_tokens is not None and check.distinct_tokens < FEW_TOKENS:
        notes[0] += "; few different tokens prove little"
    if not check.finite:
        notes.append("some logits are not finite")
    if check.is_divided:
        notes.append(
            f"{check.replays_off} of {counted(check.replay_runs, 'replayed run')} differ as no eager run does, the "
            "others are right: a kernel that seldom rounds otherwise, or a race; verify again (v)"
        )
    if check.corrupted_on_purpose:
        notes.append("the cache was spoilt on purpose, to show that a wrong replay is found")
    return tuple(notes)


def _decimals(value: float | None, decimals: int) -> str:
    return NA if value is None else f"{value:,.{decimals}f}"
