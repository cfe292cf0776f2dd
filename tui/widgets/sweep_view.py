"""A sweep as its rows arrive: cache lengths, or batch sizes by every way of serving them."""

import msgspec
from textual.content import Content

from ...core.events import SweepKind
from ...core.guide import BATCH_SIZES, CACHE_LENGTH_BY_TOKENS, CACHE_LENGTHS
from ...core.memory_map import MIB
from ..format import clean, count, mib, percent, size, tok_s
from .columns import paragraph
from .lines import LATER, LinesWidget, spread, wrapped
from .sweep_slice import SweepCursor, SweepSlice, per
from .sweep_tables import GUIDE_MARK, VERDICTS, Section, batch_sections, length_lines

__all__ = ["SweepCursor", "SweepSlice", "SweepView", "render_sweep"]

TITLES: dict[SweepKind, str] = {
    "cache_lens": "Cache lengths: what a graph and its StaticCache add (MiB)",
    "batches": "Batch sizes: what every way of serving them adds (MiB)",
}
COMMANDS: dict[SweepKind, str] = {"cache_lens": "cgtop scaling measures it.", "batches": "cgtop batches measures it."}


class SweepView(LinesWidget[SweepSlice]):
    """The view of one kind of sweep. What is opened and scrolled is its own: a new state does not change it."""

    def __init__(self, view: SweepSlice, *, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002
        super().__init__(view, id=id, classes=classes)
        self.border_title = TITLES[view.kind]

    def draw(self, view: SweepSlice, width: int, height: int) -> list[Content]:
        """As `render_sweep` says."""
        return render_sweep(view, width, height)

    def show(self, view: SweepSlice) -> None:
        """Draw this slice, opened and scrolled as it is."""
        super().show(msgspec.structs.replace(view, cursor=self.view.cursor))

    def move(self, step: int) -> None:
        """Open the strategy so many places on; of cache lengths, scroll by so many rows."""
        cursor = self.view.cursor
        if self.view.kind == "cache_lens":
            top = max(0, min(len(self.view.rows) - 1, cursor.top + step))
            self._point(msgspec.structs.replace(cursor, top=top))
            return
        names = list(self.view.by_strategy)
        if names:
            at = names.index(_opened(self.view)) + step
            self._point(msgspec.structs.replace(cursor, strategy=names[max(0, min(len(names) - 1, at))]))

    def follow(self) -> None:
        """Open the latest strategy again, from its first row."""
        self._point(SweepCursor())

    def _point(self, cursor: SweepCursor) -> None:
        super().show(msgspec.structs.replace(self.view, cursor=cursor))


def render_sweep(view: SweepSlice, width: int, height: int) -> list[Content]:
    """How far it is, the rows, then the fit and what the figures say; words give way to rows."""
    if width < 1 or height < 1:
        return []
    if not view.rows and not view.waiting:
        head = _progress(view, width, folded=False)
        return [head, *wrapped(_before(view), width, height - 1)]
    words = _length_words(view) if view.kind == "cache_lens" else _batch_words(view)
    least = 2 if words and height >= 12 else 0
    body = _body(view, width, height - 1 - least)
    unfolded = view.kind == "cache_lens" or len(body) > len(view.rows) + len(view.by_strategy)
    head = _progress(view, width, folded=not unfolded and len(view.by_strategy) > 1)
    rest = wrapped(words, width, height - 1 - len(body))
    gap = [Content("")] if len(rest) + len(body) + 2 <= height and rest else []
    return [head, *body, *gap, *rest][:height]


def _body(view: SweepSlice, width: int, room: int) -> list[Content]:
    if room < 1:
        return []
    if view.kind == "cache_lens":
        heading, *rows = length_lines(view, width)
        return _scrolled(heading, rows, view.cursor.top, room, follow=view.running)
    heading, sections = batch_sections(view, width)
    if not sections:
        return length_lines(view, width)[1:][:room]
    if 1 + sum(len(section.lines) for section in sections) <= room:
        return [heading, *(line for section in sections for line in section.lines)]
    return _folded(heading, sections, _opened(view), room, follow=view.running)


def _scrolled(heading: Content, rows: list[Content], top: int, room: int, *, follow: bool) -> list[Content]:
    """As many rows as fit; while it runs those at the end, unless one scrolled."""
    shown = max(1, room - 1)
    if len(rows) <= shown:
        return [heading, *rows]
    last = len(rows) - shown
    first = min(top, last) if top or not follow else last
    return [heading, *rows[first : first + shown]][:room]


def _folded(heading: Content, sections: list[Section], opened: str, room: int, *, follow: bool) -> list[Content]:
    """The opened strategy with its rows, the others as a line each; the others go first where even that is too much."""
    current = next(section for section in sections if section.strategy == opened)
    others = max(0, room - 1 - len(current.lines))
    kept = [section for section in sections if section is not current][:others]
    lines = [heading]
    for section in sections:
        if section is current:
            own = section.lines
            space = room - 1 - len(kept)
            if len(own) > space:
                own = (own[0], *own[1:][-(space - 1) :]) if space > 1 else own[-1:]
            lines += own
        elif section in kept:
            lines.append(section.summary)
    return lines[:room]


def _opened(view: SweepSlice) -> str:
    names = list(view.by_strategy)
    return view.cursor.strategy if view.cursor.strategy in names else names[-1]


# -------------------------------------------------------------------------------------------------------- words


def _progress(view: SweepSlice, width: int, *, folded: bool) -> Content:
    done, wanted = len(view.rows), view.wanted
    of = f"{count(done)} of {count(wanted)} rows" if wanted is not None else f"{count(done)} rows"
    right = _legend(view) if width >= 100 else Content("")
    if folded and width >= 100:
        of += "; ↑ and ↓ open another way"
    if view.end is not None:
        mark = ("■ cancelled", "bold $text-warning") if view.end.cancelled else ("✓ measured", "bold $text-success")
        return spread(Content.assemble(mark, f", {of}"), right, width)
    if view.running:
        value = view.waiting[0] if view.waiting else None
        what = "cache length" if view.kind == "cache_lens" else "batch size"
        now = f", {what} {count(value)} now" if value is not None else ""
        return spread(Content.assemble(("▶ measuring", "bold $text-accent"), f" {of}{now}"), right, width)
    if view.rows:
        return spread(Content.assemble(("■ interrupted", "bold $text-warning"), f", {of}"), right, width)
    return Content.styled("not measured yet", "$muted")


def _legend(view: SweepSlice) -> Content:
    """The marks that rows carry and no heading explains."""
    noisy = any(row.verdict == "within_eager_noise" for row in view.rows)
    mark, style = VERDICTS["within_eager_noise"]
    guide = [Content.styled(f"{GUIDE_MARK} the guide's figure, RTX 3090", "$text-secondary")] if view.rows else []
    return Content("  ").join([*([Content.styled(f"{mark} within eager's noise", style)] if noisy else []), *guide])


def _before(view: SweepSlice) -> list[Content]:
    if view.recorded:
        how = LATER if view.coming else "Not in this recording up to here."
    elif view.no_capture:
        how = f"Not possible here: {clean(view.no_capture)}."
    else:
        how = "Press m to measure; it needs a loaded model and keeps every row if it is stopped."
    if view.elsewhere:
        where = [paragraph("Recorded", view.elsewhere)]
    else:
        where = [paragraph("With a GPU", COMMANDS[view.kind])] if view.recorded and not view.coming else []
    if view.kind == "cache_lens":
        guide = ", ".join(f"{row.tokens:,}: {row.total_mib} ({row.per_1000_mib})" for row in CACHE_LENGTHS)
        what = (
            "A StaticCache takes its bytes for max_cache_len tokens at once, so it grows with the length, not with use."
        )
        table = f"total MiB (per 1,000 tokens) on its RTX 3090: {guide}."
    else:
        guide = ", ".join(f"{row.batch_size}: {row.cumulative_mib:,}" for row in BATCH_SIZES)
        what = "A graph has a fixed batch size. A graph and a cache for each size add up; sharing avoids it."
        table = f"MiB added up over the batch sizes, caches of 1,024 tokens: {guide}."
    closed = []
    if view.token_bytes is not None:
        text = (
            f"a token of one sequence takes {count(view.token_bytes)} B, 1,024 tokens {size(1024 * view.token_bytes)}."
        )
        closed = [paragraph("Closed form", text)]
    return [Content(how), *where, Content(what), *closed, paragraph("Guide", table, "bold $text-secondary")]


def _pool_grows(view: SweepSlice) -> bool:
    held = {row.value: row.held_bytes for row in view.rows if row.status == "done" and row.held_bytes is not None}
    return bool(held) and held[min(held)] < held[max(held)]


def _length_words(view: SweepSlice) -> list[Content]:
    words = _wrong(view)
    end = view.end
    if end is not None and end.slope_bytes_per_token is not None and end.intercept_bytes is not None:
        slope = end.slope_bytes_per_token
        quality = f" (R² {end.r_squared:.5f})" if end.r_squared is not None else ""
        closed = f"; the closed form says {count(view.token_bytes)} B" if view.token_bytes is not None else ""
        if view.token_bytes is not None and slope > view.token_bytes and _pool_grows(view):
            closed += ", and the rest is what the pool holds for a step, in whole segments"
        words.append(
            paragraph(
                "Fit",
                f"overhead = {mib(round(end.intercept_bytes))} MiB + {count(slope)} B × tokens{quality}, which is "
                f"{slope * 1000 / MIB:,.1f} MiB per 1,000 and {slope * 1024 / MIB:,.1f} MiB per 1,024 tokens{closed}.",
                "bold $text-accent",
            )
        )
    done = [row for row in view.rows if row.status == "done" and row.total_bytes is not None]
    if len(done) >= 2:
        shortest, longest = min(done, key=lambda row: row.value), max(done, key=lambda row: row.value)
        first, last = per(shortest, 1000), per(longest, 1000)
        if first is not None and last is not None and first > last:
            words.append(
                paragraph(
                    "Why “per 1,000” falls",
                    f"it divides all of it by the length: {first / MIB:,.1f} at {count(shortest.value)}, "
                    f"{last / MIB:,.1f} at {count(longest.value)}. What does not grow is spread over more tokens; "
                    "each token costs the same.",
                )
            )
        fast, slow = shortest.tok_s, longest.tok_s
        if fast is not None and slow is not None and slow < fast:
            words.append(
                paragraph(
                    "Speed",
                    f"{tok_s(fast)} tok/s at {count(shortest.value)}, {tok_s(slow)} at {count(longest.value)}: "
                    "every step reads the whole StaticCache, also slots that hold no token yet.",
                )
            )
    if any(CACHE_LENGTH_BY_TOKENS.get(row.value) for row in done):
        text = "its totals are of what is allocated alone; overhead adds what the pool holds and the driver took."
        words.append(paragraph("Guide", text, "bold $text-secondary"))
    return [*words, *_notes(view)]


def _batch_words(view: SweepSlice) -> list[Content]:
    words = _wrong(view)
    totals = _totals(view)
    if totals:
        sizes = max(len(rows) for rows in view.by_strategy.values())
        best = min(totals, key=lambda name: totals[name])
        own = totals.get("own")
        if own is not None and best != "own":
            words.append(
                paragraph(
                    "What sharing saves",
                    f"{clean(best)} needs {size(totals[best])} for {count(sizes)} batch sizes, own caches and pools "
                    f"{size(own)}: {percent(totals[best], own)} of it.",
                    "bold $text-accent",
                )
            )
        largest_first, ascending = totals.get("shared-pool"), totals.get("shared-pool-ascending")
        if largest_first is not None and ascending is not None:
            words.append(
                paragraph(
                    "Order",
                    f"one pool takes {size(largest_first)} largest first and {size(ascending)} smallest first: "
                    + (
                        "a smaller graph fits into what a larger one left, not the other way round."
                        if largest_first < ascending
                        else "the order costs nothing here."
                    ),
                )
            )
    text = (
        "adds the StaticCaches of all sizes (144 MiB × batch size): 4,464 MiB for 1, 2, 4, 8, 16, by the closed form."
    )
    return [*words, paragraph("Guide", text, "bold $text-secondary"), *_notes(view)]


def _totals(view: SweepSlice) -> dict[str, int]:
    """Bytes of each strategy that measured every size it was asked for."""
    found = {}
    for name, rows in view.by_strategy.items():
        totals = [row.total_bytes for row in rows if row.status == "done" and row.total_bytes is not None]
        whole = view.begin is None or len(totals) == len(view.begin.values)
        if totals and whole and len(totals) == len(rows):
            found[name] = max(totals)
    return found


def _wrong(view: SweepSlice) -> list[Content]:
    """What is wrong with rows that were measured."""
    found = []
    for row in view.rows:
        if row.status == "done" and row.reason:
            lengths = view.kind == "cache_lens"
            where = f"{row.value:,} tokens" if lengths else f"{clean(row.strategy)}, batch {row.value:,}"
            found.append(paragraph(where, clean(row.reason), "bold $text-error"))
    return found


def _notes(view: SweepSlice) -> list[Content]:
    return [Content.styled(clean(note), "$muted") for note in (view.end.notes if view.end is not None else ())]
