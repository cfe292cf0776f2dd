"""The Textual app: it polls a source, shows its state, and turns keys into commands."""

from typing import ClassVar

from textual.binding import BindingType

from ..core.sources import Source
from .actions.play import PlayActions
from .actions.run import RunActions
from .actions.screen import ScreenActions
from .base_app import REFRESH_HZ_MAX
from .keys import ALL_BINDINGS


class CgtopApp(RunActions, PlayActions, ScreenActions):
    """The app: the loop of `BaseApp` and the actions of all keys."""

    CSS_PATH = "styles/cgtop.tcss"
    TITLE = "cgtop"
    BINDINGS: ClassVar[list[BindingType]] = [*ALL_BINDINGS]


def run_app(source: Source, *, refresh_hz: float = REFRESH_HZ_MAX, theme: str | None = None) -> int:
    """Run the screen until it is left; the exit code, 128+n after signal n. Closes the source, after the terminal.

    `theme` as `themes.theme_named` gives it; null: dark.
    """
    app = CgtopApp(source, refresh_hz=refresh_hz, theme=theme)
    try:
        app.run()
    finally:
        source.close()
    return app.return_code or 0
