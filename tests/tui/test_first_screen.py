"""The first screen comes soon: what it does not show is neither imported nor mounted before it is asked for."""

import subprocess
import sys

import pytest

from cgtop.core.playback import Player
from cgtop.core.recording import open_recording
from cgtop.core.sources import RecordedSource, bundled_recording
from cgtop.tui.app import CgtopApp
from cgtop.tui.screens.pane import Pane
from cgtop.tui.views import VIEWS, view_key
from tests.make_screenshots import recorded_experiment
from tests.tui.driving import at_rest

LATER = ("torch", "transformers", "pydantic", "cgtop.core.claims", "cgtop.tui.report", "cgtop.tui.screens.run_panes")
SHOWN = f"""
import asyncio, sys
from cgtop.tui import base_app, cli
from cgtop.tui.app import CgtopApp
from cgtop.core.playback import Player
from cgtop.core.recording import open_recording
from cgtop.core.sources import RecordedSource, bundled_recording

async def shown():
    source = RecordedSource(Player(open_recording(bundled_recording()), playing=False))
    async with CgtopApp(source).run_test() as pilot:
        await pilot.pause()

base_app.REST_AFTER_S = 600
cli.app(["--version"], standalone_mode=False)
asyncio.run(shown())
print(*[name for name in {LATER!r} if name in sys.modules])
"""


def recorded() -> CgtopApp:
    path = bundled_recording()
    assert path is not None
    return CgtopApp(RecordedSource(Player(open_recording(path), playing=False)))


def test_what_the_first_screen_does_not_show_is_not_imported_for_it() -> None:
    ran = subprocess.run([sys.executable, "-c", SHOWN], capture_output=True, text=True, timeout=240)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines()[-1] == "", ran.stdout


def test_a_ctrl_c_while_the_command_line_is_made_is_no_traceback() -> None:
    code = """
import signal, typer.main
def interrupted(*given): signal.raise_signal(signal.SIGINT)
typer.main.get_command = interrupted
from cgtop.tui.__main__ import main
main()
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=240)
    assert (ran.returncode, ran.stderr) == (130, "")


@pytest.mark.parametrize(("view", "experiment"), [("compare", "bench"), ("checks", "check"), ("batches", "batches")])
async def test_a_recording_that_opens_in_a_view_says_that_its_figures_come(view: str, experiment: str) -> None:
    path = bundled_recording()
    assert path is not None
    recording = open_recording(recorded_experiment(path, experiment))
    app = CgtopApp(RecordedSource(Player(recording, playing=False)))
    async with app.run_test(size=(120, 36)) as pilot:
        await at_rest(pilot)
        assert app.main.shown == view
        shown = "\n".join(strip.text for strip in app.screen._compositor.render_strips())
        assert "It comes later in this recording" in shown and f"play {path.parent}" not in shown


async def test_what_the_other_views_need_is_there_soon_after(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr("cgtop.tui.base_app.REST_AFTER_S", 0.01)
    monkeypatch.setattr("cgtop.tui.base_app.others", lambda: asked.append(True))
    async with recorded().run_test() as pilot:
        await at_rest(pilot)
        while not asked:
            await pilot.pause(0.01)


async def test_a_pane_is_mounted_once_when_its_view_is_chosen_and_only_one_is_shown() -> None:
    app = recorded()
    async with app.run_test(size=(120, 36)) as pilot:
        await at_rest(pilot)
        assert len(app.main.query(Pane)) == 1
        for seen, view in enumerate(VIEWS, start=1):
            for _ in range(2):
                await pilot.press(view_key(view.id))
                await at_rest(pilot)
                assert len(app.main.query(Pane)) == seen
                assert [pane.id for pane in app.main.query(Pane) if pane.display] == [f"view-{view.id}"]


async def test_keys_faster_than_the_screen_leave_the_last_view() -> None:
    app = recorded()
    async with app.run_test(size=(120, 36)) as pilot:
        await pilot.press(*"259138467")
        await at_rest(pilot)
        assert [pane.id for pane in app.main.query(Pane) if pane.display] == ["view-compare"]
        assert all(pane.is_mounted for pane in app.main.query(Pane)) and len(app.main.query(Pane)) == len(VIEWS)
