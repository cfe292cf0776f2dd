"""The screens that lie over the main one: a text to read, and a question."""

from collections.abc import Callable, Sequence
from typing import ClassVar, Literal

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.style import Style
from textual.widgets import Static

CLOSE_BINDINGS: list[BindingType] = [
    Binding("escape", "close", "close", id="cgtop.modal.close"),
    Binding("q", "app.leave", "quit", id="cgtop.modal.quit"),
    Binding("ctrl+c", "app.leave", "quit", show=False, priority=True),
]


class TextScreen(ModalScreen[None]):
    """A titled text that scrolls. `keys`: those that close it beside escape, as the key that opened it."""

    BINDINGS = CLOSE_BINDINGS

    def __init__(self, title: str, lines: Sequence[Content], *, keys: str = "") -> None:
        super().__init__()
        self.lines = lines
        self.body = Static(Content("\n").join(lines), id="text")
        self.box = VerticalScroll(self.body, id="box")
        self.box.border_title = title
        self.box.border_subtitle = "escape closes · ↑ ↓ scroll"
        if keys:
            self._bindings.bind(keys, "close", show=False)

    def compose(self) -> ComposeResult:
        """One scrolling box."""
        yield self.box

    def on_mount(self) -> None:
        """Arrow keys scroll at once."""
        self.box.focus()

    def action_close(self) -> None:
        """Back to the main screen."""
        self.dismiss(None)


class LogScreen(TextScreen):
    """A text that grows: `lines` is asked for again when the state has changed."""

    def __init__(self, title: str, source: Callable[[], Sequence[Content]], *, keys: str = "") -> None:
        super().__init__(title, source(), keys=keys)
        self._source = source

    def refresh_text(self) -> None:
        """Show what is there now, and stay at the end if it was in sight."""
        if not self.body.is_attached:
            return
        lines = self._source()
        if len(lines) == len(self.lines) and all(
            a is b or a.is_same(b) for a, b in zip(lines, self.lines, strict=True)
        ):
            return
        self.lines = lines
        at_end = self.box.is_vertical_scroll_end
        self.body.update(Content("\n").join(lines))
        if at_end:
            self.box.scroll_end(animate=False)


Answer = Literal["yes", "no", "other"]


class AskScreen(ModalScreen[Answer]):
    """A question of yes or no, or of one thing more: `other` is its key and what it does. Escape is no."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y,enter", "answer('yes')", "yes"),
        Binding("n,escape", "answer('no')", "no"),
        Binding("q,ctrl+c", "app.leave", "quit", show=False, priority=True),
    ]

    def __init__(self, question: str, consequence: str, *, other: tuple[str, str] | None = None) -> None:
        super().__init__()
        self.question = question
        self.consequence = consequence
        self.other = other
        if other is not None:
            self._bindings.bind(other[0], "answer('other')", other[1])

    def compose(self) -> ComposeResult:
        """The question, what a yes does, and the keys."""
        keys = [_key("y", "yes", "yes"), _key("n", "no", "no")]
        if self.other is not None:
            keys.append(_key(*self.other, "other"))
        with Vertical(id="ask"):
            yield Static(
                Content.assemble((self.question, "bold"), f"\n{self.consequence}\n\n", Content("   ").join(keys))
            )

    def action_answer(self, answer: Answer) -> None:
        """Close with the answer."""
        self.dismiss(answer)


def _key(key: str, text: str, answer: Answer) -> Content:
    label = Content.assemble((key, "bold $text-accent"), f" {text}")
    return label.stylize(Style.from_meta({"@click": f"screen.answer('{answer}')"}))
