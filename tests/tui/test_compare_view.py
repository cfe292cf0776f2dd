"""The view of a comparison, drawn without an app."""

import re
from pathlib import Path

import msgspec
import pytest
from textual.content import Content

from cgtop.core.events import Comparison, Status, SweepBegin
from cgtop.core.state import RunState, fold
from cgtop.tui.widgets.compare_view import CompareSlice, interval_bar, render_compare
from tests.tui.comparisons import comparison

SIZES = [(40, 8), (40, 10), (60, 12), (80, 20), (120, 30), (200, 50)]


def text(lines: list[Content]) -> str:
    return "\n".join(line.plain for line in lines)


def shown(width: int = 120, height: int = 30, **change: object) -> str:
    return text(render_compare(CompareSlice(comparison=msgspec.structs.replace(comparison(), **change)), width, height))


def test_each_arm_has_its_median_its_interval_and_its_steps() -> None:
    lines = shown()
    assert "eager   20.5    18.9–22.4  48.70 ms  60.10 ms         2,338           2,372" in lines
    assert "graph  115.2  114.9–115.6   8.68 ms   8.90 ms             0               1" in lines


def test_the_bar_ends_in_its_interval_and_has_the_guides_mark_on_the_same_scale() -> None:
    eager, graph = comparison().arms
    wide = interval_bar(eager, 40.0, 81).plain
    assert (wide.index("├"), wide.index("●"), wide.index("┤"), wide.index("◇")) == (38, 41, 45, 50)
    assert interval_bar(graph, 115.6, 41).plain.endswith("●")
    assert interval_bar(eager, 0.0, 10).plain == ""


@pytest.mark.parametrize(("low", "middle", "high"), [(90.0, 10.0, 50.0), (50.0, 90.0, 10.0), (-5.0, 0.0, 1e99)])
def test_an_interval_that_is_told_in_another_order_is_drawn_all_the_same(
    low: float, middle: float, high: float
) -> None:
    arm = msgspec.structs.replace(comparison().arms[0], tok_s_low=low, tok_s=middle, tok_s_high=high)
    for width in (1, 2, 40):
        assert len(interval_bar(arm, 100.0, width).plain) <= width


def test_the_ratio_has_its_interval_and_the_guides_beside_it_is_another_machines() -> None:
    lines = shown()
    assert "graph over eager ×5.62 (5.15–6.08)" in lines
    assert "2.80× on its RTX 3090: another machine, no mark to reach" in lines
    assert "n/a until both took part" in shown(ratio=None)


def test_shares_are_of_the_measured_copy_and_of_the_datasheet() -> None:
    lines = shown()
    assert "of copy 4.25 TB/s  of datasheet 4.80 TB/s" in lines
    assert "943 GB/s               22 %                    20 %" in lines


def test_unknown_bandwidths_and_clocks_are_na() -> None:
    arms = tuple(
        msgspec.structs.replace(arm, gb_s=None, share_of_copy=None, share_of_datasheet=None)
        for arm in comparison().arms
    )
    lines = shown(arms=arms, sm_mhz=None, power_w=None, throttled=None, steady=None, prefill_ms=None)
    assert "bandwidth: n/a" in lines
    assert "SM clock n/a" in lines
    assert "power n/a" in lines
    assert "throttling n/a" in lines
    assert "Prefill: n/a" in lines
    assert "What limits it" not in lines


def test_rounds_so_far_are_told_while_it_runs_and_when_it_stopped() -> None:
    running = CompareSlice(comparison=comparison(final=False, rounds=5))
    assert "▶ comparing, 5 of 12 rounds so far" in text(render_compare(running, 120, 30))
    assert "■ interrupted, 5 of 12" in text(render_compare(msgspec.structs.replace(running, over=True), 120, 30))
    assert "✓ compared, 12 of 12 rounds" in shown()
    assert "✓ compared, 1 round, arms in turn" in shown(rounds=1, rounds_wanted=None)
    assert "■ stopped, 2 of 12 rounds" in shown(rounds=2, stopped=True)


