"""The screen at any size: nothing overlaps, nothing raises, the essentials stay."""

from itertools import combinations
from typing import Any

import pytest
from textual.geometry import Region
from textual.screen import Screen

from cgtop.core.events import Error
from cgtop.core.sources import Source
from cgtop.core.state import RunState, fold
from cgtop.tui.app import CgtopApp
from cgtop.tui.screens.views import Panes
from tests.tui.driving import screen_text
from tests.tui.fakes import FakeLive, FakeRecorded, until

SIZES = [
    (1, 1), (2, 40), (20, 5), (39, 9), (39, 30), (40, 9), (40, 10), (40, 12), (41, 15), (45, 16), (50, 21), (60, 20),
    (60, 18), (60, 23), (60, 24), (66, 29), (70, 30), (75, 36), (75, 60), (76, 10), (76, 12), (76, 16), (77, 22),
    (80, 24), (90, 28), (100, 30), (103, 35), (104, 36), (120, 36), (140, 46), (160, 50), (200, 60), (300, 10),
    (300, 80),
]  # fmt: skip
NAMED_SIZES = [(40, 12), (60, 20), (80, 24), (100, 30), (120, 36), (160, 50), (200, 60)]
DECODING = until("replay", decoding=True)
FAILED = fold(DECODING, Error(t=99.0, kind="out_of_memory", headline="no room", hint="less"))


def regions(screen: Screen[Any]) -> dict[str, Region]:
    """Those leaf widgets that are visible, by id, cut to what shows of them."""
    seen = {}
    for widget, placed in screen._compositor.visible_widgets.items():
        if not widget.children and widget is not screen:
            seen[widget.id or repr(widget)] = placed[0].intersection(placed[1])
    return {name: region for name, region in seen.items() if region.area}


def assert_sound(screen: Screen[Any], size: tuple[int, int]) -> None:
    whole = Region(0, 0, *size)
    for (one, a), (other, b) in combinations(regions(screen).items(), 2):
        assert not a.overlaps(b), f"{one} {a} overlaps {other} {b} at {size}"
    for widget, placed in screen._compositor.visible_widgets.items():
        if not widget.children and widget is not screen:
            assert whole.contains_region(placed[0]), f"{widget.id} {placed[0]} leaves {whole}"
            assert placed[1].contains_region(placed[0]), f"{widget.id} {placed[0]} is cut to {placed[1]} at {size}"


@pytest.mark.parametrize(
    ("source", "every"),
    [(FakeLive(RunState()), 4), (FakeLive(DECODING), 1), (FakeLive(FAILED), 3), (FakeRecorded(12.0), 1)],
    ids=["nothing yet", "decoding", "failed", "recorded"],
)
async def test_no_panel_overlaps_or_is_cut_at_any_size(source: Source, every: int) -> None:
    app = CgtopApp(source)
    async with app.run_test(size=(120, 36)) as pilot:
        for size in SIZES[::every]:
            await pilot.resize_terminal(*size)
            await pilot.pause()
            assert_sound(app.screen, size)
            assert regions(app.screen)


@pytest.mark.parametrize("source", [FakeLive(DECODING), FakeRecorded(12.0)], ids=["live", "recorded"])
async def test_no_view_overlaps_or_is_cut_at_any_size(source: Source) -> None:
    app = CgtopApp(source)
    async with app.run_test(size=(120, 36)) as pilot:
        others = list(Panes())[1:]
        for index, size in enumerate([*NAMED_SIZES, *SIZES[::3]]):
            await pilot.resize_terminal(*size)
            for view in others if size in NAMED_SIZES else others[index % 3 :: 3]:
                app.main.show_view(view)
                await pilot.pause()
                assert_sound(app.screen, size)
                assert regions(app.screen), (view, size)


async def test_a_storm_of_resizes_while_decoding_leaves_the_screen_sound() -> None:
    source = FakeRecorded(0.0)
    app = CgtopApp(source)
    async with app.run_test(size=(80, 24)) as pilot:
        for step in range(25):
            source.clock.now += 1.0
            app.tick()
            app.main.next_view(1)
            await pilot.resize_terminal(1 + (step * 37) % 220, 1 + (step * 17) % 70)
        app.main.show_view("phases")
        await pilot.resize_terminal(80, 24)
        await pilot.pause()
        assert_sound(app.screen, (80, 24))
        assert "Decode" in screen_text(pilot)


@pytest.mark.parametrize("kind", ["live", "recorded"])
async def test_at_80_by_24_all_essentials_show(kind: str) -> None:
    source: Source = FakeLive(DECODING) if kind == "live" else FakeRecorded(19.0)
    async with CgtopApp(source).run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        shown = screen_text(pilot)
    for wanted in (
        "✓ static cache   +144.0",
        "W weights 7,672.0",
        "V driver 704.0",
        "GRAPH",
        "tok/s",
        "e 28.1 d 26.0 g 12",
        " replays",
        "eager 2,338",
        "IDENTICAL",
        "Graph replay.",
        "n next",
        "q quit",
        "of 140.0 GiB used",
    ):
        assert wanted in shown, wanted


async def test_at_40_by_12_a_compact_column_shows_each_essential() -> None:
    async with CgtopApp(FakeRecorded(19.0)).run_test(size=(40, 12)) as pilot:
        await pilot.pause()
        lines = screen_text(pilot).splitlines()
    assert "RECORDED" in lines[0]
    assert "NVIDIA Sample GPU" in lines[1]
    assert "[1 Phases]" in lines[2]
    assert "✓✓✓✓✓✓✓✓" in lines[3]
    assert "of 140.0 GiB" in lines[4]
    assert lines[5].startswith("used W")
    assert "GRAPH" in lines[6]
    assert "×" in lines[7]
    assert "in " in lines[8]
    assert "Graph replay" in lines[9]
    assert "q quit" in lines[-1]


async def test_below_40_by_10_one_line_of_essentials_is_all() -> None:
    app = CgtopApp(FakeLive(DECODING))
    async with app.run_test(size=(39, 9)) as pilot:
        await pilot.pause()
        assert set(regions(app.screen)) == {"essentials"}
        assert screen_text(pilot).splitlines()[0] == "LIVE graph 125.0 tok/s 0 alloc"


@pytest.mark.parametrize("key", ["question_mark", "R", "l", "enter", "o"])
async def test_screens_over_the_main_one_survive_any_size(key: str) -> None:
    app = CgtopApp(FakeLive(DECODING))
    async with app.run_test(size=(120, 36)) as pilot:
        await pilot.press(key)
        for size in SIZES[::6]:
            await pilot.resize_terminal(*size)
            await pilot.pause()
