"""The app on a source: what keys do in which state, what is drawn, what is not."""

import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from textual.pilot import Pilot

from cgtop.core.commands import Command, Pause, Resume, RunAll, RunPhase, SetMode
from cgtop.core.events import End, Error, Log, PhaseBegin, PhaseEnd, Status
from cgtop.core.sources import Source
from cgtop.core.state import RunState, fold
from cgtop.tui.app import CgtopApp
from cgtop.tui.keys import APP_BINDINGS, RUN_BINDINGS
from cgtop.tui.screens.modal import AskScreen, LogScreen, TextScreen
from cgtop.tui.widgets.lines import LinesWidget
from cgtop.tui.widgets.memory_bar import MemoryBar
from cgtop.tui.widgets.notice import NoticeBar
from tests.sample import hello
from tests.tui.fakes import FakeClock, FakeLive, FakeRecorded, folded, until

DECODING = until("replay", decoding=True)
PAUSED = fold(DECODING, Status(t=99.0, state="paused", mode="graph", phase="replay", next_phase="release"))
LOADED = until("load")
COPIED = until("copy_kv")
CAPTURED = until("capture")
RELEASED = until("release")
FAILED = fold(LOADED, Error(t=9.0, kind="device_lost", headline="the GPU is gone", hint="R", detail="Traceback"))
RECOVERABLE = fold(LOADED, Error(t=9.0, kind="out_of_memory", headline="no room", detail="Traceback", recoverable=True))
ENDED = fold(LOADED, End(t=9.0, reason="killed"))
CPU_HELLO = msgspec.structs.replace(hello(), device=msgspec.structs.replace(hello().device, kind="cpu"))
ON_CPU = fold(
    msgspec.structs.replace(COPIED, hello=CPU_HELLO),
    PhaseEnd(t=20.0, phase="capture", status="unavailable", reason="needs CUDA"),
)


@asynccontextmanager
async def running(source: Source, size: tuple[int, int] = (120, 36)) -> AsyncIterator[Pilot[Any]]:
    async with CgtopApp(source).run_test(size=size) as pilot:
        await pilot.pause()
        yield pilot


def app_of(pilot: Pilot[Any]) -> CgtopApp:
    assert isinstance(pilot.app, CgtopApp)
    return pilot.app


def on_main(pilot: Pilot[Any]) -> bool:
    return pilot.app.screen is app_of(pilot).main


def notice(pilot: Pilot[Any]) -> str:
    return app_of(pilot).main.query_one(NoticeBar).view.notice


def screen_text(pilot: Pilot[Any]) -> str:
    strips = pilot.app.screen._compositor.render_strips()
    return "\n".join(strip.text.rstrip() for strip in strips)


# ----------------------------------------------------------------------------------------- keys on a live run

ACTS: list[tuple[RunState, str, Sequence[Command]]] = [
    (LOADED, "n", [RunPhase()]),
    (LOADED, "r", [RunAll()]),
    (DECODING, "n", [RunPhase()]),
    (COPIED, "e", [SetMode(mode="eager")]),
    (COPIED, "d", [SetMode(mode="dynamic")]),
    (CAPTURED, "g", [SetMode(mode="graph")]),
    (DECODING, "e", [SetMode(mode="eager")]),
    (DECODING, "g", [SetMode(mode="graph")]),
    (DECODING, "space", [Pause()]),
    (PAUSED, "space", [Resume()]),
    (RECOVERABLE, "n", [RunPhase()]),
    (ON_CPU, "e", [SetMode(mode="eager")]),
]


async def test_a_key_that_can_act_sends_its_command() -> None:
    source = FakeLive()
    async with running(source) as pilot:
        for state, key, sent in ACTS:
            source.state, source.sent = state, []
            app_of(pilot).tick()
            await pilot.press(key)
            assert source.sent == sent, key
            assert notice(pilot) == "", key


REFUSED: list[tuple[RunState, str, str]] = [
    (RunState(), "n", "still starting"),
    (folded([hello(), PhaseBegin(t=1.0, phase="load")]), "n", "Model load is still running"),
    (folded([hello(), PhaseBegin(t=1.0, phase="load")]), "e", "Model load is still running"),
    (DECODING, "r", "only release is left"),
    (RELEASED, "n", "released"),
    (RELEASED, "g", "released"),
    (LOADED, "e", "e: copy the prompt's kv first (n)"),
    (LOADED, "d", "d: prefill"),
    (COPIED, "g", "g: graph capture first (n)"),
    (ON_CPU, "g", "capture needs CUDA; this run is on the CPU"),
    (LOADED, "space", "nothing to pause"),
    (LOADED, "left_square_bracket", "only a recording"),
    (LOADED, "x", "no error so far"),
    (FAILED, "n", "R starts a new one"),
    (ENDED, "n", "the worker has ended"),
    (ENDED, "space", "the worker has ended"),
]


