"""The other panels, drawn without an app: pure functions of a slice and a size."""

import re

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.content import Content

from cgtop.core.events import (
    Addresses,
    Counters,
    Decode,
    DeviceInfo,
    End,
    Error,
    FixedTensor,
    Item,
    PhaseBegin,
    PhaseEnd,
    PhaseId,
    Progress,
    Status,
    Telemetry,
    Verification,
)
from cgtop.core.memory_map import MIB
from cgtop.core.phases import PHASE_BY_ID, PHASE_IDS
from cgtop.core.settings import Mode
from cgtop.core.state import RunState, SpeedPoint, fold
from cgtop.tui.widgets.decode_gauge import BLOCKS, DecodeView, decode_title, gauge, render_decode, sparkline
from cgtop.tui.widgets.error_panel import ErrorView, render_error
from cgtop.tui.widgets.explanation import ExplanationView, render_explanation
from cgtop.tui.widgets.key_bar import Key, render_keys
from cgtop.tui.widgets.lines import spread, wrapped
from cgtop.tui.widgets.notice import status_text
from cgtop.tui.widgets.phase_list import PhasesView, list_counter, list_title, render_list, render_strip
from cgtop.tui.widgets.phase_table import render_table
from cgtop.tui.widgets.replay_counter import ReplayView, render_replay
from cgtop.tui.widgets.telemetry import TelemetryView, render_telemetry
from cgtop.tui.widgets.title import Playback, TitleView, render_banner, render_essentials, render_title
from cgtop.tui.widgets.tokens import TokensView, render_tokens
from tests.sample import decode, hello, phase_end
from tests.tui.fakes import folded, until

FULL = until("replay", decoding=True)


def text(lines: list[Content]) -> str:
    return "\n".join(line.plain for line in lines)


def decode_view(state: RunState = FULL) -> DecodeView:
    return DecodeView(
        decode=state.decode,
        by_mode=state.decode_by_mode,
        longest=state.longest_by_mode,
        speeds=state.speeds,
        speed_up=state.speed_up,
        state="decoding",
        peak_bandwidth=4.8e12,
    )


def explained(phase: str, state: RunState = FULL) -> ExplanationView:
    row = next(row for row in state.phases if row.id == phase)
    return ExplanationView(row=row, model=hello().model, graph=state.graph, decode=state.decode_by_mode.get("graph"))


# -------------------------------------------------------------------------------------------------- phases


def test_each_phase_has_a_line_with_glyph_name_and_difference() -> None:
    lines = [line.plain for line in render_list(PhasesView(phases=FULL.phases), 26, 9)]
    assert len(lines) == len(PHASE_IDS)
    assert lines[1].startswith("✓ load")
    assert lines[1].endswith("+7,726.0")
    assert lines[8] == "· release".ljust(26)
    assert {len(line) for line in lines} == {26}


def test_a_running_phase_is_alive_by_progress_or_by_its_seconds() -> None:
    state = folded([hello(), PhaseBegin(t=1.0, phase="load")])
    assert render_list(PhasesView(phases=state.phases, t=4.2), 26, 9)[1].plain.endswith("3 s")
    state = fold(state, Progress(t=2.0, phase="load", done=1, total=4, what="layer 1"))
    view = PhasesView(phases=state.phases, t=2.0)
    assert render_list(view, 26, 9)[1].plain.endswith("25 %")
    assert "▶ load" in text(render_table(view, 80, 10))
    assert "layer 1" in text(render_table(view, 80, 10))


def test_an_unavailable_phase_is_na_with_its_reason_in_the_table() -> None:
    state = folded([hello(), PhaseEnd(t=1.0, phase="capture", status="unavailable", reason="needs CUDA")])
    view = PhasesView(phases=state.phases)
    assert render_list(view, 26, 9)[6].plain.startswith("– capture")
    assert "needs CUDA" in text(render_table(view, 80, 10))


def test_counters_that_are_unknown_are_na_in_the_table() -> None:
    state = folded([hello(), PhaseEnd(t=1.0, phase="context")])
    row = render_table(PhasesView(phases=state.phases), 110, 10)[1].plain
    assert row.count("n/a") == 8


