"""StaticCache against DynamicCache while tokens are added, beside what the guide says of the two."""

from textual.content import Content

from ...core.settings import MODES
from ..format import NA, count, percent, size
from .buckets import look
from .cache_slice import CacheSlice
from .cache_words import capture_outcome, guide_table, lessons
from .columns import bar
from .decode_gauge import MODE_STYLES
from .lines import LinesWidget, wrapped

__all__ = ["CacheSlice", "CacheView", "cache_bars", "render_caches"]

UNUSED = "░"
"""A cell of the StaticCache that waits for tokens."""


class CacheView(LinesWidget[CacheSlice]):
    """The view of the caches."""

    BORDER_TITLE = "Caches: StaticCache against DynamicCache"

    def draw(self, view: CacheSlice, width: int, height: int) -> list[Content]:
        """As `render_caches` says."""
        return render_caches(view, width, height)


def render_caches(view: CacheSlice, width: int, height: int) -> list[Content]:
    """The caches as bars, addresses, allocations, the guide's table with what was measured, then words.

    Where the table does not fit with some words, the words alone follow the figures.
    """
    if width < 1 or height < 1:
        return []
    figures = [*cache_bars(view, width), _moves_line(view, width), _allocations_line(view, width)]
    table = guide_table(view, width)
    words = [capture_outcome(view), *lessons(view)]
    room = height - len(figures) - len(table)
    if room < 2:
        return [*figures, *wrapped(words, width, height - len(figures))][:height]
    gap = [Content("")] if room >= 6 else []
    shown = [*figures, *gap, *table, *gap]
    return [*shown, *wrapped(words, width, height - len(shown))]


def cache_bars(view: CacheSlice, width: int) -> list[Content]:
    """Two bars on one scale: the StaticCache in full, what is in use filled, and the DynamicCache as it grows."""
    names = ("StaticCache", "DynamicCache") if width >= 60 else ("static", "dynamic")
    dynamic_size = size(view.dynamic_bytes)
    if view.dynamic_where and width >= 76:
        dynamic_size += f" {view.dynamic_where}"
    rows = (
        (names[0], size(view.static_bytes), _static_note(view, width)),
        (names[1], dynamic_size, _dynamic_note(view, width)),
    )
    widths = [max(len(row[i]) for row in rows) for i in range(3)]
    room = max(0, width - sum(widths) - 3)
    planned = (view.token_bytes or 0) * (view.capacity or 0)
    whole = max(view.static_bytes or planned, view.dynamic_bytes or 0)
    full = len(bar(view.static_bytes, whole, room))
    in_use = view.static_in_use
    used = bar(in_use, 1.0, full) if in_use is not None else ""
    bars = (
        Content.styled(used + UNUSED * (full - len(used)), look("kv_static").style),
        Content.styled(bar(view.dynamic_bytes, whole, room), look("kv_dynamic").style),
    )
    return [
        Content.assemble(
            name.ljust(widths[0]),
            (f" {figure.rjust(widths[1])} ", "bold"),
            drawn,
            " " * (room - drawn.cell_length),
            f" {note}",
        )
        for (name, figure, note), drawn in zip(rows, bars, strict=True)
    ]


def _static_note(view: CacheSlice, width: int) -> str:
    place = f"{count(view.static_position)} of {count(view.capacity)}"
    if width < 60:
        return place
    share = percent(view.static_in_use, 1.0)
    return f"{place} tokens, {share} in use" if width >= 76 and share != NA else f"{place} tokens"


def _dynamic_note(view: CacheSlice, width: int) -> str:
    place = count(view.dynamic_position)
    if width < 60:
        return place
    grows = f", +{count(view.token_bytes)} B a token" if width >= 76 and view.token_bytes is not None else ""
    return f"{place} tokens{grows}"


def _moves_line(view: CacheSlice, width: int) -> Content:
    wide = width >= 76
    moved, steps = count(view.moved_steps), count(view.watched_steps)
    dynamic = f"{'in ' if wide else ''}{moved} of {steps} steps" if view.moved_steps is not None else NA
    static = count(view.static_moves) + (" tensors" if wide and view.static_moves is not None else "")
    style = "bold $text-error" if view.static_moves else "bold"
    return Content.assemble(
        ("addresses moved  " if wide else "moved ", "$muted"),
        ("StaticCache " if wide else "static "),
        (static, style),
        ("  DynamicCache " if wide else "  dynamic "),
        (dynamic, "bold"),
    )


def _allocations_line(view: CacheSlice, width: int) -> Content:
    wide = width >= 60
    parts: list[Content | tuple[str, str]] = [("allocations a token " if wide else "allocs ", "$muted")]
    for mode in MODES:
        figure = view.allocations_per_token(mode)
        parts.append(
            Content.assemble((f"{'  ' if wide else ''}{mode} ", MODE_STYLES[mode]), (count(figure), "bold"), " ")
        )
    return Content.assemble(*parts).rstrip()
