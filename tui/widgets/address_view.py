"""The tensors whose addresses a graph holds, and a demonstration of what happens when one of them is rebound."""

from collections.abc import Sequence

import msgspec
from textual.content import Content

from ...core.events import Addresses, Demonstration, FixedTensor
from ..format import NA, clean, count, significant, size
from .address_slice import AddressCursor, AddressSlice, grouped
from .columns import Column, column, fitting, paragraph, table_lines
from .lines import LinesWidget, wrapped

__all__ = ["AddressCursor", "AddressSlice", "AddressView", "render_addresses", "render_demonstration"]

HOW = {
    "in-graph": "a kernel of the step writes the next value: the replay does it, the host does nothing",
    "copy_": "the host copies the next value into the same place before a replay",
    "constant": "it never changes",
}
HOW_WITHOUT_GRAPH = {
    "in-graph": "the step itself writes the next value; a graph would hold that write",
    "copy_": "the host copies the next value into the same place before a step",
    "constant": HOW["constant"],
}
WORDS = 2
"""Lines of explanation that the table leaves room for."""


class AddressView(LinesWidget[AddressSlice]):
    """The view of the fixed tensors. What is opened and scrolled is its own: a new state does not change it."""

    BORDER_TITLE = "Addresses that a graph depends on"

    def draw(self, view: AddressSlice, width: int, height: int) -> list[Content]:
        """As `render_addresses` says."""
        return render_addresses(view, width, height)

    def show(self, view: AddressSlice) -> None:
        """Draw this slice, opened and scrolled as it is."""
        super().show(msgspec.structs.replace(view, cursor=self.view.cursor))

    def toggle(self) -> None:
        """Every layer by itself, or the layers of a kind in one row."""
        self._point(AddressCursor(opened=not self.view.cursor.opened))

    def scroll(self, lines: int) -> None:
        """Move down by so many rows, up by negative ones."""
        rows = table_rows(self.view)
        top = max(0, min(len(rows) - 1, self.view.cursor.top + lines))
        self._point(msgspec.structs.replace(self.view.cursor, top=top))

    def _point(self, cursor: AddressCursor) -> None:
        super().show(msgspec.structs.replace(self.view, cursor=cursor))