def test_where_nothing_is_allocated_by_an_allocator_the_list_counts_what_was_requested() -> None:
    end = PhaseEnd(t=1.0, phase="load", before=Counters(requested=0), after=Counters(requested=2 * MIB))
    state = folded([hello(), end])
    assert list_counter(state.phases) == "requested"
    assert render_list(PhasesView(phases=state.phases), 26, 9)[1].plain.endswith("+2.0")
    assert list_title(state.phases, 26) == "Phases, Δ requested MiB"
    assert list_title(state.phases, 20) == "Phases, Δ req. MiB"
    assert list_title(FULL.phases, 26) == "Phases, Δ allocated MiB"
    assert list_title(FULL.phases, 20) == "Phases, Δ alloc. MiB"
    assert list_counter(FULL.phases) == "allocated"
    assert list_counter(RunState().phases) == "allocated"


@pytest.mark.parametrize("width", [20, 40, 60, 86, 120])
def test_the_table_shows_the_columns_that_fit_and_keeps_the_difference_longest(width: int) -> None:
    lines = render_table(PhasesView(phases=FULL.phases), width, 10)
    assert all(line.cell_length <= max(width, 14) for line in lines)
    heading = lines[0].plain
    assert ("Δ" in heading) == (width >= 24)
    assert ("peak" in heading) == (width >= 120)


def test_each_heading_of_a_difference_says_of_what_it_is() -> None:
    heading = render_table(PhasesView(phases=FULL.phases), 120, 10)[0].plain
    assert re.findall(r"Δ \S+", heading) == ["Δ alloc.", "Δ req.", "Δ res.", "Δ driver"]
    assert heading.split()[:2] == ["phase", "allocated"]


@pytest.mark.parametrize("height", range(1, 12))
@pytest.mark.parametrize("phase", ["context", "static_cache", "replay"])
def test_a_table_without_room_keeps_the_row_that_matters(height: int, phase: str) -> None:
    lines = render_table(PhasesView(phases=until(phase).phases), 80, height)
    assert len(lines) <= height
    name = phase.replace("_", " ")
    assert height == 1 or any(name in line.plain for line in lines[1:])


def test_the_strip_tells_all_states_and_the_present_phase_in_one_line() -> None:
    assert render_strip(PhasesView(phases=FULL.phases), 40)[0].plain == "✓✓✓✓✓✓✓✓·  replay 0.0 MiB"


# -------------------------------------------------------------------------------------------------- decode


def test_the_gauge_shows_mode_speed_and_the_other_modes_beside_it() -> None:
    lines = text(render_decode(decode_view(), 60, 4))
    assert " GRAPH  125.0 tok/s" in lines
    assert "eager 28.1 · dynamic 26.0 · graph 125.5" in lines
    assert "×4.5" in lines
    assert "position 962 / 1,024" in lines
    assert "21 % of 4.80 TB/s" in lines


def test_the_title_tells_the_steps_behind_the_ratio_and_where_it_has_an_interval() -> None:
    by_mode: dict[Mode, Decode] = {
        "eager": decode(1.0, "eager", 538, 26.9, 35),
        "graph": decode(1.0, "graph", 2937, 115.3, 35),
    }
    view = DecodeView(decode=by_mode["graph"], by_mode=by_mode, longest=by_mode, speed_up=115.3 / 26.9)
    assert decode_title(view, 80) == "Decode: ×4.3 of means over 530 and 2,900 steps (7 compares, with an interval)"
    assert decode_title(view, 50) == "Decode: ×4.3 of means over 530 and 2,900 steps"
    assert decode_title(view, 26) == "Decode: ×4.3, 530 steps"
    assert decode_title(view, 10) == "Decode"
    assert decode_title(msgspec.structs.replace(view, speed_up=None), 80) == "Decode"


def test_a_mode_is_shown_by_the_mean_of_its_longest_stretch() -> None:
    long, short = decode(1.0, "eager", 538, 26.9, 35), decode(2.0, "eager", 55, 18.0, 35)
    graph = decode(3.0, "graph", 10, 115.3, 35)
    view = DecodeView(decode=graph, by_mode={"eager": short, "graph": graph}, longest={"eager": long, "graph": graph})
    assert "eager 26.9" in text(render_decode(view, 60, 4))


def test_without_a_known_bandwidth_no_share_is_claimed() -> None:
    lines = text(render_decode(msgspec.structs.replace(decode_view(), peak_bandwidth=None), 60, 4))
    assert "TB/s" in lines
    assert "%" not in lines


