"""Where the device's memory is: a stacked bar and its legend."""

from collections.abc import Mapping, Sequence

import msgspec
from textual.content import Content

from ...core.events import Memory
from ...core.memory_map import BUCKET_BY_ID, REQUESTED_BUCKETS
from ..format import NA, clean, mib, percent, size
from .buckets import BUCKET_ORDER, FREE_GLYPH, look
from .lines import LinesWidget, spread

ZOOM_HEIGHT = 5
"""From this height on there is a second bar even where the legend loses entries by it."""
ZOOM_WIDTH = 48
"""From this width on there is more than one bar."""
UNKNOWN_NAMED = 3
"""So many buckets that cannot be known are named each."""
_UNKNOWN = "unknown"


class MemoryView(msgspec.Struct, frozen=True):
    """What the memory panel shows. `letters`: fill the bar with letters, for screens without colour."""

    memory: Memory | None = None
    letters: bool = False
    on_cpu: bool = False


class MemoryBar(LinesWidget[MemoryView]):
    """The device memory panel."""

    BORDER_TITLE = "Device memory (MiB)"

    def draw(self, view: MemoryView, width: int, height: int) -> list[Content]:
        """As `render_memory` says."""
        return render_memory(view, width, height)


def render_memory(view: MemoryView, width: int, height: int) -> list[Content]:
    """The total, the bars that fit (see `bars`), then the legend."""
    memory = view.memory
    if memory is None:
        return [Content.styled("nothing measured yet", "$muted")]
    head = _headline(memory, width, on_cpu=view.on_cpu)
    rows = _rows(memory, width)
    legend = len(legend_lines(memory, width, height))
    if 1 + len(rows) + legend > height:
        rows = rows[: 2 if height >= ZOOM_HEIGHT or 3 + legend <= height else 1]
    lines = [head, *_drawn(rows, width, letters=view.letters)]
    return [*lines, *legend_lines(memory, width, height - len(lines))][:height]


def bars(memory: Memory, width: int, *, letters: bool) -> list[Content]:
    """Bars with a label each, the needed one first; in each a cell is worth the same number of bytes.

    What is used; that again without a bucket that takes more than half of it, beside which the others cannot be seen;
    the whole device.
    """
    return _drawn(_rows(memory, width), width, letters=letters)


def _rows(memory: Memory, width: int) -> list[tuple[str, Mapping[str, int]]]:
    """Label and buckets of each bar."""
    used = {name: count for name, count in memory.buckets.items() if name != "free" and count > 0}
    total = sum(used.values())
    word = "used" if memory.total_bytes is not None else "tensors"
    rows: list[tuple[str, Mapping[str, int]]] = [(f"{word}, to scale" if width >= ZOOM_WIDTH else word, used)]
    largest = max(used, key=lambda name: used[name], default=None)
    if largest is not None and 2 * used[largest] > total > used[largest]:
        rest = {name: count for name, count in used.items() if name != largest}
        rows.append((f"zoom ×{_factor(total / sum(rest.values()))}, without {_title(largest)}", rest))
    if memory.total_bytes is not None and "free" in memory.buckets:
        rows.append(("used and free", memory.buckets))
    return rows if width >= ZOOM_WIDTH else rows[:1]


def _drawn(rows: Sequence[tuple[str, Mapping[str, int]]], width: int, *, letters: bool) -> list[Content]:
    """The bars one below the other; labels take as much room as the longest of these needs."""
    room = max(len(label) for label, _ in rows)
    return [
        Content.assemble((f"{label.ljust(room)} ", "$muted"), stacked_bar(buckets, width - room - 1, letters=letters))
        for label, buckets in rows
    ]


def _factor(value: float) -> str:
    return f"{value:.1f}" if value < 9.95 else f"{value:,.0f}"


