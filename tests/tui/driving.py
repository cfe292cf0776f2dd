"""Driving the app in tests: started on a source, looked at as text."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from textual.pilot import Pilot

from cgtop.core.sources import Source
from cgtop.tui.app import CgtopApp
from cgtop.tui.widgets.lines import LinesWidget
from cgtop.tui.widgets.notice import NoticeBar
from tests.fakes.processes import PATIENCE_S


@asynccontextmanager
async def running(source: Source, size: tuple[int, int] = (120, 36)) -> AsyncIterator[Pilot[Any]]:
    async with CgtopApp(source).run_test(size=size) as pilot:
        await pilot.pause()
        yield pilot


async def at_rest(pilot: Pilot[Any]) -> None:
    """Until no panel was drawn for some polls of the app."""
    before, same = -1, 0
    while same < 3:
        await pilot.pause(0.1)
        await pilot.pause()
        drawn = sum(widget.draws for widget in app_of(pilot).main.query(LinesWidget))
        before, same = drawn, same + 1 if drawn == before else 0


def app_of(pilot: Pilot[Any]) -> CgtopApp:
    assert isinstance(pilot.app, CgtopApp)
    return pilot.app


def on_main(pilot: Pilot[Any]) -> bool:
    return pilot.app.screen is app_of(pilot).main


def notice(pilot: Pilot[Any]) -> str:
    return app_of(pilot).main.query_one(NoticeBar).view.notice


def shown_view(pilot: Pilot[Any]) -> str:
    return app_of(pilot).main.shown


async def shows(pilot: Pilot[Any], *texts: str) -> bool:
    """Whether the screen comes to show all of these; a view that was just chosen is laid out and drawn first."""
    until = time.monotonic() + PATIENCE_S
    while not all(text in screen_text(pilot) for text in texts):
        if time.monotonic() > until:
            return False
        await pilot.pause(0.01)
    return True


def screen_text(pilot: Pilot[Any]) -> str:
    strips = pilot.app.screen._compositor.render_strips()
    return "\n".join(strip.text.rstrip() for strip in strips)