async def test_a_key_that_cannot_act_says_why_in_one_line() -> None:
    source = FakeLive()
    async with running(source) as pilot:
        for state, key, why in REFUSED:
            source.state = state
            app_of(pilot).tick()
            await pilot.press(key)
            assert source.sent == [], key
            assert why in notice(pilot)
            assert why in screen_text(pilot)


async def test_a_command_that_nobody_takes_is_said() -> None:
    source = FakeLive(LOADED)
    source.takes = False
    async with running(source) as pilot:
        await pilot.press("n")
        assert "nobody took it" in notice(pilot)


async def test_what_the_engine_refuses_is_said_with_its_reason() -> None:
    source = FakeLive(LOADED)
    async with running(source) as pilot:
        source.state = fold(LOADED, Status(t=9.0, state="idle", refused="set_mode", why="no graph was captured"))
        app_of(pilot).tick()
        assert notice(pilot) == "set_mode: no graph was captured"


async def test_restart_asks_first_and_starts_anew_on_yes_only() -> None:
    source = FakeLive(DECODING)
    async with running(source) as pilot:
        for answer, restarts in (("n", 0), ("escape", 0), ("y", 1)):
            await pilot.press("R")
            assert isinstance(pilot.app.screen, AskScreen)
            await pilot.press(answer)
            await pilot.pause()
            assert source.restarts == restarts
            assert on_main(pilot)


@pytest.mark.parametrize("key", ["q", "ctrl+c"])
@pytest.mark.parametrize("opened", [None, "question_mark", "R", "l"])
async def test_quit_leaves_from_any_screen_and_does_not_wait_for_the_source(key: str, opened: str | None) -> None:
    source = FakeLive(DECODING)
    async with running(source) as pilot:
        if opened is not None:
            await pilot.press(opened)
        await pilot.press(key)
        await pilot.pause()
        assert pilot.app._exit
        assert not source.closed


# ------------------------------------------------------------------------------------------------ recordings


async def test_in_a_recording_n_goes_to_the_next_phase_and_space_pauses() -> None:
    source = FakeRecorded(playing=True)
    async with running(source) as pilot:
        await pilot.press("n")
        assert source.player.position == pytest.approx(0.5)
        for playing in (False, True):
            await pilot.press("space")
            assert source.player.playing is playing
        await pilot.press("right_square_bracket")
        assert source.player.position == pytest.approx(5.5)
        await pilot.press("left_square_bracket", "left_square_bracket")
        assert source.player.position == 0.0


async def test_in_a_recording_r_plays_and_restart_goes_to_its_start_without_asking() -> None:
    source = FakeRecorded(8.0, playing=False)
    async with running(source) as pilot:
        await pilot.press("r")
        assert source.player.playing
        await pilot.press("R")
        assert source.player.position == 0.0
        assert on_main(pilot)


async def test_in_a_recording_the_modes_cannot_be_chosen() -> None:
    async with running(FakeRecorded(12.0)) as pilot:
        for key, mode in (("e", "eager"), ("d", "dynamic"), ("g", "graph")):
            await pilot.press(key)
            assert notice(pilot).startswith("recorded: ")
            assert mode in notice(pilot)


@pytest.mark.parametrize(
    ("source", "said", "never"), [(FakeRecorded(12.0), "REC", "● LIVE"), (FakeLive(DECODING), "LIVE", "REC")]
)
async def test_live_and_recorded_are_told_at_every_size(source: Source, said: str, never: str) -> None:
    async with running(source) as pilot:
        for size in ((120, 36), (80, 24), (60, 20), (40, 12), (40, 10), (20, 5)):
            await pilot.resize_terminal(*size)
            await pilot.pause()
            assert said in screen_text(pilot), size
            assert never not in screen_text(pilot), size


async def test_the_banner_tells_the_gpu_the_date_and_how_to_go_live() -> None:
    async with running(FakeRecorded(12.0)) as pilot:
        banner = screen_text(pilot).splitlines()[1]
    for wanted in ("RECORDED", "NVIDIA Sample GPU", "2026-11-30", "qwen3-4b", "cgtop --device cpu"):
        assert wanted in banner


