"""The memory map, drawn without an app, and its cursor in one."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.app import App, ComposeResult
from textual.content import Content

from cgtop.core.block_phases import first_seen
from cgtop.core.events import Block, PhaseId, Segment, Segments
from cgtop.core.memory_map import MIB
from cgtop.core.state import RunState
from cgtop.tui.widgets.buckets import theme_variables
from cgtop.tui.widgets.map_layout import FREE, Piece, Placed, cells, list_rows, map_groups
from cgtop.tui.widgets.memory_map import Cursor, MapSlice, MemoryMapView, block_at, map_title, render_map
from tests.sample import hello
from tests.tui.allocator import qwen_map
from tests.tui.fakes import folded

RUN: tuple[PhaseId, ...] = ("load", "prefill", "static_cache", "capture")
FULL = MapSlice.of(folded([hello(), *(qwen_map(phase) for phase in RUN)]))
SIZES = [(40, 8), (40, 10), (60, 12), (80, 20), (120, 30), (200, 50)]


def text(lines: list[Content]) -> str:
    return "\n".join(line.plain for line in lines)


def pointed(address: int, view: MapSlice = FULL) -> MapSlice:
    return msgspec.structs.replace(view, cursor=Cursor(address=address))


def block_named(name: str) -> Placed:
    segments = FULL.segments
    assert segments is not None
    return next(
        Placed(segment, block) for segment in segments.segments for block in segment.blocks if block.name == name
    )


# ------------------------------------------------------------------------------------------ when a block appeared


def test_a_block_belongs_to_the_phase_at_whose_end_it_was_first_there() -> None:
    assert FULL.block_phases[block_named("logits").address] == "capture"
    assert FULL.block_phases[block_named("keys 7").address] == "static_cache"
    assert FULL.block_phases[block_named("model.embed_tokens.weight").address] == "load"


def test_an_address_handed_out_again_for_something_else_is_new_and_what_is_gone_is_forgotten() -> None:
    def one(bucket: str | None, size: int, phase: PhaseId) -> Segments:
        block = Block(offset=0, size=size, requested=size if bucket else 0, bucket=bucket)
        return Segments(
            phase=phase, segments=(Segment(address=512, size=MIB, pool="default", stream=0, blocks=(block,)),)
        )

    first = one("weights", 1024, "load")
    known = first_seen({}, None, first)
    assert known == {512: "load"}
    assert first_seen(known, first, one("weights", 1024, "prefill")) == {512: "load"}
    assert first_seen(known, first, one("kv_static", 1024, "static_cache")) == {512: "static_cache"}
    assert first_seen(known, first, one("weights", 2048, "warmup")) == {512: "warmup"}
    assert first_seen(known, first, one(None, 1024, "release")) == {}


# --------------------------------------------------------------------------------------------------- what is drawn


def test_like_segments_share_a_row_so_that_hundreds_stay_readable() -> None:
    lines = [line.plain for line in render_map(FULL, 120, 30)]
    assert any("108×" in line and "48.0 MiB" in line for line in lines)
    assert len(lines) <= 30
    assert not any("lines above" in line for line in lines)


def test_each_segment_has_a_row_of_its_own_where_there_is_room() -> None:
    segments = qwen_map("capture").segments[-4:]
    groups = map_groups(segments, "size", 20, 90)
    assert [len(row.segments) for group in groups for row in group.rows] == [1, 1, 1, 1]


def test_pools_and_streams_stand_apart() -> None:
    lines = text(render_map(FULL, 120, 30))
    assert "default pool · default stream · 200 segments" in lines
    assert "default pool · stream 0x55d0c0ffee00" in lines
    assert "private pool 0.1 · stream 0x55d0c0ffee00 · 1 segment · 2.0 MiB" in lines


def test_the_picked_block_is_marked_and_told_about() -> None:
    lines = text(render_map(pointed(block_named("logits").address), 120, 30))
    details = lines[lines.index("I logits") :]
    assert "0.3 MiB · graph I/O · first seen after capture" in details
    assert "requested 303,872 B, block 304,128 B, rounding 256 B" in details
    assert "private pool 0.1" in details.replace("\n", " ")
    assert lines.count("◆") >= 2


def test_a_free_block_says_for_whom_it_is_kept() -> None:
    segments = FULL.segments
    assert segments is not None
    private = next(segment for segment in segments.segments if segment.pool != "default")
    free = private.address + next(block.offset for block in private.blocks if block.bucket is None)
    assert "kept for the replays of its graph" in text(render_map(pointed(free), 120, 30))


def test_without_colour_each_cell_is_a_letter_and_a_new_block_a_capital() -> None:
    row = next(
        line.plain
        for line in render_map(msgspec.structs.replace(FULL, letters=True), 120, 30)
        if "32.0 MiB" in line.plain and "Bb" in line.plain
    )
    assert "MiB Bbbbb" in row
    assert row.count("B") == 2


def test_a_narrow_map_is_a_list_with_the_largest_blocks_first() -> None:
    lines = [line.plain for line in render_map(FULL, 40, 12)]
    assert "742.0 MiB  weights  load" in lines[1]
    assert "108 × 48.0 MiB  weights  load" in lines[2]


def test_the_list_by_address_begins_with_the_lowest() -> None:
    rows = list_rows(FULL.segments.segments if FULL.segments else (), "address")
    firsts = [row.blocks[0].address for row in rows]
    assert firsts == sorted(firsts)


def test_where_there_is_no_map_the_reason_is_given() -> None:
    assert "taken at the end of each phase" in text(render_map(MapSlice(), 80, 20))
    assert "no map up to here in this recording" in text(render_map(MapSlice(recorded=True), 80, 20))
    assert "the CPU has no caching allocator" in text(render_map(MapSlice(on_cpu=True), 80, 20))


def test_an_unknown_phase_and_an_unknown_bucket_are_named_as_such() -> None:
    segment = Segment(
        address=512, size=MIB, pool="default", stream=0,
        blocks=(Block(offset=0, size=MIB, requested=MIB, bucket="of_the_future", name="x\x1b[2J"),),
    )  # fmt: skip
    lines = text(render_map(MapSlice(segments=Segments(segments=(segment,))), 100, 20))
    assert "of_the_future · first seen after n/a" in lines
    assert "\x1b" not in lines


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("order", ["size", "address"])
@pytest.mark.parametrize("name", ["model.embed_tokens.weight", "keys 30", "logits"])
def test_it_fits_at_every_size_and_shows_the_picked_block(size: tuple[int, int], order: Any, name: str) -> None:
    cursor = Cursor(order=order, address=block_named(name).address)
    lines = render_map(msgspec.structs.replace(FULL, cursor=cursor), *size)
    assert len(lines) <= size[1]
    assert all(line.cell_length <= size[0] for line in lines)
    assert sum(line.plain.startswith("◆") for line in lines) == 2
    assert "742" in lines[0].plain or "7,928.0 MiB reserved" in lines[0].plain


@given(st.lists(st.integers(1, 1 << 30), min_size=1, max_size=40), st.integers(1, 300))
def test_every_cell_shows_a_piece_that_lies_in_it_and_pieces_keep_their_order(sizes: list[int], count: int) -> None:
    placed = Placed(
        Segment(address=0, size=sum(sizes), pool="default", stream=0, blocks=()), Block(offset=0, size=1, requested=0)
    )
    pieces, at = [], 0
    for size in sizes:
        pieces.append(Piece(at, at + size, FREE, placed))
        at += size
    drawn = cells(pieces, count)
    assert len(drawn) == count
    starts = [piece.start for piece in drawn]
    assert starts == sorted(starts)
    for number, piece in enumerate(drawn):
        low, high = number * at // count, max(number * at // count + 1, (number + 1) * at // count)
        assert piece.start < high
        assert piece.end > low or at < count


# ----------------------------------------------------------------------------------------------------- the cursor


def test_the_title_tells_when_the_map_was_taken() -> None:
    assert map_title(FULL).endswith("at the end of capture")
    assert map_title(MapSlice()) == MemoryMapView.BORDER_TITLE


class MapApp(App[None]):
    def __init__(self) -> None:
        super().__init__()
        self.map = MemoryMapView(FULL)

    def get_theme_variable_defaults(self) -> dict[str, str]:
        return theme_variables(dark=True, ansi=False)

    def compose(self) -> ComposeResult:
        yield self.map


def picked(app: MapApp) -> int | None:
    return app.map.view.cursor.address


@pytest.mark.parametrize("size", [(120, 30), (40, 10)])
async def test_the_cursor_walks_over_blocks_and_rows_and_stops_at_the_ends(size: tuple[int, int]) -> None:
    app = MapApp()
    async with app.run_test(size=size):
        app.map.move(-1, 0)
        first = picked(app)
        assert first == block_named("model.embed_tokens.weight").address
        app.map.move(0, 1)
        assert picked(app) != first
        app.map.move(0, -1)
        assert picked(app) == first
        app.map.move(10_000, 0)
        last = picked(app)
        app.map.move(1, 0)
        app.map.move(0, 1)
        assert picked(app) == last
        app.map.select(0)
        assert picked(app) == first


async def test_a_new_map_and_another_order_leave_the_cursor_where_it_is() -> None:
    app = MapApp()
    async with app.run_test(size=(120, 30)):
        logits = block_named("logits").address
        app.map.show(pointed(logits))
        assert picked(app) is None
        app.map.move(10_000, 0)
        app.map.toggle_order()
        here = picked(app)
        app.map.show(MapSlice.of(RunState()))
        app.map.show(FULL)
        assert app.map.order == "address"
        assert picked(app) == here


async def test_a_click_picks_the_block_under_it() -> None:
    app = MapApp()
    async with app.run_test(size=(120, 30)) as pilot:
        lines = render_map(app.map.view, 120, 30)
        row = next(y for y, line in enumerate(lines) if "108×" in line.plain)
        await pilot.click(MemoryMapView, offset=(60, row))
        assert picked(app) == block_at(FULL, 120, 30, 60, row)
        assert picked(app) != block_named("model.embed_tokens.weight").address
        await pilot.click(MemoryMapView, offset=(60, 0))
        assert picked(app) == block_at(FULL, 120, 30, 60, row)
