"""What tests of the screen share."""

from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _no_colour_settings_of_the_tester(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("NO_COLOR", "TEXTUAL_THEME", "TEXTUAL_COLOR_SYSTEM", "COLORTERM"):
        monkeypatch.delenv(name, raising=False)
    yield
