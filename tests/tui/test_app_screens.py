"""The screens of the app and how they are drawn: only what changed, in any theme."""

import asyncio
import time
from typing import Any

import msgspec
import pytest
from textual.command import CommandList

from cgtop.core.commands import RunPhase
from cgtop.core.events import Error, Log, PhaseBegin, Progress, Status
from cgtop.core.settings import SettingsError
from cgtop.core.state import fold
from cgtop.tui.app import CgtopApp
from cgtop.tui.keys import ALL_BINDINGS, TAB_BINDINGS
from cgtop.tui.screens.modal import LogScreen, TextScreen
from cgtop.tui.screens.palette import Palette
from cgtop.tui.themes import THEMES, theme_named
from cgtop.tui.widgets.lines import LinesWidget
from cgtop.tui.widgets.memory_bar import MemoryBar
from tests.sample import hello
from tests.tui.driving import app_of, at_rest, notice, on_main, running, screen_text, shows
from tests.tui.fakes import FakeClock, FakeLive, FakeRecorded, folded, until

DECODING = until("replay", decoding=True)
LOADED = until("load")
FAILED = fold(LOADED, Error(t=9.0, kind="device_lost", headline="the GPU is gone", hint="R", detail="Traceback"))


# ------------------------------------------------------------------------------------------------- the screens


async def test_the_help_is_made_from_the_bindings() -> None:
    async with running(FakeLive(DECODING), (120, 66)) as pilot:
        for key in ("question_mark", "h", "f1"):
            await pilot.press(key)
            assert isinstance(pilot.app.screen, TextScreen)
            shown = screen_text(pilot)
            for binding in (*ALL_BINDINGS, *TAB_BINDINGS):
                assert binding.tooltip in shown
            await pilot.press(key)
            assert on_main(pilot)


async def test_every_binding_has_an_id_a_tooltip_and_an_action_that_exists() -> None:
    app = CgtopApp(FakeLive())
    ids = [binding.id for binding in ALL_BINDINGS]
    assert len(set(ids)) == len(ids)
    for binding in ALL_BINDINGS:
        assert binding.id is not None
        assert binding.tooltip
        assert hasattr(app, f"action_{binding.action.split('(')[0]}")


async def test_a_remapped_key_acts_and_stands_in_the_line_of_keys() -> None:
    source = FakeLive(LOADED)
    app = CgtopApp(source)
    app.set_keymap({"cgtop.next": "t"})
    async with app.run_test(size=(120, 36)) as pilot:
        await pilot.press("t")
        assert source.sent == [RunPhase(phase="prefill")]
        assert " t next" in screen_text(pilot)


async def test_a_click_on_the_line_of_keys_is_that_key() -> None:
    source = FakeLive(LOADED)
    async with running(source) as pilot:
        await pilot.click("#keys", offset=(2, 0))
        await pilot.pause()
        assert source.sent == [RunPhase(phase="prefill")]


async def test_an_error_takes_the_explanations_place_until_closed_and_its_details_are_one_key_away() -> None:
    async with running(FakeLive(FAILED)) as pilot:
        assert "the GPU is gone" in screen_text(pilot)
        assert "What happens here" not in screen_text(pilot)
        assert "+7,726.0" in screen_text(pilot), "the last good numbers stay"
        await pilot.press("x")
        assert "Traceback" in screen_text(pilot)
        await pilot.press("escape", "escape")
        await pilot.pause()
        assert "What happens here" in screen_text(pilot)


async def test_an_error_behind_which_the_run_has_gone_on_hides_no_status_in_the_other_views() -> None:
    source = FakeLive(fold(DECODING, Error(t=9.0, kind="stale_graph", headline="Stale graph", recoverable=True)))
    source.state = fold(source.state, Status(t=9.1, state="failed", next_phase="release"))
    async with running(source) as pilot:
        await pilot.press("4")
        assert await shows(pilot, "✗ Stale graph")
        source.state = fold(source.state, Status(t=9.2, state="decoding", mode="eager", next_phase="release"))
        app_of(pilot).tick()
        assert await shows(pilot, "decoding · eager")


async def test_the_next_phase_follows_the_run_again() -> None:
    async with running(FakeLive(LOADED)) as pilot:
        await pilot.press("up", "up")
        assert "CUDA context." in screen_text(pilot)
        await pilot.press("n")
        assert await shows(pilot, "Model load.")