def test_a_mode_that_never_ran_is_na() -> None:
    view = DecodeView(decode=decode(1.0, "eager", 3, 28.1, 35), by_mode={"eager": decode(1.0, "eager", 3, 28.1, 35)})
    assert "graph n/a" in text(render_decode(view, 60, 4))


def test_wrong_results_are_called_so_beside_their_speed() -> None:
    wrong = msgspec.structs.replace(decode(1.0, "graph", 3, 125.0, 35), valid=False)
    assert "wrong results" in text(render_decode(DecodeView(decode=wrong, by_mode={"graph": wrong}), 60, 4))


def test_laps_are_counted_from_one() -> None:
    lapped = msgspec.structs.replace(decode(1.0, "graph", 3, 125.0, 35), laps=2)
    assert "lap 3" in text(render_decode(DecodeView(decode=lapped), 60, 4))


def test_the_sparkline_rises_from_zero_to_the_highest_speed() -> None:
    points = [SpeedPoint(0.0, "eager", 0.0), SpeedPoint(0.1, "eager", 50.0), SpeedPoint(0.2, "graph", 100.0)]
    assert sparkline(points, 10).plain == BLOCKS[0] + BLOCKS[4] + BLOCKS[7]
    assert sparkline(points, 2).plain == BLOCKS[4] + BLOCKS[7]
    assert sparkline(points, 0).plain == ""
    assert sparkline([SpeedPoint(0.0, "eager", 0.0)], 5).plain == ""


def test_the_counter_stands_beside_eagers_and_the_verdict() -> None:
    view = ReplayView(graph=FULL.decode_by_mode["graph"], eager_per_token=2338.0, verification=FULL.verification)
    assert text(render_replay(view, 34, 4)).splitlines() == [
        "0 in 360 replays",
        "eager 2,338 a token",
        "✓ IDENTICAL, 64 steps",
    ]


def test_addresses_that_nothing_compared_are_not_said_to_have_stayed() -> None:
    addresses = Addresses(fixed=(FixedTensor(name="input_ids", address=1, bytes=8, update="in-graph"),))
    assert "1 fixed addresses, not compared yet" in text(render_replay(ReplayView(addresses=addresses), 36, 4))
    assert "1 addresses, not compared yet" in text(render_replay(ReplayView(addresses=addresses), 30, 4))
    compared = msgspec.structs.replace(addresses, checked=3)
    assert "1 fixed addresses, 0 moved" in text(render_replay(ReplayView(addresses=compared), 34, 4))
    moved = msgspec.structs.replace(addresses, moved=1)
    assert "1 fixed addresses, 1 moved" in text(render_replay(ReplayView(addresses=moved), 34, 4))


def test_an_unknown_count_of_allocations_is_na_and_not_zero() -> None:
    unknown = msgspec.structs.replace(FULL.decode_by_mode["graph"], replay_allocations=None)
    assert text(render_replay(ReplayView(graph=unknown), 34, 4)).startswith("n/a in 360 replays")
    assert text(render_replay(ReplayView(), 34, 4)).startswith("n/a no replay yet")


def test_what_only_an_experiment_decoded_is_not_denied() -> None:
    assert text(render_replay(ReplayView(experiment="7"), 34, 4)).startswith("n/a none but in view 7")
    on_cpu = ReplayView(experiment="8", no_capture="capture needs CUDA")
    assert text(render_replay(on_cpu, 34, 4)).startswith("n/a no replay here")
    lines = text(render_decode(DecodeView(experiment="7", recorded=True), 27, 4))  # as at 80×24
    assert lines.startswith("decoded in view 7 only") and "not decoding yet" not in lines


@pytest.mark.parametrize("size", [(34, 4), (40, 1), (60, 2), (24, 3)])
def test_a_mismatch_is_said_in_words_at_every_size(size: tuple[int, int]) -> None:
    assert FULL.verification is not None
    wrong = msgspec.structs.replace(FULL.verification, verdict="mismatch", first_mismatch_step=3, max_difference=1.5)
    view = ReplayView(graph=FULL.decode_by_mode["graph"], eager_per_token=2338.0, verification=wrong)
    assert "MISMATCH" in text(render_replay(view, *size))[: size[0] * size[1]]


def test_noise_is_shown_with_both_figures() -> None:
    noisy = Verification(
        verdict="within_eager_noise", steps=64, batch_size=1, identical_steps=60, max_difference=0.125, eager_runs=2,
        eager_identical_steps=61, eager_difference=0.25, seconds=1.0,
    )  # fmt: skip
    assert "0.125, eager's own 0.25" in text(render_replay(ReplayView(verification=noisy), 60, 4))


