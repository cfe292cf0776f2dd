"""The command palette, safe against keys that come before its list has been laid out."""

from textual.command import CommandList, CommandPalette


class Palette(CommandPalette):
    """Textual's own; a page key on a list without lines raises `KeyError` there (seen with Textual 8.2)."""

    def _action_command_list(self, action: str) -> None:
        if self.query_one(CommandList).size.height:
            super()._action_command_list(action)