async def test_the_log_grows_while_it_is_open() -> None:
    source = FakeLive(fold(DECODING, Log(t=1.0, source="stderr", text="first words")))
    async with running(source) as pilot:
        await pilot.press("l")
        assert isinstance(pilot.app.screen, LogScreen)
        assert "first words" in screen_text(pilot)
        source.state = fold(source.state, Log(t=2.0, source="stdout", text="more \x1b[31mwords"))
        app_of(pilot).tick()
        await pilot.pause()
        assert "more words" in screen_text(pilot)


async def test_a_phase_can_be_chosen_and_opened_into_what_its_differences_are_made_of() -> None:
    async with running(FakeLive(DECODING)) as pilot:
        await pilot.press("up")
        assert "Graph capture." in screen_text(pilot)
        await pilot.press("enter")
        assert "capture driver (inferred)" in screen_text(pilot)
        await pilot.press("enter", "escape")
        await pilot.pause()
        assert "Graph replay." in screen_text(pilot)


async def test_enter_says_what_it_did_where_it_opens_no_text() -> None:
    async with running(FakeLive(DECODING)) as pilot:
        for view, turns in (
            ("3", ("segments by address", "segments by size, the largest first")),
            ("4", ("every layer by itself", "the layers of a kind in one row")),
        ):
            await pilot.press(view)
            for said in turns:
                await pilot.press("enter")
                assert notice(pilot) == said


async def test_a_click_on_a_phase_chooses_it() -> None:
    async with running(FakeLive(DECODING)) as pilot:
        await pilot.click("#phases", offset=(5, 2))
        await pilot.pause()
        assert app_of(pilot).main.phases.selected == "load"
        assert "Model load." in screen_text(pilot)


async def test_the_palette_has_every_action_and_does_it() -> None:
    source = FakeLive(LOADED)
    async with running(source) as pilot:
        commands = {command.title: command for command in pilot.app.get_system_commands(pilot.app.screen)}
        assert {binding.description.capitalize() for binding in ALL_BINDINGS if binding.action != "leave"} <= set(
            commands
        )
        await commands["Next"].callback()
        assert source.sent == [RunPhase(phase="prefill")]
        await pilot.press("ctrl+p", "escape")
        await pilot.pause()
        assert on_main(pilot)


async def test_the_clock_of_a_live_phase_goes_on_while_nothing_is_heard() -> None:
    clock = FakeClock()
    source = FakeLive(folded([hello(), PhaseBegin(t=1.0, phase="load")]))
    async with CgtopApp(source, clock=clock).run_test(size=(120, 36)) as pilot:
        await pilot.pause()
        assert "▶ load running 0 s" in " ".join(screen_text(pilot).split())
        clock.now += 7.2
        app_of(pilot).tick()
        await pilot.pause()
        assert "▶ load running 7 s" in " ".join(screen_text(pilot).split())


async def test_t_goes_through_the_themes_and_each_can_be_named() -> None:
    async with running(FakeLive(DECODING)) as pilot:
        seen = {pilot.app.theme}
        for _ in THEMES:
            await pilot.press("T")
            seen.add(pilot.app.theme)
            assert notice(pilot) == f"theme {pilot.app.theme}"
        assert seen == {theme_named(name) for name in THEMES}
        assert seen <= set(pilot.app.available_themes)
    with pytest.raises(SettingsError, match="dark, light, ansi, ansi-light"):
        theme_named("blue")


async def test_what_goes_on_between_two_phases_is_said() -> None:
    verifying = fold(until("capture"), Status(t=30.0, state="running", phase="capture"))
    unverified = msgspec.structs.replace(verifying, verification=None)
    async with running(FakeLive(unverified)) as pilot:
        assert "verifying the graph: replays against eager steps" in screen_text(pilot)


async def test_a_phase_that_tells_how_far_it_is_has_a_bar() -> None:
    loading = folded(
        [hello(), PhaseBegin(t=1.0, phase="load"), Progress(t=2.0, phase="load", done=1, total=2, what="weights")]
    )
    async with running(FakeLive(loading)) as pilot:
        row = next(line for line in screen_text(pilot).splitlines() if "running 50 %" in line)
        assert row.count("━") == 12
        assert "weights" in row


async def test_the_refresh_rate_has_ends_and_says_where_it_is() -> None:
    async with running(FakeLive(DECODING)) as pilot:
        await pilot.press("plus")
        assert notice(pilot) == "refresh 10 Hz, the limit"
        await pilot.press("minus", "minus", "minus", "minus")
        assert app_of(pilot).refresh_hz == 1.0