# ------------------------------------------------------------------------------------------- words and text


@pytest.mark.parametrize("phase", PHASE_IDS)
def test_a_phase_is_explained_with_what_why_and_what_to_look_at_before_it_has_run(phase: PhaseId) -> None:
    lines = " ".join(text(render_explanation(explained(phase, RunState()), 100, 12)).split())
    for sentence in (PHASE_BY_ID[phase].what, PHASE_BY_ID[phase].why, PHASE_BY_ID[phase].look):
        assert sentence in lines


def test_the_explanation_has_this_runs_figures_and_corrects_the_guide() -> None:
    lines = text(render_explanation(explained("capture"), 200, 12))
    assert "allocated +1.0 MiB" in lines
    assert "2,372 nodes, instantiated for 4.0 MiB of driver memory" in lines
    assert "+8 MiB on its RTX 3090" in lines
    assert "kernel sequence lives in driver memory" in lines


def test_an_inferred_cause_says_so() -> None:
    end = msgspec.structs.replace(
        phase_end(1.0, "warmup"),
        explained={"allocated": (Item(name="modules", bytes=2 * MIB, certainty="inferred"),)},
    )
    state = folded([hello(), end])
    assert "modules 2.0 MiB (inferred)" in text(render_explanation(explained("warmup", state), 200, 12))


def test_before_a_phase_has_run_it_claims_no_figures() -> None:
    assert "This run" not in text(render_explanation(explained("load", RunState()), 100, 12))


@pytest.mark.parametrize(
    ("mode", "figures", "wanted", "not_wanted"),
    [
        ("eager", "2,338 allocations a step, 28.1 tok/s", "Python launches every kernel", "Each token is one launch"),
        ("dynamic", "2,338 allocations a step, 28.1 tok/s", "They grow and move", "Each token is one launch"),
        ("graph", "0 allocations in 50 replays at 28.1 tok/s", "Each token is one launch", "Python launches"),
    ],
)
def test_while_a_mode_decodes_it_is_explained_and_not_the_phase(
    mode: Mode, figures: str, wanted: str, not_wanted: str
) -> None:
    view = msgspec.structs.replace(explained("replay"), decoding=decode(9.0, mode, 50, 28.1, 82))
    lines = " ".join(text(render_explanation(view, 76, 4)).split())
    assert figures in lines and wanted in lines
    assert not_wanted not in lines


def test_on_a_cpu_no_kernels_and_no_replays_are_told_of() -> None:
    device = DeviceInfo(kind="cpu", name="a CPU")
    end = PhaseEnd(t=1.0, phase="replay", status="unavailable", reason="needs CUDA")
    bare = ExplanationView(row=folded([hello(), end]).phase("replay"), device=device)
    lines = text(render_explanation(bare, 100, 6))
    assert "needs CUDA" in lines and "With CUDA: " in lines
    assert "0 allocations" not in lines and "0 driver bytes" not in lines
    step = msgspec.structs.replace(decode(9.0, "eager", 50, 28.1, 82), allocations=None)
    lines = text(render_explanation(msgspec.structs.replace(bare, decoding=step), 100, 6))
    assert "28.1 tok/s on average. Python calls every operation" in lines
    assert "allocations" not in lines and "GPU" not in lines


def test_a_mode_of_wrong_results_is_told_without_its_speed() -> None:
    wrong = msgspec.structs.replace(decode(9.0, "graph", 50, 99.9, 82), valid=False)
    lines = text(render_explanation(msgspec.structs.replace(explained("replay"), decoding=wrong), 76, 4))
    assert "wrong" in lines and "99.9" not in lines


def test_an_error_tells_what_what_to_do_and_what_it_means() -> None:
    error = Error(
        kind="out_of_memory", headline="out of memory", hint="choose --batch-size 1", phase="capture",
        free_bytes=3 * MIB, needed_bytes=64 * MIB,
    )  # fmt: skip
    lines = text(render_error(ErrorView(error=error), 100, 6))
    assert "out of memory (capture)" in lines
    assert "choose --batch-size 1" in lines
    assert "R starts a new one" in lines
    assert "needed 64.0 MiB, free 3.0 MiB" in lines
    assert "R starts" not in text(render_error(ErrorView(error=error, recorded=True), 100, 6))