async def test_the_state_moves_with_the_player() -> None:
    source = FakeRecorded(0.0)
    async with running(source) as pilot:
        assert "+7,726.0" not in screen_text(pilot)
        source.clock.now = 10.0
        app_of(pilot).tick()
        await pilot.pause()
        assert "+7,726.0" in screen_text(pilot)


# ------------------------------------------------------------------------------------------------- the screens


async def test_the_help_is_made_from_the_bindings() -> None:
    async with running(FakeLive(DECODING), (120, 50)) as pilot:
        for key in ("question_mark", "h", "f1"):
            await pilot.press(key)
            assert isinstance(pilot.app.screen, TextScreen)
            shown = screen_text(pilot)
            for binding in (*RUN_BINDINGS, *APP_BINDINGS):
                assert binding.tooltip in shown
            await pilot.press(key)
            assert on_main(pilot)


async def test_every_binding_has_an_id_a_tooltip_and_an_action_that_exists() -> None:
    app = CgtopApp(FakeLive())
    ids = [binding.id for binding in (*RUN_BINDINGS, *APP_BINDINGS)]
    assert len(set(ids)) == len(ids)
    for binding in (*RUN_BINDINGS, *APP_BINDINGS):
        assert binding.id is not None
        assert binding.tooltip
        assert hasattr(app, f"action_{binding.action.split('(')[0]}")


async def test_a_remapped_key_acts_and_stands_in_the_line_of_keys() -> None:
    source = FakeLive(LOADED)
    app = CgtopApp(source)
    app.set_keymap({"cgtop.next": "t"})
    async with app.run_test(size=(120, 36)) as pilot:
        await pilot.press("t")
        assert source.sent == [RunPhase()]
        assert " t next" in screen_text(pilot)


async def test_a_click_on_the_line_of_keys_is_that_key() -> None:
    source = FakeLive(LOADED)
    async with running(source) as pilot:
        await pilot.click("#keys", offset=(2, 0))
        await pilot.pause()
        assert source.sent == [RunPhase()]


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


async def test_a_click_on_a_phase_chooses_it() -> None:
    async with running(FakeLive(DECODING)) as pilot:
        await pilot.click("#phases", offset=(5, 2))
        await pilot.pause()
        assert app_of(pilot).main.selected == "load"
        assert "Model load." in screen_text(pilot)


async def test_the_palette_has_every_action_and_does_it() -> None:
    source = FakeLive(LOADED)
    async with running(source) as pilot:
        commands = {command.title: command for command in pilot.app.get_system_commands(pilot.app.screen)}
        assert {binding.description.capitalize() for binding in RUN_BINDINGS} <= set(commands)
        await commands["Next"].callback()
        assert source.sent == [RunPhase()]
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


async def test_the_refresh_rate_has_ends_and_says_where_it_is() -> None:
    async with running(FakeLive(DECODING)) as pilot:
        await pilot.press("plus")
        assert notice(pilot) == "refresh 10 Hz, the limit"
        await pilot.press("minus", "minus", "minus", "minus")
        assert app_of(pilot).refresh_hz == 1.0


def only_file(folder: Path) -> tuple[str, str]:
    (file,) = folder.iterdir()
    return file.name, file.read_text()


async def test_a_screenshot_is_written_where_one_is_and_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    async with running(FakeLive(DECODING)) as pilot:
        await pilot.press("s")
        name, content = only_file(tmp_path)
        assert name in notice(pilot)
        assert "<svg" in content


async def test_a_screenshot_that_cannot_be_written_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    async with running(FakeLive(DECODING)) as pilot:
        os.rmdir(tmp_path)  # noqa: PTH106
        await pilot.press("s")
        assert "not saved" in notice(pilot)


# ------------------------------------------------------------------------------------------------- drawing


def draws(app: CgtopApp) -> dict[str, int]:
    return {widget.id or "": widget.draws for widget in app.main.query(LinesWidget)}


async def test_an_unchanged_state_draws_nothing() -> None:
    async with running(FakeLive(DECODING)) as pilot:
        await pilot.pause(0.3)
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
        await pilot.pause(0.3)
        before = draws(app_of(pilot))
        source.state = msgspec.structs.replace(DECODING, tokens=(*DECODING.tokens, 7))
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
