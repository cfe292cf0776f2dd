"""The panes of the views that are one widget: what each is shown, and what the arrows and `enter` do in it."""

from ...core.events import SweepKind
from ..claim_words import WORDS
from ..format import clean
from ..widgets.address_view import AddressSlice, AddressView
from ..widgets.cache_view import CacheSlice, CacheView
from ..widgets.check_view import CheckSlice, CheckView, check_lines
from ..widgets.compare_view import CompareSlice, CompareView
from ..widgets.guide_view import GuideSlice, GuideView, claim_lines
from ..widgets.memory_map import MapSlice, MemoryMapView
from ..widgets.sweep_view import SweepSlice, SweepView
from .pane import Opened, WidgetPane


class CachesPane(WidgetPane[CacheSlice]):
    """StaticCache against DynamicCache."""

    def __init__(self) -> None:
        super().__init__(
            "caches", CacheView(CacheSlice()), lambda state, around: CacheSlice.of(state, recorded=around.recorded)
        )


class MapPane(WidgetPane[MapSlice]):
    """The allocator's map; the arrows pick a block."""

    def __init__(self) -> None:
        self.map = MemoryMapView(MapSlice())
        super().__init__(
            "map",
            self.map,
            lambda state, around: MapSlice.of(state, recorded=around.recorded, letters=around.letters),
        )

    def move(self, step: int) -> None:
        """The block some rows down."""
        self.map.move(0, step)

    def move_across(self, step: int) -> None:
        """The block some places on."""
        self.map.move(step, 0)

    def activate(self) -> str:
        """Sort the segments the other way."""
        self.map.toggle_order()
        return "segments by address" if self.map.order == "address" else "segments by size, the largest first"


class AddressesPane(WidgetPane[AddressSlice]):
    """The fixed tensors; the arrows scroll."""

    def __init__(self) -> None:
        self.addresses = AddressView(AddressSlice())
        super().__init__(
            "addresses",
            self.addresses,
            lambda state, around: AddressSlice.of(state, recorded=around.recorded),
        )

    def move(self, step: int) -> None:
        """Some rows down."""
        self.addresses.scroll(step)

    def activate(self) -> str:
        """Every layer by itself, or condensed."""
        self.addresses.toggle()
        return "every layer by itself" if self.addresses.view.cursor.opened else "the layers of a kind in one row"


class SweepPane(WidgetPane[SweepSlice]):
    """A sweep; the arrows open a strategy, or scroll."""

    def __init__(self, kind: SweepKind) -> None:
        self.sweep = SweepView(SweepSlice(kind=kind))
        super().__init__(
            kind,
            self.sweep,
            lambda state, around: SweepSlice.of(state, kind, recorded=around.recorded, coming=kind in around.coming),
        )

    def move(self, step: int) -> None:
        """The strategy some places on, or some rows down."""
        self.sweep.move(step)

    def reset(self) -> None:
        """Follow the rows as they come."""
        self.sweep.follow()


class ComparePane(WidgetPane[CompareSlice]):
    """Decode modes against each other."""

    def __init__(self) -> None:
        super().__init__(
            "compare",
            CompareView(CompareSlice()),
            lambda state, around: CompareSlice.of(state, recorded=around.recorded, coming="compare" in around.coming),
        )


class ChecksPane(WidgetPane[CheckSlice]):
    """The checks of the machine; the arrows select one, `enter` opens it."""

    def __init__(self) -> None:
        self.checks = CheckView(CheckSlice())
        super().__init__(
            "checks",
            self.checks,
            lambda state, around: CheckSlice.of(state, recorded=around.recorded, coming="checks" in around.coming),
        )

    def move(self, step: int) -> None:
        """The check some rows down."""
        self.checks.move(step)

    def opened(self) -> Opened | None:
        """All of the selected check."""
        check = self.checks.view.selected
        return None if check is None else Opened(clean(check.name), check_lines(check))

    def reset(self) -> None:
        """The first check."""
        self.checks.reset()


class GuidePane(WidgetPane[GuideSlice]):
    """The guide's statements; the arrows select one, `enter` opens it."""

    def __init__(self) -> None:
        self.guide = GuideView(GuideSlice())
        super().__init__("guide", self.guide, lambda state, around: GuideSlice.of(state))

    def move(self, step: int) -> None:
        """The statement some rows down."""
        self.guide.move(step)

    def opened(self) -> Opened | None:
        """All of the selected statement."""
        claim = self.guide.view.selected
        return None if claim is None else Opened(clean(WORDS[claim.verdict]), claim_lines(claim))

    def reset(self) -> None:
        """The first statement."""
        self.guide.reset()
