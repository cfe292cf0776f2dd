"""The command palette, safe against keys that come before its list has been laid out, or close it while it searches."""

from textual.await_complete import AwaitComplete
from textual.command import CommandList, CommandPalette
from textual.worker import Worker


class Palette(CommandPalette):
    """Textual's own, but for three faults (seen with Textual 8.2) that would take the screen down."""

    def dismiss(self, result: object = None) -> AwaitComplete:
        """Close it, once: a click that comes with the key that closes it would close the screen below, or the last."""
        return super().dismiss() if self.app.screen is self else AwaitComplete()

    def _action_command_list(self, action: str) -> None:
        # A page key on a list without lines raises KeyError.
        if self.query_one(CommandList).size.height:
            super()._action_command_list(action)

    def _gather_commands(self, search_value: str) -> Worker[None]:
        # A search that starts when the palette is closed already does not find its list.
        worker: Worker[None] = super()._gather_commands(search_value)
        worker.exit_on_error = False
        return worker