def test_tokens_are_text_where_there_is_one_and_the_newest_ids_else() -> None:
    assert text(render_tokens(TokensView(ids=(1, 2, 3), text="a line\nand one more"), 40, 2)) == "a line\nand one more"
    assert text(render_tokens(TokensView(ids=tuple(range(100))), 11, 2)) == "92 93 94 95\n96 97 98 99"
    assert text(render_tokens(TokensView(), 40, 2)) == "nothing decoded yet"
    assert text(render_tokens(TokensView(decoded=True), 40, 2)) == "no token ids were recorded"
    assert text(render_tokens(TokensView(decoded=True), 14, 2)) == "no token ids\nwere recorded"
    assert "\x1b" not in text(render_tokens(TokensView(text="\x1b[31mred"), 40, 2))


def test_a_reading_that_is_missing_is_na_with_the_reason_if_all_are() -> None:
    assert "n/a" in text(render_telemetry(TelemetryView(telemetry=Telemetry(gpu_percent=97)), 30, 9))
    nothing = Telemetry(reasons={"nvml": "libnvidia-ml is missing"})
    assert "libnvidia-ml is missing" in text(render_telemetry(TelemetryView(telemetry=nothing), 30, 12))


def test_after_the_end_the_last_sample_has_its_age_and_is_dimmed() -> None:
    state = folded([Telemetry(t=4.0, gpu_percent=97), phase_end(6.0, "release")])
    assert "sampled" not in text(render_telemetry(TelemetryView.of(state), 40, 12))
    ended = TelemetryView.of(fold(state, End(t=7.0, reason="done")))
    lines = render_telemetry(ended, 60, 12)
    assert lines[0].plain == "sampled 3.00 s before the end, before all was released"
    assert all("bold" not in str(span.style) for line in lines for span in line.spans)
    killed = folded([Telemetry(t=4.0, gpu_percent=97), End(t=7.0, reason="killed")])
    assert render_telemetry(TelemetryView.of(killed), 60, 12)[0].plain == "sampled 3.00 s before the end"


# ------------------------------------------------------------------------------------------ title and banner


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_live_and_recorded_are_told_apart_at_every_width(width: int) -> None:
    live = text(render_title(TitleView(hello=hello()), width))
    recorded = text(render_title(TitleView(hello=hello(), recorded=True), width))
    assert "● LIVE" in live
    assert "▶ RECORDED" in recorded
    assert "LIVE" not in recorded
    assert "NVIDIA Sample GPU" in live
    assert len(live) <= width


def test_the_banner_tells_whose_gpu_when_which_model_and_how_to_go_live() -> None:
    view = TitleView(hello=hello(), recorded=True, playback=Playback(position=7, duration=200, playing=True))
    banner = text(render_banner(view, 150))
    for wanted in (
        "NVIDIA Sample GPU",
        "2026-11-30",
        "qwen3-4b bf16, random weights",
        "cgtop --device cpu",
        "0:07/3:20",
    ):
        assert wanted in banner
    assert "NVIDIA Sample GPU" in text(render_banner(view, 40))


@pytest.mark.parametrize("width", range(1, 161, 8))
def test_the_banner_says_that_it_is_not_live_and_nothing_of_this_machine(width: int) -> None:
    for known in (hello(), None):
        banner = text(render_banner(TitleView(hello=known, recorded=True), width))
        assert "machine" not in banner
        assert "here" not in banner
        if width >= 64:
            assert "not live" in banner


def test_escape_codes_in_a_model_name_never_reach_the_title() -> None:
    model = hello().model
    assert model is not None
    hostile = msgspec.structs.replace(hello(), model=msgspec.structs.replace(model, name="evil\x1b]0;x\x07"))
    assert "\x1b" not in text(render_title(TitleView(hello=hostile), 200))


def test_a_worker_that_is_gone_is_not_called_live() -> None:
    title = text(render_title(TitleView(hello=hello(), alive=False), 80))
    assert "ENDED" in title
    assert "LIVE" not in title
    ended = fold(FULL, End(t=99.0, reason="killed by signal 9"))
    assert (
        status_text(ended, recorded=False)
        == "the worker has ended: R starts a new one, o with other settings (killed by signal 9)"
    )


def test_the_smallest_line_says_live_or_recorded_and_the_speed() -> None:
    assert text(render_essentials(FULL, False, 60)) == "LIVE graph 125.0 tok/s 0 alloc"
    assert text(render_essentials(FULL, True, 10)) == "REC graph "
    assert text(render_essentials(RunState(), False, 60)).startswith("LIVE context")


