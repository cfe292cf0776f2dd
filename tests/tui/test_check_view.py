"""The view of the checks: drawn without an app, then on keys."""

from pathlib import Path

import msgspec
import pytest
from textual.content import Content

from cgtop.core.checklist import CHECK_NAMES
from cgtop.core.commands import Cancel, RunCheck
from cgtop.core.events import Check, End, PhaseBegin, Status, SweepBegin
from cgtop.core.playback import Player
from cgtop.core.recording import open_recording
from cgtop.core.sources import RecordedSource, bundled_recording
from cgtop.core.state import RunState, fold
from cgtop.tui.widgets.check_view import CheckSlice, CheckView, check_lines, render_checks
from cgtop.tui.widgets.compare_view import CompareSlice
from tests.make_screenshots import recorded_experiment
from tests.sample import hello
from tests.tui.driving import notice, running, shows
from tests.tui.experiments import checks
from tests.tui.fakes import FakeLive

SIZES = [(20, 3), (40, 8), (40, 12), (60, 20), (80, 24), (120, 30), (200, 50)]


def text(lines: list[Content]) -> str:
    return "\n".join(line.plain for line in lines)


def drawn(view: CheckSlice, width: int = 120, height: int = 34) -> str:
    return text(render_checks(view, width, height))


def state_of(*events: Check | Status | End | SweepBegin | PhaseBegin) -> RunState:
    state = fold(RunState(), hello())
    for event in events:
        state = fold(state, event)
    return state


def test_a_machine_that_passed_says_so_and_shows_every_check() -> None:
    lines = drawn(CheckSlice(checks=tuple(checks())))
    assert "✓ PASSED: 19 PASS" in lines
    assert all(name in lines for name in CHECK_NAMES)
    assert lines.count("✓ PASS ") == 19 and "a figure" in lines and "another" in lines


def test_what_failed_is_marked_counted_and_explained_before_what_is_only_unknown() -> None:
    view = CheckSlice(checks=tuple(checks(ECC="n/a", PCIe_link="WARN", weights="FAIL")))
    lines = drawn(view)
    assert "✗ NOT PASSED: 16 PASS, 1 WARN, 1 FAIL, 1 n/a (never a pass)" in lines
    below = lines[lines.rindex("throttle") :]
    assert below.index("FAIL weights: a reason") < below.index("WARN PCIe link") < below.index("n/a ECC")


def test_no_check_that_is_missing_lets_a_machine_pass() -> None:
    some = tuple(check for check in checks() if check.name != "graph = eager")
    lines = drawn(CheckSlice(checks=some))
    assert "✓ PASSED" not in lines and "18 of 19" in lines


def test_while_it_runs_what_is_still_to_come_is_named() -> None:
    state = state_of(Status(state="running"), *checks()[:7])
    view = CheckSlice.of(state)
    assert view.running and "▶ checking, 7 of 19 so far" in drawn(view)
    assert "waiting  graph = eager" in drawn(view)
    over = CheckSlice.of(fold(state, End(reason="worker_died", exit_code=1)))
    assert "■ interrupted, 7 of 19" in drawn(over) and "waiting" not in drawn(over)


def test_a_phase_that_the_checks_run_is_no_end_of_them() -> None:
    state = state_of(Status(state="running"), *checks()[:5], Status(state="running", phase="load"))
    for seen in (state, fold(state, PhaseBegin(phase="load"))):
        lines = drawn(CheckSlice.of(seen))
        assert "▶ checking, 5 of 19 so far" in lines and "waiting  warmup explained" in lines
    first = state_of(Status(state="running", phase="load"), PhaseBegin(phase="load"))
    assert "▶" not in drawn(CheckSlice.of(first))


def test_a_run_that_is_over_without_a_check_that_is_not_essential_passes_as_in_the_report() -> None:
    some = tuple(check for check in checks() if check.name != "throttle")
    assert "✓ PASSED: 18 PASS" in drawn(CheckSlice(checks=some, over=True))
    assert "18 of 19 up to here" in drawn(CheckSlice(checks=some))


def test_checks_that_are_made_again_are_not_taken_for_those_before() -> None:
    before = list(checks())
    assert "▶ checking again" in drawn(CheckSlice.of(state_of(*before, Status(state="running"))))
    assert "✓ PASSED" in drawn(CheckSlice.of(state_of(*before, Status(state="idle"))))


def test_what_the_engine_says_it_carries_out_decides_which_view_measures() -> None:
    for command, checking in (("run_check", True), ("run_bench", False), ("try_dynamic_capture", False)):
        before = state_of(*checks(), Status(state="running", experiment=command))
        assert ("▶ checking again" in drawn(CheckSlice.of(before))) == checking
        assert CompareSlice.of(before).running == (command == "run_bench")


