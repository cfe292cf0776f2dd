"""What tests of the screen share."""

import asyncio
from collections import deque
from collections.abc import Iterator
from typing import Any

import pytest
from textual import _wait

from cgtop.tui import base_app


@pytest.fixture(autouse=True)
def _no_colour_settings_of_the_tester(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("NO_COLOR", "TEXTUAL_THEME", "TEXTUAL_COLOR_SYSTEM", "COLORTERM"):
        monkeypatch.delenv(name, raising=False)
    yield


@pytest.fixture(autouse=True)
def _look_for_idleness_more_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Textual's pilot sleeps 20 ms before each look, several times a key: most of the time of these tests.

    It takes an app for idle that used no processor time meanwhile, also where none was to be had: so it sleeps on
    until nothing is left to be run.
    """
    monkeypatch.setattr(_wait, "SLEEP_GRANULARITY", 0.01)
    monkeypatch.setattr(_wait.wait_for_idle, "__defaults__", (0.01, 30))
    monkeypatch.setattr(_wait, "sleep", _sleep_until_nothing_is_left_to_run)


async def _sleep_until_nothing_is_left_to_run(seconds: float) -> None:
    ready: deque[Any] = asyncio.get_running_loop()._ready  # type: ignore[attr-defined]
    await asyncio.sleep(seconds)
    await asyncio.sleep(0)
    for _ in range(10_000):
        if not ready:
            return
        await asyncio.sleep(0)


@pytest.fixture(autouse=True)
def _notices_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow the machine is, they are still there when a test looks."""
    monkeypatch.setattr(base_app, "NOTICE_S", 600.0)
