"""Keys that steer a recording, and the bar that tells its place."""

import pytest
from textual.content import Content

from cgtop.core.events import Check, Comparison, Event, PhaseEnd, Status, SweepRow
from cgtop.core.playback import Player
from cgtop.core.recording import Recording
from cgtop.core.sources import RecordedSource, Source
from cgtop.tui.keys import PLAY_BINDINGS
from cgtop.tui.views import ViewId
from cgtop.tui.widgets.seek_bar import SeekView, render_seek
from tests.sample import hello
from tests.tui.driving import app_of, notice, running, screen_text, shown_view
from tests.tui.fakes import FakeClock, FakeLive, FakeRecorded, until

DECODING = until("replay", decoding=True)


async def test_a_recording_is_stepped_by_event_and_pauses_for_it() -> None:
    source = FakeRecorded(12.0, playing=True)
    async with running(source) as pilot:
        before = source.player.index
        await pilot.press("full_stop")
        assert source.player.index == before + 1
        assert not source.player.playing
        assert notice(pilot).startswith(f"event {before + 1:,} of ")
        await pilot.press("comma", "comma")
        assert source.player.index == before - 1


async def test_a_recording_is_stepped_by_phase_both_ways() -> None:
    source = FakeRecorded(0.0, playing=False)
    async with running(source) as pilot:
        await pilot.press("n", "n", "n")
        third, all_of_them = source.player.stops[2], len(source.player.stops)
        assert app_of(pilot).state.phase("prefill").status == "done"
        assert notice(pilot) == f"stop 3 of {all_of_them}, {third.what}"
        await pilot.press("N")
        assert source.player.position == source.player.stops[1].t
        assert notice(pilot).startswith("stop 2 of ")


@pytest.mark.parametrize(
    ("events", "view"),
    [
        ([PhaseEnd(t=1.0, phase="load")], "phases"),
        ([SweepRow(t=1.0, sweep="batches", value=1)], "batches"),
        ([SweepRow(t=1.0, sweep="cache_lens", value=1)], "cache_lens"),
        ([Comparison(t=1.0, arms=(), rounds=1)], "compare"),
        ([Comparison(t=1.0, arms=(), rounds=1), Check(t=2.0, name="weights", status="PASS")], "checks"),
        ([PhaseEnd(t=1.0, phase="replay"), Check(t=2.0, name="weights", status="PASS")], "phases"),
    ],
)
async def test_a_recording_opens_in_the_view_of_what_it_measured(events: list[Event], view: ViewId) -> None:
    source = RecordedSource(Player(Recording([hello(), *events]), playing=False))
    async with running(source) as pilot:
        assert shown_view(pilot) == view
        await pilot.press("1")
        app_of(pilot).tick()
        assert shown_view(pilot) == "phases"


async def test_n_pauses_at_the_end_of_the_phase_while_someone_talks() -> None:
    source = FakeRecorded(0.0, playing=True)
    async with running(source) as pilot:
        await pilot.press("n")
        place = source.player.position
        source.clock.now += 60.0
        app_of(pilot).tick()
        assert (source.player.playing, source.player.position) == (False, place)


async def test_the_last_stop_is_named_as_such_and_what_plays_on() -> None:
    source = FakeRecorded(0.0, playing=False)
    async with running(source) as pilot:
        for _ in source.player.stops:
            await pilot.press("n")
        assert notice(pilot).startswith("last stop, Release: done; space plays ")
        await pilot.press("n")
        assert "at the end; space plays from the start" in notice(pilot)


async def test_what_was_said_of_a_place_goes_with_it() -> None:
    source = FakeRecorded(0.0, playing=False)
    async with running(source) as pilot:
        source.player.seek(source.player.duration)
        app_of(pilot).tick()
        await pilot.press("n")
        assert "at the end" in notice(pilot)
        await pilot.press("N")
        assert "at the end" not in notice(pilot)
        await pilot.press("full_stop", "comma", "left_square_bracket")
        assert notice(pilot) == ""
        await pilot.press("full_stop")
        assert notice(pilot).startswith("event ")
        await pilot.press("space")
        source.clock.now += 2.0
        app_of(pilot).tick()
        assert notice(pilot) == ""


