"""Keys that act on what is shown: views, selection, texts, saving, colours, the redraw rate."""

from collections.abc import Iterable
from datetime import datetime
from pathlib import Path

from textual.app import SystemCommand
from textual.binding import Binding
from textual.screen import Screen

from ...core.plurals import counted
from ..base_app import BaseApp
from ..keys import ALL_BINDINGS, TAB_BINDINGS
from ..screens.modal import LogScreen, TextScreen
from ..screens.texts import error_lines, help_lines, log_lines
from ..themes import next_theme
from ..views import VIEWS

REFRESH_RATES = (1.0, 2.0, 5.0, 10.0)


class ScreenActions(BaseApp):
    """What acts on the screen alone."""

    def action_view(self, view: str) -> None:
        """Show a view."""
        for candidate in VIEWS:
            if candidate.id == view:
                self.main.show_view(candidate.id)

    def action_next_view(self, step: int) -> None:
        """Show the next view, or the one before."""
        self.main.next_view(step)

    def action_select(self, step: int) -> None:
        """Select what is above or below."""
        self.main.pane.move(step)

    def action_across(self, step: int) -> None:
        """Select what is to the left or right."""
        self.main.pane.move_across(step)

    def action_open(self) -> None:
        """What is selected, in full."""
        if (did := self.main.pane.activate()) is not None:
            self.notice(did)
            return
        opened = self.main.pane.opened()
        if opened is None:
            self.notice("nothing to open here", bad=True)
        else:
            self.push_screen(TextScreen(opened.title, opened.lines, keys="enter"))

    def action_details(self) -> None:
        """The last error in full."""
        if self.can("details"):
            self.push_screen(TextScreen("Error", error_lines(self.state.errors[-1]), keys="x"))

    def action_close(self) -> None:
        """Close the error panel, and follow the run again."""
        self.main.close_extras()
        self.show_now()

    def action_log(self) -> None:
        """The log."""
        self.push_screen(LogScreen("Log", lambda: log_lines([*self.state.log, *self.said]), keys="l"))

    def action_help(self) -> None:
        """The help, made from the bindings."""
        order = [binding.id for binding in (*ALL_BINDINGS, *TAB_BINDINGS)]
        bindings = [active.binding for active in self.active_bindings.values() if active.binding.id in order]
        bindings.sort(key=lambda binding: order.index(binding.id))
        self.push_screen(TextScreen("Keys", help_lines(bindings), keys="question_mark,h,f1"))

    def action_save(self) -> None:
        """Screen, report and recording, into a new folder of the working directory."""
        from ..saving import SaveError, new_folder, save_into  # with the report, which the first screen does not need

        svg = self.export_screenshot(title="cgtop")
        try:
            folder = new_folder(Path.cwd(), datetime.now())
            names = save_into(folder, svg, self.state, self.source)
        except SaveError as error:
            self.notice(f"not saved: {error}", bad=True)
            self.say(f"not saved: {error}; the folder is {folder}")
        except OSError as error:
            where = f": {error.filename}" if error.filename else ""
            self.notice(f"not saved: {error.strerror or error}{where}", bad=True)
        else:
            self.notice(f"saved {counted(len(names), 'file')} in {folder.name}/")
            self.say(f"saved in {folder}: {', '.join(names)}")

    def action_theme(self) -> None:
        """Dark, light, or the terminal's own colours."""
        self.theme = next_theme(self.theme)
        self.notice(f"theme {self.theme}")

    def action_refresh_rate(self, step: int) -> None:
        """Redraw more or less often."""
        nearest = min(range(len(REFRESH_RATES)), key=lambda index: abs(REFRESH_RATES[index] - self.refresh_hz))
        chosen = REFRESH_RATES[max(0, min(len(REFRESH_RATES) - 1, nearest + step))]
        limit = chosen == self.refresh_hz
        self.refresh_hz = chosen
        self.restart_timer()
        self.notice(f"refresh {chosen:g} Hz" + (", the limit" if limit else ""))

    def action_leave(self) -> None:
        """Quit at once; nothing is waited for."""
        self.exit()

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """Every key's action in the palette too."""
        yield from super().get_system_commands(screen)
        for binding in Binding.make_bindings(ALL_BINDINGS):
            if binding.tooltip and binding.action != "leave":
                yield SystemCommand(
                    binding.description.capitalize(), binding.tooltip, lambda action=binding.action: self._act(action)
                )

    async def _act(self, action: str) -> None:
        await self.run_action(action)
