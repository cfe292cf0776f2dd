"""The guide's table of the two caches with what was measured, and what a student should take from it."""

from textual.content import Content

from ...core.guide import CACHE_PROPERTIES, CacheProperty
from ..format import NA, clean, count, percent, size
from .cache_slice import CacheSlice
from .columns import column, paragraph, table_lines, table_width

HOLDS, DIFFERS, OTHER_REASON, UNKNOWN = "✓", "✗", "≠", "?"
_STYLES = {
    HOLDS: "$text-success",
    DIFFERS: "bold $text-warning",
    OTHER_REASON: "bold $text-warning",
    UNKNOWN: "$muted",
}
IDS_SHOWN = 8
HIGH = 0.9
"""A cache that the prompt fills to more than this is used well from the start."""


def guide_table(view: CacheSlice, width: int) -> list[Content]:
    """The guide's four rows: for each cache what it says and what was measured, marked where they differ.

    Side by side where there is room, else one line for each cache.
    """
    measured = {row.id: _measured(row, view) for row in CACHE_PROPERTIES}
    columns = (
        column("the guide's table", (row.title for row in CACHE_PROPERTIES), 0, left=True),
        column("DynamicCache", (row.dynamic for row in CACHE_PROPERTIES), 1, left=True),
        column("measured", (_marked(*measured[row.id][0]) for row in CACHE_PROPERTIES), 2, left=True),
        column("StaticCache", (row.static for row in CACHE_PROPERTIES), 3, left=True),
        column("measured", (_marked(*measured[row.id][1]) for row in CACHE_PROPERTIES), 4, left=True),
    )
    if table_width(columns) <= width:
        return table_lines(columns)
    lines = [Content.styled("the guide's table, and measured", "$muted")]
    for row in CACHE_PROPERTIES:
        lines.append(Content.styled(row.title, "bold"))
        for name, says, found in (("dynamic", row.dynamic, 0), ("static", row.static, 1)):
            guide = f"  {name} " if width < 60 else f"  {name.ljust(7)} guide: {says.ljust(13)} "
            lines.append(Content.assemble((guide, "$muted"), _marked(*measured[row.id][found])))
    return lines


def _marked(mark: str, text: str) -> Content:
    return Content.assemble((f"{mark} ", _STYLES[mark]), (text, "$muted" if mark == UNKNOWN else ""))


def _measured(row: CacheProperty, view: CacheSlice) -> tuple[tuple[str, str], tuple[str, str]]:
    """Mark and finding for the DynamicCache and for the StaticCache."""
    match row.id:
        case "allocation":
            return _allocation(view)
        case "addresses":
            return _addresses(view)
        case "graph":
            return _dynamic_graph(view), _static_graph(view)
        case _:
            return _efficiency(view)


def _allocation(view: CacheSlice) -> tuple[tuple[str, str], tuple[str, str]]:
    place = view.dynamic_where or (f"at {count(view.dynamic_position)} tokens" if view.dynamic_position else "")
    dynamic = f"{size(view.dynamic_bytes)} {place}".rstrip()
    static = f"{size(view.static_bytes)} from the start"
    return _known(view.dynamic_bytes, dynamic), _known(view.static_bytes, static)


def _known(figure: object, text: str) -> tuple[str, str]:
    return (HOLDS, text) if figure is not None else (UNKNOWN, NA)


def _addresses(view: CacheSlice) -> tuple[tuple[str, str], tuple[str, str]]:
    dynamic = (UNKNOWN, "not watched yet")
    if view.moved_steps is not None:
        found = f"moved in {count(view.moved_steps)} of {count(view.watched_steps)} steps"
        dynamic = (HOLDS if view.moved_steps else DIFFERS, found)
    static = (UNKNOWN, NA)
    if view.static_moves is not None:
        static = (DIFFERS if view.static_moves else HOLDS, f"{count(view.static_moves)} tensors moved")
    return dynamic, static


def _dynamic_graph(view: CacheSlice) -> tuple[str, str]:
    capture = view.capture
    if capture is None:
        return UNKNOWN, "n/a here" if view.no_capture else "not attempted"
    if not capture.captured:
        return HOLDS, "capture failed"
    return (DIFFERS, "captured, and usable") if capture.usable else (OTHER_REASON, "captured, but useless")


