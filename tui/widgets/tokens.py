"""The tokens as they come: text where there is a tokenizer, ids where there is none."""

import msgspec
from textual.content import Content

from ..format import clean
from .lines import LinesWidget, wrapped


class TokensView(msgspec.Struct, frozen=True):
    """What the token panel shows."""

    ids: tuple[int, ...] = ()
    text: str | None = None
    decoded: bool = False
    """Whether tokens were decoded, with or without their ids."""


class TokenPane(LinesWidget[TokensView]):
    """The panel of decoded tokens."""

    BORDER_TITLE = "Tokens"

    def draw(self, view: TokensView, width: int, height: int) -> list[Content]:
        """As `render_tokens` says."""
        return render_tokens(view, width, height)


def render_tokens(view: TokensView, width: int, height: int) -> list[Content]:
    """The last lines that fit."""
    if width < 2 or height < 1:
        return []
    if view.text:
        recent = view.text[-2 * width * height :]
        paragraphs = [Content(clean(line)) for line in recent.split("\n")]
        return [line for paragraph in paragraphs for line in paragraph.wrap(width)][-height:]
    if not view.ids:
        why = "no token ids were recorded" if view.decoded else "nothing decoded yet"
        return wrapped([Content.styled(why, "$muted")], width, height)
    return _id_lines(view.ids, width, height)


def _id_lines(ids: tuple[int, ...], width: int, height: int) -> list[Content]:
    lines: list[str] = []
    line = ""
    for token in reversed(ids):
        word = str(token)
        longer = f"{word} {line}".rstrip()
        if len(longer) <= width:
            line = longer
            continue
        lines.append(line)
        if len(lines) == height:
            break
        line = word
    else:
        lines.append(line)
    lines.reverse()
    return [*(Content.styled(text, "$muted") for text in lines[:-1]), Content(lines[-1])]
