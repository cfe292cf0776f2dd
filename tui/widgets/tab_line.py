"""The line of views: which there are, by which key, and which is shown."""

import msgspec
from textual.content import Content
from textual.events import Click
from textual.style import Style

from ..views import VIEW_BY_ID, View, ViewId, view_key
from .lines import LinesWidget


class TabsView(msgspec.Struct, frozen=True):
    """What the line shows."""

    views: tuple[ViewId, ...] = ()
    shown: ViewId = "phases"


class TabLine(LinesWidget[TabsView]):
    """The line of views."""

    def draw(self, view: TabsView, width: int, height: int) -> list[Content]:
        """As `render_tabs` says."""
        return render_tabs(view, width)

    async def on_click(self, event: Click) -> None:
        """A click on a view shows it."""
        action = event.style.meta.get("action")
        if isinstance(action, str):
            await self.app.run_action(action)


def render_tabs(tabs: TabsView, width: int) -> list[Content]:
    """All views by title, by short name, or, where those do not fit either, the shown one's name and the others' keys.

    The shown view is between brackets as well as in reverse: it can be told without colour.
    """
    views = [VIEW_BY_ID[view] for view in tabs.views]
    for names in (
        {view.id: view.title for view in views},
        {view.id: view.short for view in views},
        {view.id: view.title if view.id == tabs.shown else "" for view in views},
        {view.id: view.short if view.id == tabs.shown else "" for view in views},
    ):
        line = Content("").join([_tab(view, names[view.id], shown=view.id == tabs.shown) for view in views])
        if line.cell_length <= width:
            return [line]
    return [line.truncate(width)]


def _tab(view: View, name: str, *, shown: bool) -> Content:
    key = view_key(view.id)
    if shown:
        text = Content.styled(f"[{key} {name}]", "bold reverse $text-accent")
    else:
        text = Content.assemble((f" {key}", "bold $text-accent"), (f" {name} " if name else " ", ""))
    return text.stylize(Style.from_meta({"action": f"app.view('{view.id}')"}))