def _static_graph(view: CacheSlice) -> tuple[str, str]:
    graph = view.by_mode.get("graph")
    if graph is None or not graph.replays:
        return UNKNOWN, "n/a here" if view.no_capture else "no replay yet"
    replays = f"{count(graph.replays)} replays"
    verification = view.verification
    if verification is None:
        return UNKNOWN, f"{replays}, not verified"
    if verification.verdict == "mismatch":
        return DIFFERS, f"{replays}, wrong results"
    return HOLDS, f"{replays}, verified"


def _efficiency(view: CacheSlice) -> tuple[tuple[str, str], tuple[str, str]]:
    used = view.dynamic_in_use
    dynamic = _known(used, f"{percent(used, 1.0)} of it in use")
    used = view.static_in_use
    if view.prompt_in_use is None:
        return dynamic, _known(used, f"{percent(used, 1.0)} of it in use")
    # Decoding fills it, lap by lap; what the guide's word is about stands at the start.
    started = f"{percent(view.prompt_in_use, 1.0)} at first"
    found = f"{percent(used, 1.0)} now, {started}" if used is not None else started
    if view.static_bytes is None:
        return dynamic, (UNKNOWN, f"{started}, by the settings")
    return dynamic, (DIFFERS if view.prompt_in_use > HIGH else HOLDS, found)


# -------------------------------------------------------------------------------------------------------- words


def capture_outcome(view: CacheSlice) -> Content:
    """What came of a capture on a DynamicCache, or how one attempts it."""
    label, capture = "Capture on a DynamicCache", view.capture
    if capture is None:
        if view.no_capture:
            text = f"not possible here: {clean(view.no_capture)}."
        elif view.recorded:
            text = "not attempted up to here."
        else:
            text = "press t to attempt it and see what its replays do."
        return paragraph(label, Content.styled(text, "$muted"))
    if not capture.captured:
        return paragraph(label, f"it fails, as the guide says: {clean(capture.error) or 'no reason given'}.")
    parts = ["it succeeds."]
    if capture.length_before is not None and capture.length_after is not None and capture.replays:
        grown = capture.length_after - capture.length_before
        verb = f"grew by {count(grown)}" if grown else "stayed"
        parts.append(f"In {count(capture.replays)} replays its length {verb}: {count(capture.length_after)} tokens.")
    if capture.replay_ids:
        parts.append(f"Replays gave {_ids(capture.replay_ids)}; eager steps give {_ids(capture.eager_ids)}.")
    if capture.usable:
        parts.append("So it is usable here, which the guide rules out.")
    else:
        parts.append("The guide's “no” holds for another reason than a failed capture:")
        parts.append(f"{clean(capture.note) or 'its replays do not follow the tokens'}.")
    return paragraph(label, " ".join(parts), "bold" if capture.usable else "bold $text-warning")


def _ids(ids: tuple[int, ...]) -> str:
    if not ids:
        return NA
    return " ".join(map(str, ids[:IDS_SHOWN])) + (" …" if len(ids) > IDS_SHOWN else "")


def lessons(view: CacheSlice) -> list[Content]:
    """What the figures mean, for a student; only sentences whose figures are known."""
    found = []
    if view.moved_steps and view.dynamic_bytes is not None and view.token_bytes is not None:
        found.append(
            paragraph(
                "Why it moves",
                f"a DynamicCache joins old and new into new tensors, so a step that adds {count(view.token_bytes)} B "
                f"writes all {size(view.dynamic_bytes)} again, elsewhere. A graph would go on reading the old place.",
            )
        )
    if view.static_bytes is not None:
        unused = view.static_in_use
        kept = size(round(view.static_bytes * (1 - unused))) if unused is not None else NA
        found.append(
            paragraph(
                "What it costs",
                f"the StaticCache takes {size(view.static_bytes)} for {count(view.capacity)} tokens at once"
                + (f"; {kept} of it wait for tokens." if unused is not None else "."),
            )
        )
    eager, graph = view.allocations_per_token("eager"), view.allocations_per_token("graph")
    if eager is not None and graph is not None:
        found.append(
            paragraph(
                "What it buys",
                f"eager steps on the same StaticCache still ask the allocator {count(eager)} times a token, "
                f"replays {count(graph)} times: fixed addresses make the graph possible, the graph saves the asking.",
            )
        )
    return found