def test_the_status_names_what_runs_and_what_n_does_next() -> None:
    captured = until("capture")
    measuring = fold(captured, Status(state="running", next_phase="replay"))
    assert status_text(measuring, recorded=False) == "measuring"  # what n would run is refused meanwhile
    verifying = fold(captured, Status(state="running", phase="capture", next_phase="replay"))
    assert status_text(verifying, recorded=False).startswith("verifying the graph")
    assert status_text(until("load"), recorded=False).endswith("next: Prefill (eager, DynamicCache) (n)")
    idle = fold(until("load"), Status(state="idle"))
    assert status_text(idle, recorded=True) == "the run was idle here"


# ------------------------------------------------------------------------------------------------- any size


@given(st.integers(1, 300), st.integers(1, 60), st.sampled_from([RunState(), until("load"), FULL]))
def test_no_panel_raises_or_draws_outside_at_any_size(width: int, height: int, state: RunState) -> None:
    phases = PhasesView(phases=state.phases, t=state.t)
    drawn = [
        render_list(phases, width, height),
        render_table(phases, width, height),
        render_decode(decode_view(state), width, height),
        render_replay(
            ReplayView(graph=state.decode_by_mode.get("graph"), verification=state.verification), width, height
        ),
        render_explanation(explained("capture", state), width, height),
        render_telemetry(TelemetryView(telemetry=state.telemetry), width, height),
        render_tokens(TokensView(ids=state.tokens), width, height),
        render_title(TitleView(hello=state.hello), width),
        render_banner(TitleView(hello=state.hello, recorded=True), width),
        render_essentials(state, False, width),
        render_keys((Key("n", "next", "next"), Key("?", "help", "help"), Key("q", "quit", "leave")), width),
    ]
    assert all(len(lines) <= height for lines in drawn[:7])


@given(st.text(max_size=40), st.text(max_size=40), st.integers(0, 60))
def test_two_ends_of_a_line_never_exceed_it(left: str, right: str, width: int) -> None:
    assert spread(Content(left), Content(right), width).cell_length <= width


def test_wrapped_text_that_does_not_fit_ends_in_an_ellipsis() -> None:
    lines = wrapped([Content("one two three four five six")], 9, 2)
    assert [line.plain for line in lines] == ["one two", "three …"]


def test_a_line_that_is_cut_ends_with_a_whole_word_or_the_start_of_one_that_is_too_wide() -> None:
    assert wrapped([Content("more of the driver: +146.0 MiB of it")], 26, 1)[0].plain == "more of the driver: …"
    assert wrapped([Content("recordings/h200-qwen3 and more")], 10, 1)[0].plain == "recordin …"
    for width in range(1, 12):
        assert all(line.cell_length <= max(2, width) for line in wrapped([Content("one two three")], width, 1))


def test_keys_that_do_not_fit_give_way_but_help_and_quit_stay() -> None:
    keys = (*(Key(key, "label", "x") for key in "abcdef"), Key("?", "help", "h"), Key("q", "quit", "l"))
    line = render_keys(keys, 30)[0].plain
    assert "? help" in line
    assert "q quit" in line
    assert "f label" not in line


def test_decode_without_any_speed_says_how_to_start() -> None:
    assert "e decodes eagerly" in text(render_decode(DecodeView(can_graph=False), 60, 4))
    recorded = text(render_decode(DecodeView(recorded=True), 60, 4))
    assert recorded == "not decoding yet"
    assert Decode(mode="eager", tokens=0, position=1, capacity=2).tok_s is None


def test_the_title_names_the_device_before_the_worker_has_said_anything() -> None:
    expected = DeviceInfo(kind="cuda", name="NVIDIA Sample GPU", capability="9.0")
    title = text(render_title(TitleView(expected=expected), 100))
    assert "NVIDIA Sample GPU · sm_90 · starting the worker" in title
    assert "starting the worker" in text(render_title(TitleView(), 100))


def test_a_speed_that_no_gpu_has_breaks_no_gauge() -> None:
    absurd = decode(1.0, "graph", 100, 1e308, 132)
    state = fold(fold(RunState(), decode(0.5, "eager", 10, 1e-300, 42)), absurd)
    for width in (1, 40, 120):
        view = decode_view(state)
        assert gauge(view, width) is not None
        assert render_decode(view, width, 8)