def test_too_few_rounds_have_a_range_and_one_has_none() -> None:
    for rounds, heading, cell in ((6, "interval", "18.9–22.4"), (5, "range", "18.9–22.4"), (1, "range", "n/a")):
        arms = tuple(msgspec.structs.replace(arm, rounds=rounds) for arm in comparison().arms)
        head, *rows = shown(arms=arms).split("\n")[1:3]
        assert heading in head and cell in rows[0]


def test_after_a_mismatch_it_says_why_nothing_was_compared() -> None:
    wrong = Comparison(arms=(), rounds=0, final=True, verdict="mismatch")
    lines = text(render_compare(CompareSlice(comparison=wrong), 120, 30))
    assert lines.startswith("✗ NOT COMPARED: the verification found a MISMATCH") and "Press m" not in lines


def test_a_second_comparison_is_not_taken_for_the_first() -> None:
    state = fold(fold(RunState(), comparison()), Status(state="running"))
    assert "▶ measuring; the one before had 12 of 12 rounds" in text(render_compare(CompareSlice.of(state), 120, 30))
    ended = fold(fold(RunState(), comparison(final=False, rounds=5)), Status(state="idle"))
    assert "■ interrupted, 5 of 12" in text(render_compare(CompareSlice.of(ended), 120, 30))


def test_until_the_first_round_is_over_it_says_that_it_measures() -> None:
    state = fold(RunState(), Status(state="running"))
    lines = text(render_compare(CompareSlice.of(state), 120, 30))
    assert lines.startswith("▶ measuring\n") and "m stops after it" in lines and "Press m" not in lines
    state = fold(state, SweepBegin(sweep="batches", values=(1, 2), strategies=("own",)))
    assert "not compared yet" in text(render_compare(CompareSlice.of(state), 120, 30))


@pytest.mark.parametrize("size", [(60, 12), (80, 20), (120, 30)])
def test_throttling_an_unsteady_clock_and_wrong_results_are_said_in_words(size: tuple[int, int]) -> None:
    lines = shown(*size, throttled=("sw_power_cap",), steady=False, verdict="mismatch").replace("\n", " ")
    assert "⚠ throttled: sw_power_cap" in lines
    assert "⚠ clock not steady" in lines
    assert "✗ MISMATCH" in lines
    assert "not throttled" not in lines
    assert "Where it comes from" not in lines


def test_before_it_says_how_or_why_not() -> None:
    assert "Press m to compare" in text(render_compare(CompareSlice(), 120, 30))
    assert "None in this recording up to here." in text(render_compare(CompareSlice(recorded=True), 120, 30))
    named = text(render_compare(CompareSlice.of(RunState(), recorded=True), 200, 30))
    (command,) = re.findall(r"cgtop play (\S+)", named)
    assert Path(command).is_file()
    without = CompareSlice(no_capture="needs CUDA")
    assert "a graph cannot take part: needs CUDA" in text(render_compare(without, 120, 30))


def test_the_slice_is_folded_out_of_a_runs_events() -> None:
    assert CompareSlice.of(fold(RunState(), comparison())).comparison == comparison()


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    "slice_",
    [
        CompareSlice(comparison=comparison()),
        CompareSlice(comparison=comparison(final=False, rounds=1)),
        CompareSlice(comparison=Comparison(arms=(), rounds=0)),
        CompareSlice(),
    ],
    ids=["final", "running", "no arm", "none"],
)
def test_it_fits_at_every_size_and_keeps_speeds_and_ratio(size: tuple[int, int], slice_: CompareSlice) -> None:
    lines = render_compare(slice_, *size)
    assert len(lines) <= size[1]
    assert all(line.cell_length <= size[0] for line in lines)
    if slice_.comparison is not None and slice_.comparison.arms:
        assert "20.5" in text(lines)
        assert "115.2" in text(lines)
        assert "×5.62" in text(lines)
