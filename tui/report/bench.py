"""The sections about a comparison of decode modes: speeds, their ratio, what they were measured at, what flags them."""

from ...core.events import ArmResult, Comparison
from ...core.guide import SPEED_EAGER_TOK_S, SPEED_GRAPH_TOK_S, SPEED_UP
from ...core.plurals import counted
from ...core.state import RunState
from ..format import NA, bandwidth, count, milliseconds, ratio, tok_s
from .decode import VERDICT_WORDS
from .model import Column, Row, Section, Table, row

GUIDE_SPEEDS = {"eager": SPEED_EAGER_TOK_S, "graph": SPEED_GRAPH_TOK_S}
LEAST_FOR_95 = 6
COLUMNS = (
    Column("mode"),
    Column("tok/s", right=True),
    Column("from", right=True, rank=2),
    Column("to", right=True, rank=2),
    Column("p50 ms", right=True, rank=3),
    Column("p99 ms", right=True, rank=3),
    Column("allocs/token", right=True, rank=4),
    Column("launches/token", right=True, rank=5),
    Column("GB/s", right=True, rank=1),
    Column("of copy", right=True, rank=6),
    Column("of datasheet", right=True, rank=6),
    Column("guide tok/s", right=True, rank=7),
)


def bench_sections(state: RunState) -> tuple[Section, ...]:
    """The comparison of a run; empty where none was made."""
    found = state.comparison
    if found is None:
        return ()
    if found.verdict == "mismatch":
        lines = ("MISMATCH: the replay is not what eager steps compute. The speed of wrong results is none.",)
        return (Section(title="Decode modes compared", lines=lines, tone="bad"),)
    flags, on_gpu = _flags(found), state.hello is None or state.hello.device.kind == "cuda"
    sections = [
        Section(
            title="Decode modes compared",
            lines=_ratio_lines(found),
            table=Table(COLUMNS, tuple(_row(arm, on_gpu=on_gpu) for arm in found.arms)),
            notes=_notes(found, on_gpu=on_gpu),
            tone="good",
        ),
        Section(title="Measured at", lines=_conditions(found)),
    ]
    if flags:
        sections.append(Section(title="To be read with care", lines=flags, tone="bad"))
    return tuple(sections)


def _row(arm: ArmResult, *, on_gpu: bool) -> Row:
    return row(
        arm.mode,
        tok_s(arm.tok_s),
        tok_s(arm.tok_s_low),
        tok_s(arm.tok_s_high),
        f"{arm.step_ms_p50:,.2f}",
        f"{arm.step_ms_p99:,.2f}",
        count(arm.allocations_per_token),
        count(arm.launches_per_token),
        NA if arm.gb_s is None else f"{arm.gb_s:,.0f}" if arm.gb_s >= 10 else f"{arm.gb_s:,.2f}",
        _share(arm.share_of_copy),
        _share(arm.share_of_datasheet),
        tok_s(GUIDE_SPEEDS.get(arm.mode) if on_gpu else None),
    )


def _ratio_lines(found: Comparison) -> tuple[str, ...]:
    if found.ratio is None:
        return ()
    if found.ratio_low is None or found.ratio_high is None:
        return (f"graph over eager: {ratio(found.ratio)}, no interval: too few rounds ({found.rounds})",)
    return (f"graph over eager: {ratio(found.ratio)} (95 % {ratio(found.ratio_low)} to {ratio(found.ratio_high)})",)


def _notes(found: Comparison, *, on_gpu: bool) -> tuple[str, ...]:
    rounds = counted(found.rounds, "round")
    interval = "their 95 % interval" if found.rounds >= LEAST_FOR_95 else "their whole range: too few for an interval"
    notes = [
        f"tok/s: median of {rounds} in ABBA order, with {interval}; the ratio is taken round by round",
        "launches/token: a replay is one; eager: kernel nodes of the graph that was captured of that same step",
        "GB/s: bytes that a step must read (weights once, the whole StaticCache or the DynamicCache's tokens) over "
        "its time",
    ]
    if on_gpu:
        notes.append(f"guide: ×{SPEED_UP:.2f} on its RTX 3090; a reference, no mark to reach")
    return tuple(notes)


def _conditions(found: Comparison) -> tuple[str, ...]:
    clock = "n/a" if found.sm_mhz is None else f"{found.sm_mhz:,} MHz"
    steady = {True: "steady", False: "NOT STEADY", None: "steadiness not known"}[found.steady]
    memory = "n/a" if found.memory_mhz is None else f"{found.memory_mhz:,} MHz"
    power = "n/a" if found.power_w is None else f"{found.power_w:,.0f} W"
    copy = None if found.copy_bytes_s is None else found.copy_bytes_s / 1e9
    sheet = None if found.datasheet_bytes_s is None else found.datasheet_bytes_s / 1e9
    measured = "n/a (not measured with this comparison)" if copy is None else f"{bandwidth(copy)} measured"
    verdict = VERDICT_WORDS[found.verdict] if found.verdict is not None else "not verified"
    return (
        f"prefill of {count(found.prompt_len)} tokens: {milliseconds(found.prefill_ms)}, timed apart",
        f"clock {clock} ({steady}), memory {memory}, power {power}",
        f"held down by: {_throttle(found.throttled)}",
        f"copy bandwidth, read plus written: {measured}, {bandwidth(sheet)} by the datasheet",
        f"replay against eager: {verdict}",
    )


def _flags(found: Comparison) -> tuple[str, ...]:
    flags = []
    if found.throttled:
        flags.append(f"the card was held down during a round: {', '.join(found.throttled)}")
    if found.steady is False:
        flags.append("the clock was not steady over the rounds")
    if found.stopped or not found.final:
        flags.append("the comparison was broken off")
    return tuple(flags)


def _throttle(reasons: tuple[str, ...] | None) -> str:
    return NA if reasons is None else ", ".join(reasons) or "nothing"


def _share(value: float | None) -> str:
    return NA if value is None else f"{100 * value:.0f} %"