# ------------------------------------------------------------------------------------------------- drawing


def draws(app: CgtopApp) -> dict[str, int]:
    return {widget.id or "": widget.draws for widget in app.main.query(LinesWidget)}


async def test_an_unchanged_state_draws_nothing() -> None:
    async with running(FakeLive(DECODING)) as pilot:
        await at_rest(pilot)
        before = draws(app_of(pilot))
        painted = pilot.app.screen._compositor.render_update
        calls: list[object] = []

        def counted(*args: Any, **kwargs: Any) -> Any:
            calls.append(args)
            return painted(*args, **kwargs)

        pilot.app.screen._compositor.render_update = counted  # type: ignore[method-assign]
        await pilot.pause(0.6)
        assert draws(app_of(pilot)) == before
        assert calls == []


async def test_a_change_draws_only_the_panels_that_show_it() -> None:
    source = FakeLive(DECODING)
    async with running(source) as pilot:
        await at_rest(pilot)
        before = draws(app_of(pilot))
        source.state = msgspec.structs.replace(DECODING, t=DECODING.t + 1, tokens=(*DECODING.tokens, 7))
        app_of(pilot).tick()
        await pilot.pause()
        after = draws(app_of(pilot))
        assert {name for name in after if after[name] != before[name]} == {"tokens"}


async def test_no_color_fills_the_bar_with_letters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with running(FakeLive(DECODING)) as pilot:
        bar = app_of(pilot).main.query_one(MemoryBar)
        assert bar.view.letters
        assert "WWWW" in screen_text(pilot)


async def test_the_screen_draws_in_dark_light_and_ansi_themes() -> None:
    app = CgtopApp(FakeRecorded(12.0), theme="textual-light")
    async with app.run_test(size=(120, 36)) as pilot:
        for theme in ("textual-light", "textual-dark", "ansi-dark", "ansi-light", "nord"):
            app.theme = theme
            await pilot.pause()
            assert "RECORDED" in screen_text(pilot)
            assert app.main.query_one(MemoryBar).render()


@pytest.mark.timed
async def test_a_run_that_changes_all_the_time_is_painted_ten_times_a_second_at_most() -> None:
    source = FakeRecorded(12.0)
    async with running(source) as pilot:
        await at_rest(pilot)
        painted = pilot.app.screen._compositor.render_update
        calls: list[float] = []

        def counted(*args: Any, **kwargs: Any) -> Any:
            calls.append(time.monotonic())
            return painted(*args, **kwargs)

        pilot.app.screen._compositor.render_update = counted  # type: ignore[method-assign]

        async def in_time() -> bool:
            calls.clear()
            begun = time.monotonic()
            while (elapsed := time.monotonic() - begun) < 1.5 or len(calls) < 5:
                source.clock.now += 0.01
                await asyncio.sleep(0.01)
            return len(calls) <= 10 * elapsed + 1

        # A poll that comes late on a busy machine is near the next one: twice in a row is none.
        assert await in_time() or (await in_time() and await in_time())


@pytest.mark.parametrize("key", ["pagedown", "pageup", "down", "enter", "end"])
async def test_a_key_before_the_palettes_list_is_there_breaks_nothing(key: str) -> None:
    async with running(FakeLive(DECODING)) as pilot:
        pilot.app.action_command_palette()
        await pilot.press(key, "pagedown", "pageup")
        await pilot.press("escape", "escape")
        assert pilot.app.is_running


async def test_a_palette_closed_while_it_begins_to_search_takes_nothing_down() -> None:
    async with running(FakeLive(DECODING)) as pilot:
        pilot.app.action_command_palette()
        await pilot.pause()
        palette = pilot.app.screen
        assert isinstance(palette, Palette)
        await palette.query_one(CommandList).remove()  # as when the keys that type and that close come at once
        palette._gather_commands("t")
        await pilot.pause()
        await pilot.press("escape")
        assert on_main(pilot)


async def test_what_closes_a_palette_that_is_closed_already_closes_nothing_else() -> None:
    async with running(FakeLive(DECODING)) as pilot:
        pilot.app.action_command_palette()
        await pilot.pause()
        palette = pilot.app.screen
        assert isinstance(palette, Palette)
        palette._action_escape()
        palette._action_escape()  # as when a key and a click beside it come at once
        await pilot.pause()
        assert on_main(pilot)