async def test_a_recording_under_a_second_ends_with_its_dot_at_the_end() -> None:
    clock = FakeClock()
    events: list[Event] = [hello(), *(Status(t=0.2 * step, state="idle") for step in range(1, 4))]
    async with running(RecordedSource(Player(Recording(events), clock))) as pilot:
        clock.now += 0.35
        app_of(pilot).tick()
        bar = app_of(pilot).main.seek_bar
        assert 0.3 <= bar.view.place <= 0.35
        clock.now += 5.0
        app_of(pilot).tick()
        (line,) = render_seek(bar.view, 80)
        assert line.plain.startswith(" ‖ 0.60 s ")
        assert "─" not in line.plain


async def test_the_speed_doubles_and_halves_within_its_limits_and_shows() -> None:
    source = FakeRecorded(5.0)
    async with running(source) as pilot:
        await pilot.press("greater_than_sign", "greater_than_sign")
        assert source.player.speed == 4.0
        await pilot.pause()
        assert "×4" in screen_text(pilot)
        await pilot.press("less_than_sign")
        assert source.player.speed == 2.0
        for _ in range(10):
            await pilot.press("less_than_sign")
        assert source.player.speed == 0.125
        assert notice(pilot) == "×0.125, the limit"


async def test_a_click_on_the_seek_bar_goes_there() -> None:
    source = FakeRecorded(0.0, playing=False)
    async with running(source, (80, 24)) as pilot:
        await pilot.click("#seek", offset=(40, 0))
        await pilot.pause()
        assert source.player.position == pytest.approx(source.player.duration / 2, rel=0.1)


async def test_at_the_end_it_says_so_and_space_starts_over() -> None:
    source = FakeRecorded(0.0)
    async with running(source) as pilot:
        source.player.seek(source.player.duration)
        app_of(pilot).tick()
        for key, playing in (("n", False), ("space", True)):
            await pilot.press(key)
            assert source.player.playing is playing
        assert source.player.position < 1.0


@pytest.mark.parametrize("binding", PLAY_BINDINGS, ids=lambda binding: str(binding.key))
async def test_live_a_key_of_a_recording_says_why_it_cannot(binding: object) -> None:
    source: Source = FakeLive(DECODING)
    async with running(source) as pilot:
        await pilot.press(binding.key)  # type: ignore[attr-defined]
        assert "only a recording" in notice(pilot)


async def test_the_place_is_told_at_every_size() -> None:
    source = FakeRecorded(12.0, playing=False)
    async with running(source) as pilot:
        for size in ((40, 12), (60, 20), (80, 24), (100, 30), (120, 36), (200, 60)):
            await pilot.resize_terminal(*size)
            await pilot.pause()
            assert screen_text(pilot).count("0:12") == 1, size


async def test_a_playing_recording_draws_its_place_once_a_second() -> None:
    source = FakeRecorded(12.0)
    async with running(source) as pilot:
        bar = app_of(pilot).main.seek_bar
        before = bar.draws
        for _ in range(20):
            source.clock.now += 0.1
            app_of(pilot).tick()
        assert bar.draws - before <= 3


@pytest.mark.parametrize("width", range(1, 121, 7))
@pytest.mark.parametrize("place", [0.0, 61.0, 200.0])
def test_the_bar_is_never_wider_than_its_line(width: int, place: float) -> None:
    (line,) = render_seek(SeekView(place=place, duration=200.0, playing=True, stops=(0.0, 50.0, 199.0)), width)
    assert isinstance(line, Content)
    assert line.cell_length <= width
    if width >= 30:
        assert line.cell_length == width
        assert line.plain.count("●") == 1
