"""Decode modes against each other: speeds with their spread, their ratio, and how near they come to the memory's."""

from collections.abc import Sequence

import msgspec
from textual.content import Content

from ...core.bundled import play_command
from ...core.events import ArmResult, Comparison
from ...core.guide import SPEED_EAGER_TOK_S, SPEED_GRAPH_TOK_S, SPEED_UP
from ...core.plurals import counted
from ...core.settings import Mode
from ...core.state import RunState
from ...core.statistics import LEAST_FOR_95
from ..format import NA, bandwidth, clean, count, milliseconds, percent, ratio, tok_s
from ..refusals import experiment, measuring, why_no_capture
from .columns import GAP, bar, column, fitting, paragraph, table_lines, table_width
from .decode_gauge import MODE_STYLES
from .lines import LATER, LinesWidget, spread, wrapped

GUIDE_SPEEDS: dict[Mode, float] = {"eager": SPEED_EAGER_TOK_S, "graph": SPEED_GRAPH_TOK_S}
GUIDE_MARK = "◇"
GUIDE_LINE = (
    f"~{SPEED_EAGER_TOK_S:.0f} tok/s eager, ~{SPEED_GRAPH_TOK_S:.0f} by graph, {SPEED_UP:.2f}× on its RTX 3090: "
    "another machine, no mark to reach."
)
BAR_MIN = 12


class CompareSlice(msgspec.Struct, frozen=True, kw_only=True):
    """What the view of a comparison shows."""

    comparison: Comparison | None = None
    running: bool = False
    """Whether it, or another experiment with nothing to show so far, is under way."""
    no_capture: str = ""
    """Why no graph takes part, if so."""
    over: bool = False
    """Whether the run itself has ended, so that nothing more comes."""
    idle: bool = False
    """Whether the engine does something else, or waits."""
    recorded: bool = False
    coming: bool = False
    """Whether this recording holds it, further on."""
    elsewhere: str = ""
    """The command that plays a recording with a comparison, if there is one."""

    @classmethod
    def of(cls, state: RunState, *, recorded: bool = False, coming: bool = False) -> "CompareSlice":
        """The slice of a run."""
        return cls(
            comparison=state.comparison,
            running=measuring(state) and experiment(state) in (None, "comparison") and (coming or not recorded),
            idle=not recorded and not measuring(state),
            no_capture=why_no_capture(state),
            over=state.end is not None,
            recorded=recorded,
            coming=coming,
            elsewhere=play_command("bench", "check") if state.comparison is None and not coming else "",
        )


class CompareView(LinesWidget[CompareSlice]):
    """The view of a comparison."""

    BORDER_TITLE = "Compare: decode modes, measured in turn"

    def draw(self, view: CompareSlice, width: int, height: int) -> list[Content]:
        """As `render_compare` says."""
        return render_compare(view, width, height)


def render_compare(view: CompareSlice, width: int, height: int) -> list[Content]:
    """Rounds, arms with their intervals, the ratio, shares of bandwidth, conditions, words; as many as fit."""
    if width < 1 or height < 1:
        return []
    comparison = view.comparison
    if comparison is None or not comparison.arms:
        return [
            _progress(view, comparison) if comparison is not None else _not_yet(view),
            *wrapped(_before(view), width, height - 1),
        ]
    head = spread(_progress(view, comparison), _legend(width), width)
    lines = [head, *_arm_lines(comparison.arms, width), _ratio_line(comparison, width)]
    warnings = _warnings(comparison)
    conditions = [*warnings, _prefill(comparison), _conditions(comparison)]
    roofline = _roofline(comparison, width)
    words = [*conditions, *_lessons(comparison), paragraph("Guide", GUIDE_LINE, "bold $text-secondary")]
    if height >= len(lines) + len(roofline) + 5:
        gap = [Content("")] if height >= len(lines) + len(roofline) + 10 else []
        lines += [*gap, *roofline, *gap]
    elif warnings:
        words = [*warnings, *(line for line in words if line not in warnings)]
    return [*lines, *wrapped(words, width, height - len(lines))][:height]


def _legend(width: int) -> Content:
    return Content.styled(f"{GUIDE_MARK} the guide's, RTX 3090" if width >= 76 else "", "$text-secondary")


def _not_yet(view: CompareSlice) -> Content:
    if view.running:
        return Content.styled("▶ measuring", "bold $text-accent")
    return Content.styled("not compared yet", "$muted")