def test_a_recorded_comparison_is_not_told_as_checks() -> None:
    running = state_of(Status(state="running"))
    assert "not checked yet" in drawn(CheckSlice.of(running, recorded=True))
    assert "▶ measuring" in drawn(CheckSlice.of(running, recorded=True, coming=True))


def test_another_measurement_is_not_told_as_checks() -> None:
    state = state_of(Status(state="running"), SweepBegin(sweep="cache_lens", values=(256,)))
    assert not CheckSlice.of(state).running


def test_a_machine_on_which_nothing_could_be_checked_says_why_once() -> None:
    none = tuple(Check(name=name, status="n/a", why="no GPU here") for name in CHECK_NAMES)
    lines = drawn(CheckSlice(checks=none))
    assert "NOT PASSED: nothing was checked: no GPU here" in lines and "PASSED: 0" not in lines
    assert "n/a kernel launch, architecture" not in lines and lines.count("no GPU here") == 1


def test_checks_come_in_the_order_of_the_list_however_they_were_made() -> None:
    view = CheckSlice.of(state_of(*reversed(checks())))
    assert tuple(check.name for check in view.checks) == CHECK_NAMES


@pytest.mark.parametrize(("width", "height"), SIZES)
@pytest.mark.parametrize("made", [0, 3, 19])
def test_it_fits_any_size(width: int, height: int, made: int) -> None:
    long = [msgspec.structs.replace(check, measured="m" * 90, why="why " * 40) for check in checks(ECC="WARN")]
    for running_now in (True, False):
        lines = render_checks(CheckSlice(checks=tuple(long[:made]), running=running_now), width, height)
        assert 0 < len(lines) <= height
        if width >= 56:  # below, names are cut by the widget
            assert all(line.cell_length <= width for line in lines[1:])


def test_the_selected_check_stays_in_sight_and_is_told_in_full() -> None:
    widget = CheckView(CheckSlice(checks=tuple(checks())))
    widget.move(100)
    assert widget.view.selected is not None and widget.view.selected.name == CHECK_NAMES[-1]
    assert CHECK_NAMES[-1] in drawn(widget.view, 60, 8)
    widget.show(CheckSlice(checks=tuple(checks(ECC="WARN"))))
    assert widget.view.cursor == 18
    widget.move(-100)
    assert widget.view.cursor == 0 and CHECK_NAMES[0] in drawn(widget.view, 60, 8)
    assert "kernel launch: a figure; expected another; a reason." in drawn(widget.view)
    told = text(check_lines(checks()[0]))
    assert told.splitlines() == ["✓ PASS", "measured: a figure", "expected: another", "why: a reason"]


def test_escape_codes_of_a_recording_do_not_reach_the_screen() -> None:
    hostile = Check(name="weights\x1b[31m", status="FAIL", measured="\x1b]0;x\x07", expected="\u202e", why="\x1b[2J")
    assert not any(bad in drawn(CheckSlice(checks=(hostile,))) for bad in ("\x1b", "\x07", "\u202e"))
    assert "\x1b" not in text(check_lines(hostile))


async def test_m_checks_the_machine_from_any_state_and_enter_opens_a_verdict() -> None:
    source = FakeLive(state_of(Status(state="idle")))
    async with running(source) as pilot:
        await pilot.press("8")
        assert await shows(pilot, "Press m to check this machine")
        await pilot.press("enter")
        assert notice(pilot) == "nothing to open here"
        await pilot.press("m")
        assert source.sent == [RunCheck()]
        source.state = state_of(Status(state="running"), *checks(weights="FAIL")[:5])
        pilot.app.tick()  # type: ignore[attr-defined]
        await pilot.press("m")
        assert source.sent == [RunCheck(), Cancel()]
        await pilot.press("down", "down", "down", "enter")
        assert await shows(pilot, "expected: another")


async def test_the_recorded_checks_are_shown_as_recorded() -> None:
    path = bundled_recording()
    assert path is not None
    recording = open_recording(recorded_experiment(Path(path), "check"))
    source = RecordedSource(Player(recording, clock=lambda: 0.0, playing=False))
    source.player.seek(recording.times[-1])
    async with running(source) as pilot:
        await pilot.press("8")
        assert await shows(pilot, "✓ PASSED: 19 PASS", "RECORDED", "8,044,936,704 B")
        await pilot.press("m")
        assert "recorded" in notice(pilot)
