"""The form of settings over the main screen: what it is closed with are the settings of a new run."""

from typing import ClassVar

import msgspec
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.events import Click, Key
from textual.screen import ModalScreen

from ...core.settings import RunSettings, SettingsError
from ..settings_form import FIELDS, Form, changed, erased, moved, predicted, settings_of, typed
from ..widgets.form_view import FormView


class SettingsScreen(ModalScreen[RunSettings | None]):
    """Settings to change; null if it is left. What does not fit is said first, and starts when asked twice."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "leave"),
        Binding("enter", "start", "start"),
        Binding("up,shift+tab", "move(-1)", "up"),
        Binding("down,tab", "move(1)", "down"),
        Binding("left", "change(-1)", "less"),
        Binding("right", "change(1)", "more"),
        Binding("backspace", "erase", "erase"),
        Binding("ctrl+c", "app.leave", "quit", show=False, priority=True),
    ]

    def __init__(self, form: Form) -> None:
        super().__init__()
        self.form = form
        self.view = FormView(form, id="form")
        self.box = Vertical(self.view, id="options")
        self.box.border_title = "Settings of a new run"
        self.box.border_subtitle = "↑ ↓ ← → or type · enter starts · esc"

    def compose(self) -> ComposeResult:
        """One box."""
        yield self.box

    def on_key(self, event: Key) -> None:
        """Characters are typed into the row."""
        if event.is_printable and event.character:
            event.stop()
            self._show(typed(self.form, event.character))

    def on_click(self, event: Click) -> None:
        """A click on a row chooses it."""
        if event.widget is self.view and event.y < len(FIELDS) < self.view.size.height:
            self._show(moved(self.form, event.y - self.form.row))

    def action_move(self, step: int) -> None:
        """Another row."""
        self._show(moved(self.form, step))

    def action_change(self, step: int) -> None:
        """Another choice, or more or less of it."""
        self._show(changed(self.form, step))

    def action_erase(self) -> None:
        """The last character."""
        self._show(erased(self.form))

    def action_leave(self) -> None:
        """Back, with nothing changed."""
        self.dismiss(None)

    def action_start(self) -> None:
        """Start with these settings, unless they cannot work or it has to be said first that they do not fit."""
        try:
            settings = settings_of(self.form)
        except SettingsError:
            return
        if predicted(self.form).fits is False and not self.form.warned:
            self._show(msgspec.structs.replace(self.form, warned=True))
            return
        self.dismiss(settings)

    def _show(self, form: Form) -> None:
        self.form = form
        self.view.show(form)