def _progress(view: CompareSlice, comparison: Comparison) -> Content:
    rounds = counted(comparison.rounds, "round")
    if comparison.rounds_wanted is not None:
        rounds = f"{count(comparison.rounds)} of {counted(comparison.rounds_wanted, 'round')}"
    if view.running and comparison.final:
        return Content.assemble(("▶ measuring", "bold $text-accent"), f"; the one before had {rounds}")
    if comparison.stopped:
        return Content.assemble(("■ stopped", "bold $text-warning"), f", {rounds}")
    if comparison.verdict == "mismatch" and not comparison.arms:
        return Content.assemble(("✗ NOT COMPARED", "bold $text-error"), ": the verification found a MISMATCH")
    if comparison.final:
        return Content.assemble(("✓ compared", "bold $text-success"), f", {rounds}, arms in turn")
    if view.over or view.idle:
        return Content.assemble(("■ interrupted", "bold $text-warning"), f", {rounds}")
    return Content.assemble(("▶ comparing", "bold $text-accent"), f", {rounds} so far")


def _before(view: CompareSlice) -> list[Content]:
    if view.recorded:
        how = LATER if view.coming else "None in this recording up to here."
    elif view.running:
        how = "What is measured comes round by round, the first once every mode had its turn; m stops after it."
    elif view.comparison is not None and view.comparison.verdict == "mismatch":
        how = "Replays do not compute what eager steps do, and the speed of wrong results is none."
    elif view.no_capture:
        how = f"Press m to compare; a graph cannot take part: {clean(view.no_capture)}."
    else:
        how = "Press m to compare eager and graph decoding; it needs a captured graph."
    what = (
        "The modes take turns on the same StaticCache, with the same sampling and synchronisation, so that a change of "
        "the clock meets all of them. The figure is the median of the rounds, with the interval it is known to be in."
    )
    where = [paragraph("Recorded", view.elsewhere)] if view.elsewhere and view.recorded else []
    return [Content(how), *where, Content(what), paragraph("Guide", GUIDE_LINE, "bold $text-secondary")]


# ------------------------------------------------------------------------------------------------------ figures


def _arm_lines(arms: Sequence[ArmResult], width: int) -> list[Content]:
    """A heading and a line for each arm, with a bar from 0 that ends in its interval."""
    keep = BAR_MIN + GAP if width >= 60 else 0
    known = all(arm.rounds >= LEAST_FOR_95 for arm in arms)
    columns = fitting(
        (
            column("mode", (Content.styled(arm.mode, MODE_STYLES[arm.mode]) for arm in arms), 0, left=True),
            column("tok/s", (Content.styled(tok_s(arm.tok_s), "bold") for arm in arms), 1),
            column("interval" if known else "range", (_interval(arm) for arm in arms), 2),
            column("p50", (milliseconds(arm.step_ms_p50) for arm in arms), 3),
            column("p99", (milliseconds(arm.step_ms_p99) for arm in arms), 4),
            column("allocs/token", (count(arm.allocations_per_token) for arm in arms), 5),
            column("launches/token", (count(arm.launches_per_token) for arm in arms), 6),
            column("rounds", (count(arm.rounds) for arm in arms), 7),
            column("tokens", (count(arm.tokens) for arm in arms), 8),
        ),
        width - keep,
    )
    lines = table_lines(columns)
    room = width - table_width(columns) - GAP
    if room < BAR_MIN:
        return lines
    top = max(max(arm.tok_s_high, arm.tok_s, GUIDE_SPEEDS.get(arm.mode, 0.0)) for arm in arms)
    bars = (interval_bar(arm, top, room) for arm in arms)
    return [lines[0], *(Content.assemble(line, " " * GAP, drawn) for line, drawn in zip(lines[1:], bars, strict=True))]


def _interval(arm: ArmResult) -> str:
    """One round has neither an interval nor a range."""
    return NA if arm.rounds < 2 else f"{tok_s(arm.tok_s_low)}–{tok_s(arm.tok_s_high)}"


def interval_bar(arm: ArmResult, top: float, width: int) -> Content:
    """`━━━━━├─●─┤  ◇`: from 0 to the median, its interval around it, and the guide's figure on the same scale."""
    if width < 1 or top <= 0:
        return Content("")
    low, middle, high = sorted(
        min(width - 1, max(0, round((width - 1) * value / top))) for value in (arm.tok_s_low, arm.tok_s, arm.tok_s_high)
    )
    cells = ["━"] * low + ["─"] * (high - low + 1)
    cells[low], cells[high], cells[middle] = "├", "┤", "●"
    cells += [" "] * (width - len(cells))
    style = MODE_STYLES[arm.mode]
    guide = GUIDE_SPEEDS.get(arm.mode)
    if guide is None:
        return Content.styled("".join(cells).rstrip(), style)
    mark = min(width - 1, round((width - 1) * guide / top))
    text = "".join(cells)
    return Content.assemble(
        (text[:mark], style), (GUIDE_MARK, "bold $text-secondary"), (text[mark + 1 :].rstrip(), style)
    )


