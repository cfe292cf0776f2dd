"""The views of a run, in the order of their keys: `1` is the first. What draws one is in `screens.views`."""

from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

from ..core.events import Check, Comparison, Event, PhaseEnd, SweepRow

ViewId = Literal["phases", "caches", "map", "addresses", "cache_lens", "batches", "compare", "checks", "guide"]


class View(msgspec.Struct, frozen=True):
    """A view: its names from wide to narrow, and what it shows in a line."""

    id: ViewId
    title: str
    short: str
    what: str


VIEWS: tuple[View, ...] = (
    View("phases", "Phases", "Phases", "the phases, the device's memory and the decode speed"),
    View("caches", "Caches", "Caches", "StaticCache against DynamicCache while tokens are added"),
    View("map", "Memory map", "Map", "the allocator's segments and blocks"),
    View("addresses", "Addresses", "Addr", "what the graph's addresses fix, and what moved"),
    View("cache_lens", "Cache lengths", "Lens", "what each length of the StaticCache costs"),
    View("batches", "Batch sizes", "Batch", "what each way of serving several batch sizes costs"),
    View("compare", "Compare", "Modes", "decode modes against each other, interleaved"),
    View("checks", "Checks", "Check", "whether the machine is in order, one verdict a line"),
    View("guide", "Guide", "Guide", "the guide's statements, judged by this run as far as it has come"),
)
VIEW_BY_ID: dict[ViewId, View] = {view.id: view for view in VIEWS}


def view_key(view: ViewId) -> str:
    """The key that shows a view: its place in the list, from 1."""
    return str(VIEWS.index(VIEW_BY_ID[view]) + 1)


def views_in(events: Iterable[Event]) -> frozenset[ViewId]:
    """The views that these events fill with an experiment."""
    found: set[ViewId] = set()
    for event in events:
        match event:
            case Check():
                found.add("checks")
            case SweepRow():
                found.add(event.sweep)
            case Comparison():
                found.add("compare")
    return frozenset(found)


def opening_view(events: Sequence[Event]) -> ViewId:
    """The view that a recording is opened in: that of its experiment, or the phases if it went on to the replay."""
    if any(isinstance(event, PhaseEnd) and event.phase == "replay" and event.status == "done" for event in events):
        return "phases"
    found = views_in(events)  # checks make a comparison of their own
    order: tuple[ViewId, ...] = ("checks", "batches", "cache_lens", "compare")
    return next((view for view in order if view in found), "phases")
