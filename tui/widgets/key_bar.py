"""The last line: the keys, taken from the bindings themselves; those that cannot act now are dim."""

import msgspec
from textual.content import Content
from textual.events import Click
from textual.style import Style

from .lines import LinesWidget


class Key(msgspec.Struct, frozen=True):
    """A key as shown: how it is written, what it does, which action a click runs, whether it can act now."""

    key: str
    label: str
    action: str
    acts: bool = True


class KeyBar(LinesWidget[tuple[Key, ...]]):
    """The line of keys."""

    def draw(self, view: tuple[Key, ...], width: int, height: int) -> list[Content]:
        """As `render_keys` says."""
        return render_keys(view, width)

    async def on_click(self, event: Click) -> None:
        """A click on a key is that key."""
        action = event.style.meta.get("action")
        if isinstance(action, str):
            await self.app.run_action(action)


def render_keys(keys: tuple[Key, ...], width: int) -> list[Content]:
    """Those that fit, in their order; the last two (help and quit) are kept when others give way."""
    kept = list(keys)
    while len(kept) > 2 and _length(kept) > width:
        del kept[-3]
    return [Content(" ").join([_key(key) for key in kept]).truncate(width)]


def _length(keys: list[Key]) -> int:
    return sum(len(key.key) + len(key.label) + 3 for key in keys)


def _key(key: Key) -> Content:
    text = Content.assemble(
        (f" {key.key}", "bold $text-accent" if key.acts else "$muted"),
        (f" {key.label}", "" if key.acts else "$muted"),
    )
    return text.stylize(Style.from_meta({"action": key.action}))
