"""What tests of the screen share."""

from collections.abc import Iterator

import pytest
from textual import _wait


@pytest.fixture(autouse=True)
def _no_colour_settings_of_the_tester(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("NO_COLOR", "TEXTUAL_THEME", "TEXTUAL_COLOR_SYSTEM", "COLORTERM"):
        monkeypatch.delenv(name, raising=False)
    yield


@pytest.fixture(autouse=True)
def _look_for_idleness_more_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Textual's pilot sleeps 20 ms before each look, several times a key: most of the time of these tests."""
    monkeypatch.setattr(_wait, "SLEEP_GRANULARITY", 0.01)
    monkeypatch.setattr(_wait.wait_for_idle, "__defaults__", (0.01, 1))
