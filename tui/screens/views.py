"""Which pane draws which view: the one list of them. A view is there when its pane is."""

import time
from collections.abc import Callable

from ..views import ViewId
from .pane import Pane
from .phases_pane import PhasesPane
from .run_panes import AddressesPane, CachesPane, ChecksPane, ComparePane, GuidePane, MapPane, SweepPane


def panes(clock: Callable[[], float] = time.monotonic) -> dict[ViewId, Pane]:
    """A new pane for each view, in the order of their keys."""
    return {
        "phases": PhasesPane(clock),
        "caches": CachesPane(),
        "map": MapPane(),
        "addresses": AddressesPane(),
        "cache_lens": SweepPane("cache_lens"),
        "batches": SweepPane("batches"),
        "compare": ComparePane(),
        "checks": ChecksPane(),
        "guide": GuidePane(),
    }
