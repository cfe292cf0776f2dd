"""Which pane draws which view: the one list of them. A view is there when its pane is."""

import time
from collections.abc import Callable, Iterator, Mapping
from types import ModuleType

from ..views import ViewId
from .pane import Pane
from .phases_pane import PhasesPane

Clock = Callable[[], float]


def others() -> ModuleType:
    """The module of all panes but the first: no part of the first screen, so imported when one of them is."""
    from . import run_panes

    return run_panes


MAKERS: dict[ViewId, Callable[[Clock], Pane]] = {
    "phases": PhasesPane,
    "caches": lambda clock: others().CachesPane(),
    "map": lambda clock: others().MapPane(),
    "addresses": lambda clock: others().AddressesPane(),
    "cache_lens": lambda clock: others().SweepPane("cache_lens"),
    "batches": lambda clock: others().SweepPane("batches"),
    "compare": lambda clock: others().ComparePane(),
    "checks": lambda clock: others().ChecksPane(),
    "guide": lambda clock: others().GuidePane(),
}
"""In the order of their keys."""


class Panes(Mapping[ViewId, Pane]):
    """A pane for each view, made when it is asked for the first time."""

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self._clock = clock
        self._made: dict[ViewId, Pane] = {}

    def __getitem__(self, view: ViewId) -> Pane:
        if view not in self._made:
            self._made[view] = MAKERS[view](self._clock)
        return self._made[view]

    def __iter__(self) -> Iterator[ViewId]:
        return iter(MAKERS)

    def __len__(self) -> int:
        return len(MAKERS)

    def __contains__(self, view: object) -> bool:
        return view in MAKERS
