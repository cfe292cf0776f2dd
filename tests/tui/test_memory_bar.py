"""The memory bar and its legend, drawn without an app."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from cgtop.core.events import Memory
from cgtop.core.memory_map import BUCKET_IDS, MIB
from cgtop.tui.widgets.buckets import LOOKS
from cgtop.tui.widgets.memory_bar import MemoryView, bar_cells, render_memory, stacked_bar
from tests.sample import memory

BUCKETS = st.dictionaries(st.sampled_from(BUCKET_IDS), st.integers(min_value=-(9 * MIB), max_value=1 << 38))


@given(BUCKETS, st.integers(min_value=0, max_value=300))
def test_cells_add_up_to_the_width_and_no_bucket_above_zero_vanishes(buckets: dict[str, int], width: int) -> None:
    cells = bar_cells(buckets, width)
    positive = [name for name, count in buckets.items() if count > 0]
    if not positive or not width:
        assert cells == {}
        return
    assert sum(cells.values()) == width
    assert all(count > 0 for count in cells.values())
    assert set(cells) <= set(positive)
    if len(positive) <= width:
        assert set(cells) == set(positive)


@given(BUCKETS, st.integers(min_value=0, max_value=300), st.booleans())
def test_the_bar_is_exactly_as_wide_as_asked(buckets: dict[str, int], width: int, letters: bool) -> None:
    assert stacked_bar(buckets, width, letters=letters).cell_length == width


def test_shares_follow_the_bytes() -> None:
    assert bar_cells({"weights": 50, "cached": 25, "free": 25}, 40) == {"weights": 20, "cached": 10, "free": 10}


def test_every_bucket_but_free_has_a_letter_and_colours_of_its_own() -> None:
    assert set(LOOKS) == set(BUCKET_IDS) - {"free"}
    assert len({look.letter for look in LOOKS.values()}) == len(LOOKS)
    assert len({look.dark for look in LOOKS.values()}) == len(LOOKS)
    assert len({look.light for look in LOOKS.values()}) == len(LOOKS)


def test_without_colour_every_cell_carries_its_letter() -> None:
    bar = stacked_bar({"weights": 3, "kv_static": 1, "free": 4}, 8, letters=True)
    assert bar.plain == "WWWK····"
    assert not bar.spans or all("on $bucket" not in str(span.style) for span in bar.spans)


def test_the_headline_tells_used_total_and_free() -> None:
    headline = render_memory(MemoryView(memory=memory(1.0, "capture")), 90, 8)[0].plain
    assert "of 140.0 GiB used" in headline
    assert "free 131.0 GiB" in headline


def test_the_legend_names_every_bucket_that_is_not_zero_with_its_mib() -> None:
    sample = memory(1.0, "capture")
    text = "\n".join(line.plain for line in render_memory(MemoryView(memory=sample), 100, 8))
    for wanted in ("W weights 7,672.0", "K KV static 144.0", "G graph pool 21.0", "V driver 704.0"):
        assert wanted in text
    assert "other processes" not in text


def test_a_legend_without_room_leaves_out_the_smallest_and_says_how_many() -> None:
    lines = render_memory(MemoryView(memory=memory(1.0, "capture")), 52, 3)
    assert len(lines) == 3
    assert "weights" in lines[2].plain
    assert "more" in lines[2].plain
    assert all(line.cell_length <= 52 for line in lines)


def test_an_unknown_bucket_is_na_and_a_negative_one_keeps_its_sign() -> None:
    sample = Memory(
        total_bytes=100 * MIB,
        free_bytes=80 * MIB,
        buckets={"weights": 23 * MIB, "unattributed": -3 * MIB, "free": 80 * MIB},
        reasons={"other_processes": "NVML is missing"},
    )
    text = "\n".join(line.plain for line in render_memory(MemoryView(memory=sample), 100, 8))
    assert "unattributed −3.0" in text
    assert "other processes n/a" in text


def test_on_the_cpu_no_total_is_claimed() -> None:
    sample = Memory(buckets={"weights": 8 * MIB, "kv_static": 2 * MIB})
    lines = render_memory(MemoryView(memory=sample, on_cpu=True), 80, 8)
    text = "\n".join(line.plain for line in lines)
    assert lines[0].plain.startswith("10.0 MiB")
    assert "free" not in text
    assert "%" not in text


def test_an_unsettled_sample_is_marked() -> None:
    sample = msgspec.structs.replace(memory(1.0, "load"), settled=False)
    assert "unsettled" in render_memory(MemoryView(memory=sample), 90, 8)[0].plain