def render_addresses(view: AddressSlice, width: int, height: int) -> list[Content]:
    """The verdict, the tensors, how their values change, then the demonstration; on few lines it is shortened."""
    if width < 1 or height < 1:
        return []
    shown = render_demonstration(view, width)
    if view.addresses is None or not view.addresses.fixed:
        none = "no fixed tensors yet: they are listed once the StaticCache holds the prompt (copy KV)"
        if view.over:
            none = "this run told of no fixed tensors"
        return wrapped([Content.styled(none, "$muted"), *shown], width, height)
    head = _verdict(view.addresses, width, replays=not view.no_capture)
    rows = table_rows(view)
    below = wrapped(shown, width, max(1, height // 2 if view.demonstration is not None else height // 4))
    room = height - 1 - len(below)
    words = wrapped(_how_words(view), width, min(WORDS + 1, max(0, room - len(rows) - 1)))
    compared = bool(view.addresses.checked or view.addresses.moved)
    table = _table(rows, view.cursor.top, width, room - len(words), compared=compared)
    lines = [head, *table, *words, *below]
    if view.demonstration is not None and height < 12:
        lines = [head, *wrapped(shown, width, height - 1)]
    gap = height - len(lines)
    if gap > 0 and len(words) + len(table) > 2:
        lines.insert(len(lines) - len(below), Content(""))
    return lines[:height]


class Entry(msgspec.Struct, frozen=True):
    """A row of the table."""

    name: str
    tensors: tuple[FixedTensor, ...]


def table_rows(view: AddressSlice) -> tuple[Entry, ...]:
    """A row for each kind, or for each tensor where they are opened; those that moved are always by themselves."""
    entries: list[Entry] = []
    for like in grouped(view.addresses.fixed) if view.addresses is not None else ():
        if view.cursor.opened:
            entries += (Entry(tensor.name, (tensor,)) for tensor in like.tensors)
            continue
        entries.append(Entry(like.title, like.tensors))
        if len(like.tensors) > 1:
            entries += (Entry(f"  {tensor.name}", (tensor,)) for tensor in like.moved)
    return tuple(entries)


def _verdict(addresses: Addresses, width: int, *, replays: bool) -> Content:
    number = f"{count(len(addresses.fixed))} fixed tensors"
    if addresses.moved:
        of = f" of {number}" if width >= 60 else ""
        return Content.assemble((f"✗ {count(addresses.moved)} moved", "bold $text-error"), f"{of}: stale graph")
    if not addresses.checked:
        return Content.assemble((number, "bold"), (", not compared yet", "$muted"))
    times = f"compared {count(addresses.checked)} times"
    if width < 76:
        return Content.assemble(("✓ 0 moved", "bold $text-success"), (f", {times}", "$muted"))
    every = ", before every replay" if width >= 90 and replays else ""
    return Content.assemble(("✓ 0 moved", "bold $text-success"), f" of {number}, {times} when last told{every}")


def _table(rows: Sequence[Entry], top: int, width: int, room: int, *, compared: bool) -> list[Content]:
    """Heading and rows that fit, from the scrolled one on; how many are left out stands in the last line."""
    if room < 2:
        return []
    lines = table_lines(_columns(rows, width, compared=compared))
    heading, body = lines[0], lines[1:]
    if len(body) <= room - 1:
        return lines
    shown = max(1, room - 2)
    first = max(0, min(top, len(body) - shown))
    after = len(body) - first - shown
    more = [Content.styled(f"↑ {first} above  ↓ {after} below", "$muted")] if room > 2 else []
    return [heading, *body[first : first + shown], *more]


def _columns(rows: Sequence[Entry], width: int, *, compared: bool) -> tuple[Column, ...]:
    state = (_state(row, compared=compared) for row in rows)
    return fitting(
        (
            column("tensor", (clean(row.name) for row in rows), 0, left=True),
            column("address", (_address(row.tensors, width) for row in rows), 2, left=True),
            column("bytes", (_bytes(row.tensors, width) for row in rows), 3),
            column("moved", state, 1),
            column("next value", (row.tensors[0].update for row in rows), 4, left=True),
        ),
        width,
    )


def _address(tensors: Sequence[FixedTensor], width: int) -> str:
    first = f"{tensors[0].address:#014x}"
    if len(tensors) == 1:
        return first
    return f"{first} … {tensors[-1].address:#014x}" if width >= 90 else f"{first} …"


def _bytes(tensors: Sequence[FixedTensor], width: int) -> str:
    one = size(tensors[0].bytes)
    if len(tensors) == 1:
        return one
    return (
        f"{len(tensors)} × {one} = {size(sum(tensor.bytes for tensor in tensors))}"
        if width >= 90
        else f"{len(tensors)} × {one}"
    )


def _state(row: Entry, *, compared: bool) -> Content:
    moved = sum(tensor.moved for tensor in row.tensors)
    if not moved:
        return Content.styled("no", "$text-success") if compared else Content.styled(NA, "$muted")
    return Content.styled("✗ moved" if len(row.tensors) == 1 else f"✗ {moved}", "bold $text-error")


def _how_words(view: AddressSlice) -> list[Content]:
    fixed = view.addresses.fixed if view.addresses is not None else ()
    present = dict.fromkeys(tensor.update for tensor in fixed)
    how = HOW_WITHOUT_GRAPH if view.on_cpu or view.no_capture else HOW
    return [paragraph(update, Content.styled(f"{how[update]}.", "$muted")) for update in present]


# ----------------------------------------------------------------------------------------------- demonstration


def render_demonstration(view: AddressSlice, width: int) -> list[Content]:
    """The demonstration as paragraphs: how to start it, or what was fed, expected and replayed, and both addresses."""
    shown = view.demonstration
    if shown is None:
        return [Content.assemble(("Break it: ", "bold $text-accent"), (_invitation(view), "$muted"))]
    fine = shown.follows
    mark = ("✓ as expected" if fine else "✗ stale", "bold $text-success" if fine else "bold $text-error")
    room = max(1, width - 10)
    return [
        _headline(shown, fine),
        Content.assemble(("fed       ", "$muted"), _ids(shown.fed_ids, room)),
        Content.assemble(("expected  ", "$muted"), _ids(shown.expected_ids, room - 13), ("  eager steps", "$muted")),
        Content.assemble(("replayed  ", "$muted"), (_ids(shown.replay_ids, room - 15), "bold"), "  ", mark),
        *_logits(shown),
        _places(shown),
        *_guard(shown),
        *_next(view, shown),
    ]


def _invitation(view: AddressSlice) -> str:
    if view.no_capture:
        return f"not possible here: {clean(view.no_capture)}."
    if view.recorded:
        return "not shown up to here in this recording."
    if not view.can_break:
        return "needs a captured graph: run the phases up to capture first."
    return "press b to rebind the input instead of copying into it, and watch the output go stale."


def _headline(shown: Demonstration, fine: bool) -> Content:
    number = f"{count(len(shown.replay_ids))} replays"
    if shown.stage == "broken":
        did = "follow what is fed all the same" if fine else "went on reading the old one"
        what = f"the input was rebound to a new tensor; {number} {did}."
        return Content.assemble(("BROKEN: ", "bold $text-error"), what)
    what = f"the captured input is back and is copied into; {number}{' follow what is fed again' if fine else ''}."
    return Content.assemble(("MENDED: ", "bold $text-success" if fine else "bold $text-error"), what)


def _logits(shown: Demonstration) -> list[Content]:
    """How far apart the logits are, which decides; an id may flip where two of them are nearly equal."""
    if shown.difference is None or shown.tolerance is None:
        return []
    apart = f"logits {significant(shown.difference)} apart, {significant(shown.tolerance)} is rounding"
    flipped = sum(ours != theirs for ours, theirs in zip(shown.replay_ids, shown.expected_ids, strict=False))
    if shown.follows and flipped:
        ids = "1 id" if flipped == 1 else f"{count(flipped)} ids"
        apart += f": {ids} flipped where two logits are nearly equal, as between eager runs too"
    return [Content.styled(f"{apart}.", "$muted")]


def _ids(ids: Sequence[int], room: int) -> str:
    """As many ids as fit."""
    if not ids:
        return NA
    text = ""
    for position, token in enumerate(ids):
        more = f"{text} {token}".lstrip()
        if len(more) + (2 if position < len(ids) - 1 else 0) > room:
            return f"{text} …".lstrip()
        text = more
    return text


def _places(shown: Demonstration) -> Content:
    same = shown.captured_address == shown.present_address
    if same:
        return Content(f"the graph reads {shown.captured_address:#014x}, where the code writes: the same address")
    return Content.assemble(
        "the graph reads ",
        (f"{shown.captured_address:#014x}", "bold"),
        ", the code writes ",
        (f"{shown.present_address:#014x}", "bold $text-error"),
    )


def _guard(shown: Demonstration) -> list[Content]:
    if not shown.refused:
        return []
    return [
        paragraph(
            "The guard", f"“{clean(shown.refused)}” (let through for the demonstration only)", "bold $text-warning"
        )
    ]


def _next(view: AddressSlice, shown: Demonstration) -> list[Content]:
    if view.recorded or shown.stage == "mended":
        return []
    return [Content.styled("press b again to put the captured input back.", "$muted")]