def _headline(memory: Memory, width: int, *, on_cpu: bool) -> Content:
    if memory.total_bytes is None:
        registered = sum(memory.buckets.get(name, 0) for name in REQUESTED_BUCKETS)
        where = "registered tensors; no total is claimed on the CPU" if on_cpu else "registered tensors; total n/a"
        return Content.assemble((size(registered), "bold"), (f"  {where}", "$muted"))
    free = memory.free_bytes if memory.free_bytes is not None else memory.buckets.get("free")
    used = memory.total_bytes - free if free is not None else None
    left = Content.assemble(
        (size(used), "bold"), f" of {size(memory.total_bytes)} used  ", (percent(used, memory.total_bytes), "bold")
    )
    right = Content.assemble((f"{FREE_GLYPH} free {size(free)}", "$muted"))
    if not memory.settled:
        right = Content.assemble(("unsettled ", "$text-warning"), right)
    return spread(left, right, width) if left.cell_length + right.cell_length < width else left


def bar_cells(buckets: Mapping[str, int], width: int) -> dict[str, int]:
    """How many of `width` cells each bucket gets, by largest remainder; they add up to `width`.

    A bucket is never more than one cell off its share, so one that is too small for a cell has none, as has one of a
    negative size (`unattributed` may be).
    """
    positive = {name: count for name, count in buckets.items() if count > 0}
    total = sum(positive.values())
    if width < 1 or not total:
        return {}
    cells = {name: count * width // total for name, count in positive.items()}
    by_remainder = sorted(positive, key=lambda name: positive[name] * width % total, reverse=True)
    for name in by_remainder[: width - sum(cells.values())]:
        cells[name] += 1
    return {name: count for name, count in cells.items() if count}


def stacked_bar(buckets: Mapping[str, int], width: int, *, letters: bool) -> Content:
    """One line of exactly `width` cells, the buckets side by side in their order."""
    cells = bar_cells(buckets, width)
    if not cells:
        return Content.styled(FREE_GLYPH * max(0, width), "$muted")
    parts: list[tuple[str, str]] = []
    for name in sorted(cells, key=lambda bucket: BUCKET_ORDER.get(bucket, -1)):
        count = cells[name]
        if name == "free":
            parts.append((FREE_GLYPH * count, "$muted"))
        elif letters:
            parts.append((look(name).letter * count, ""))
        else:
            parts.append((look(name).letter.ljust(count), look(name).block))
    return Content.assemble(*parts)


def legend_lines(memory: Memory, width: int, height: int) -> list[Content]:
    """An entry for every bucket that is not 0, then those that cannot be known, flowed into at most `height` lines.

    Many that cannot be known are one entry.

    `outside_allocator` stands for three others, so it is no unknown beside them. Where the entries do not fit, the
    smallest are left out and counted.
    """
    names = sorted(
        (name for name, count in memory.buckets.items() if count and name != "free"),
        key=lambda bucket: BUCKET_ORDER.get(bucket, 99),
    )
    unknown = [
        name
        for name in BUCKET_ORDER
        if name in memory.reasons and name not in memory.buckets and name != "outside_allocator"
    ]
    entries = {name: _legend_entry(name, memory.buckets.get(name)) for name in names}
    if len(unknown) <= UNKNOWN_NAMED:
        entries |= {name: _legend_entry(name, None) for name in unknown}
    else:  # as on a CPU, where they would hide what is known
        entries[_UNKNOWN] = Content.styled(f"{len(unknown)} others {NA}", "$muted")
    left_out = 0
    while True:
        more = [Content.styled(f"+{left_out} more", "$muted")] if left_out else []
        lines = flow([*entries.values(), *more], width)
        if len(lines) <= max(0, height) or not entries:
            return lines[: max(0, height)]
        smallest = min(entries, key=lambda name: abs(memory.buckets.get(name, 0)))
        del entries[smallest]
        left_out += 1


def _legend_entry(name: str, count: int | None) -> Content:
    title = _title(name)
    chip = (look(name).letter, look(name).block)
    if count is None:
        return Content.assemble(chip, (f" {title} {NA}", "$muted"))
    return Content.assemble(chip, f" {title} ", (mib(count), "bold"))


def _title(name: str) -> str:
    return BUCKET_BY_ID[name].title if name in BUCKET_BY_ID else clean(name)


def flow(entries: Sequence[Content], width: int) -> list[Content]:
    """Entries one after another, two cells apart, on as many lines as that takes."""
    lines: list[list[Content]] = []
    used = width
    for entry in entries:
        if not lines or used + 2 + entry.cell_length > width:
            lines.append([])
            used = -2
        lines[-1].append(entry)
        used += 2 + entry.cell_length
    return [Content("  ").join(line) for line in lines]