def _ratio_line(comparison: Comparison, width: int) -> Content:
    if comparison.ratio is None:
        return Content.styled("graph over eager: n/a until both took part in a round", "$muted")
    low, high = comparison.ratio_low, comparison.ratio_high
    interval = f" ({ratio(low)[1:]}–{ratio(high)[1:]})" if low is not None and high is not None else ""
    wrong = comparison.verdict == "mismatch"
    style = "strike $muted" if wrong else "bold $text-success"
    guide = f"  guide {SPEED_UP:.2f}× elsewhere" if width >= 60 else ""
    return Content.assemble("graph over eager ", (ratio(comparison.ratio), style), interval, (guide, "$text-secondary"))


def _roofline(comparison: Comparison, width: int) -> list[Content]:
    """Bytes that each arm reads a second, as a share of the measured copy bandwidth and of the datasheet's."""
    known = [arm for arm in comparison.arms if arm.gb_s is not None]
    if not known:
        return [Content.styled("bandwidth: n/a", "$muted")]
    copy, sheet = _speed(comparison.copy_bytes_s), _speed(comparison.datasheet_bytes_s)
    columns = fitting(
        (
            column("mode", (Content.styled(arm.mode, MODE_STYLES[arm.mode]) for arm in known), 0, left=True),
            column("reads", (bandwidth(arm.gb_s) for arm in known), 1),
            column(f"of copy {copy}", (percent(arm.share_of_copy, 1.0) for arm in known), 2),
            column(f"of datasheet {sheet}", (percent(arm.share_of_datasheet, 1.0) for arm in known), 3),
        ),
        width,
    )
    lines = table_lines(columns)
    room = width - table_width(columns) - GAP
    if room < BAR_MIN or all(arm.share_of_copy is None for arm in known):
        return lines
    room = min(room, 60)
    drawn = [_share_bar(arm, room) for arm in known]
    return [lines[0], *(Content.assemble(line, " " * GAP, each) for line, each in zip(lines[1:], drawn, strict=True))]


def _speed(bytes_s: float | None) -> str:
    return bandwidth(bytes_s / 1e9) if bytes_s is not None else NA


def _share_bar(arm: ArmResult, width: int) -> Content:
    filled = bar(arm.share_of_copy, 1.0, width)
    return Content.assemble((filled, MODE_STYLES[arm.mode]), ("·" * (width - len(filled)), "$muted"))


# -------------------------------------------------------------------------------------------------------- words


def _warnings(comparison: Comparison) -> list[Content]:
    found = []
    if comparison.verdict == "mismatch":
        text = "the replay does not compute what eager steps do; its speed is of wrong results."
        found.append(paragraph("✗ MISMATCH", text, "bold $text-error"))
    if comparison.throttled:
        reasons = ", ".join(clean(reason) for reason in comparison.throttled)
        found.append(
            paragraph("⚠ throttled", f"{reasons}: compare again on a cooler or freer GPU.", "bold $text-warning")
        )
    if comparison.steady is False:
        text = "it changed between rounds; pairs of a round still share it."
        found.append(paragraph("⚠ clock not steady", text, "bold $text-warning"))
    return found


def _prefill(comparison: Comparison) -> Content:
    tokens = f" of {count(comparison.prompt_len)} tokens" if comparison.prompt_len is not None else ""
    return paragraph("Prefill", f"{milliseconds(comparison.prefill_ms)}{tokens}, timed apart.")


def _conditions(comparison: Comparison) -> Content:
    sm, memory = comparison.sm_mhz, comparison.memory_mhz
    parts = [
        f"SM {count(sm)} MHz" if sm is not None else "SM clock n/a",
        f"memory {count(memory)} MHz" if memory is not None else "memory clock n/a",
        f"{comparison.power_w:.0f} W" if comparison.power_w is not None else "power n/a",
    ]
    if comparison.steady:
        parts.append("steady clock")
    if comparison.throttled is None:
        parts.append("throttling n/a")
    elif not comparison.throttled:
        parts.append("not throttled")
    return paragraph("Clocks", f"{', '.join(parts)}.")


def _lessons(comparison: Comparison) -> list[Content]:
    arms = {arm.mode: arm for arm in comparison.arms}
    eager, graph = arms.get("eager"), arms.get("graph")
    found = []
    if eager is not None and graph is not None and comparison.verdict != "mismatch":
        launches = ""
        if eager.launches_per_token is not None and graph.launches_per_token is not None:
            one, other = count(eager.launches_per_token), count(graph.launches_per_token)
            launches = f"{one} launches a token eagerly, {other} by graph; "
        saved = eager.step_ms_p50 - graph.step_ms_p50
        if saved > 0:
            text = f"{launches}a step takes {milliseconds(saved)} less, as the GPU no longer waits for the CPU."
            found.append(paragraph("Where it comes from", text))
    fastest = max(comparison.arms, key=lambda arm: arm.share_of_copy or 0.0)
    if fastest.share_of_copy:
        found.append(
            paragraph(
                "What limits it",
                f"at best every weight is read once a token at the memory's speed; {fastest.mode} reaches "
                f"{percent(fastest.share_of_copy, 1.0)} of what a copy does here.",
            )
        )
    return found
