"""The guide's statements on the screen, judged by the run that is shown as far as it has come."""

import msgspec
import pytest
from textual.content import Content

from cgtop.core.claims import STATEMENTS, claims_of
from cgtop.core.events import Claim, DeviceInfo
from cgtop.core.playback import Player
from cgtop.core.recording import open_recording
from cgtop.core.sources import RecordedSource, bundled_recording
from cgtop.core.state import RunState, fold
from cgtop.tui.claim_words import TITLES, WORDS
from cgtop.tui.widgets.guide_view import MARKS, GuideSlice, GuideView, claim_lines, render_guide
from tests.core.guide_run import main_run
from tests.sample import hello
from tests.tui.driving import app_of, running, shows

SIZES = [(20, 3), (40, 8), (40, 12), (60, 20), (80, 24), (120, 30), (200, 70)]


def text(lines: list[Content]) -> str:
    return "\n".join(line.plain for line in lines)


def drawn(view: GuideSlice, width: int = 160, height: int = 80) -> str:
    return text(render_guide(view, width, height))


def test_every_statement_stands_in_its_group_with_its_verdict() -> None:
    view = GuideSlice.of(main_run())
    lines = drawn(view).splitlines()
    assert len(view.claims) == len(STATEMENTS) == 49
    assert [line for line in lines if line in TITLES.values()] == list(TITLES.values())
    for claim in view.claims:
        mark, _ = MARKS[claim.verdict]
        assert any(line.startswith(f"{mark}  {claim.statement[:30]}") for line in lines), claim.statement


def test_the_verdicts_are_those_of_the_claims_command_and_are_counted() -> None:
    claims = claims_of((main_run(),))
    verdicts = [claim.verdict for claim in claims]
    view = GuideSlice.of(main_run())
    assert [claim.verdict for claim in view.claims] == verdicts
    counts = drawn(view).splitlines()[0]
    assert f"{verdicts.count('holds')} hold, {verdicts.count('does_not_hold')} do not" in counts
    assert f"{verdicts.count('not_measured')} not measured" in counts


def test_before_anything_is_measured_nothing_holds() -> None:
    for state in (RunState(), fold(RunState(), hello())):
        assert {claim.verdict for claim in GuideSlice.of(state).claims} == {"not_measured"}


def test_before_the_device_is_known_none_is_missed() -> None:
    """The worker starts for some seconds, perhaps on a GPU."""
    assert {claim.finding for claim in GuideSlice.of(RunState()).claims} == {"Not measured: the run has not begun."}


def test_a_run_on_the_cpu_says_what_it_takes() -> None:
    on_cpu = msgspec.structs.replace(hello(), device=DeviceInfo(kind="cpu", name="a CPU"))
    view = GuideSlice.of(fold(RunState(), on_cpu))
    assert all(claim.verdict == "not_measured" for claim in view.claims)
    assert "it takes a run" in view.claims[0].finding


def test_time_alone_draws_nothing_anew() -> None:
    state = main_run()
    assert GuideSlice.of(state) == GuideSlice.of(msgspec.structs.replace(state, t=state.t + 1))


@pytest.mark.parametrize(("width", "height"), SIZES)
def test_it_fits_any_size_with_the_selected_statement_in_sight(width: int, height: int) -> None:
    widget = GuideView(GuideSlice.of(main_run()))
    for step in (0, 25, 100):
        widget.move(step)
        lines = render_guide(widget.view, width, height)
        assert 0 < len(lines) <= height
        assert all(line.cell_length <= width for line in lines)
        chosen = widget.view.selected
        assert chosen is not None
        if height >= 8:
            assert any(chosen.statement[:15] in line.plain for line in lines[1:])
    assert widget.view.cursor == 48
    widget.show(GuideSlice.of(RunState()))
    assert widget.view.cursor == 48
    widget.reset()
    assert widget.view.cursor == 0


def test_the_selected_statement_is_told_in_full() -> None:
    claim = Claim(id="phases.x", statement="It adds 8 MB.", verdict="other_reason", finding="It is a workspace. " * 9)
    assert claim.finding.strip() in drawn(GuideSlice(claims=(claim,)), 240, 20)
    told = text(claim_lines(claim))
    assert "It adds 8 MB." in told and WORDS["other_reason"] in told and claim.finding.strip() in told


def test_a_statement_from_a_hostile_recording_brings_no_escape_codes() -> None:
    claim = Claim(id="x\x1b[31m.y", statement="\x1b]0;x\x07says", verdict="holds", finding="\u202e\x1b[2J")
    for shown in (drawn(GuideSlice(claims=(claim,))), text(claim_lines(claim))):
        assert not any(bad in shown for bad in ("\x1b", "\x07", "\u202e"))


async def test_verdicts_come_while_a_recording_plays_and_enter_opens_one() -> None:
    path = bundled_recording()
    assert path is not None
    recording = open_recording(path)
    source = RecordedSource(Player(recording, clock=lambda: 0.0, playing=False))
    async with running(source) as pilot:
        await pilot.press("9")
        at_first = sum(claim.verdict == "holds" for claim in claims_of((app_of(pilot).state,)))
        assert at_first < 5 and await shows(pilot, f"{at_first} hold, ")
        source.player.seek(recording.times[-1])
        app_of(pilot).tick()
        held = sum(claim.verdict == "holds" for claim in claims_of((app_of(pilot).state,)))
        assert held > 15 and await shows(pilot, f"{held} hold, ", "RECORDED")
        await pilot.press("down", "enter")
        assert await shows(pilot, "The guide says: Eager decoding gives about 25 tok/s.")
