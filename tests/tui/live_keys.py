"""Every key of the screen on a live run, from `r` to release, each once the one before has done what it is for."""

import time
from collections.abc import Callable
from typing import Any

from textual.pilot import Pilot

from cgtop.core.settings import Mode
from cgtop.core.sources import LiveSource
from cgtop.core.state import RunState
from cgtop.tui.refusals import measuring
from tests.fakes.processes import PATIENCE_S
from tests.tui.driving import app_of, notice, running

Condition = Callable[[RunState], bool]


class Keys:
    """Presses keys, each until what it is for has come; a key that is refused fails, with the notice that says why."""

    def __init__(self, pilot: Pilot[Any]) -> None:
        self._pilot = pilot

    async def press(self, key: str, until: Condition) -> None:
        await self._pilot.press(key)
        await self.until(until, key)

    async def until(self, condition: Condition, what: str = "") -> None:
        end = time.monotonic() + PATIENCE_S
        while not condition(self.state):
            assert time.monotonic() < end, (what, notice(self._pilot), self.state.status)
            await self._pilot.pause(0.02)

    async def all_modes_and_pause(self) -> None:
        modes: tuple[tuple[str, Mode], ...] = (("e", "eager"), ("d", "dynamic"), ("g", "graph"))
        for key, mode in modes:
            await self.press(key, is_in("decoding", mode))
            await self.press("space", is_in("paused", mode))
            await self.press("space", is_in("decoding", mode))

    @property
    def state(self) -> RunState:
        return app_of(self._pilot).state


def is_in(name: str, mode: Mode) -> Condition:
    return lambda state: state.status is not None and (state.status.state, state.status.mode) == (name, mode)


def stage(name: str) -> Condition:
    return lambda state: state.demonstration is not None and state.demonstration.stage == name and not measuring(state)


async def press_every_key(source: LiveSource) -> None:
    """All phases, all modes, every experiment and the release; closes the source."""
    try:
        async with running(source) as pilot:
            keys = Keys(pilot)
            await keys.until(lambda state: state.status is not None)
            await keys.press("r", lambda state: state.phase("replay").status == "done")
            await keys.until(is_in("decoding", "graph"))
            await keys.all_modes_and_pause()
            await keys.press("t", lambda state: state.dynamic_capture is not None and not measuring(state))
            await keys.press("b", stage("broken"))
            await keys.press("b", stage("mended"))
            await keys.all_modes_and_pause()
            for view in ("5", "6", "7", "8"):
                await pilot.press(view)
                await keys.press("m", measuring)
                await keys.press("m", lambda state: not measuring(state))
                await keys.press("g", is_in("decoding", "graph"))
            checked = keys.state.verification
            await keys.press("v", lambda state: state.verification is not checked and not measuring(state))
            await keys.all_modes_and_pause()
            await pilot.press("n")
            await keys.press("y", lambda state: state.phase("release").status == "done")
            await keys.press("q", lambda state: not pilot.app.is_running)
            assert not keys.state.errors
    finally:
        source.close()
