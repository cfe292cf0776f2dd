"""The memory bar and its legend, drawn without an app."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from cgtop.core.events import Memory
from cgtop.core.memory_map import BUCKET_IDS, MIB
from cgtop.tui.widgets.buckets import LOOKS, theme_variables
from cgtop.tui.widgets.memory_bar import MemoryView, bar_cells, bars, render_memory, stacked_bar
from tests.sample import memory

BUCKETS = st.dictionaries(st.sampled_from(BUCKET_IDS), st.integers(min_value=-(9 * MIB), max_value=1 << 38))


@given(BUCKETS, st.integers(min_value=0, max_value=300))
def test_cells_add_up_to_the_width_and_no_bucket_is_a_cell_off_its_share(buckets: dict[str, int], width: int) -> None:
    cells = bar_cells(buckets, width)
    positive = [name for name, count in buckets.items() if count > 0]
    if not positive or not width:
        assert cells == {}
        return
    assert sum(cells.values()) == width
    assert all(count > 0 for count in cells.values())
    assert set(cells) <= set(positive)
    total = sum(buckets[name] for name in positive)
    assert all(abs(cells.get(name, 0) * total - buckets[name] * width) < total for name in positive)


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


def test_each_letter_can_be_read_on_its_swatch_in_the_16_colours() -> None:
    variables = theme_variables(dark=True, ansi=True)
    for look in LOOKS.values():
        ink, swatch = variables[f"{look.variable}-ink"], variables[look.variable]
        assert f"${look.variable}-ink on ${look.variable}" == look.block
        assert ink == ("ansi_bright_white" if swatch in ("ansi_blue", "ansi_magenta", "ansi_red") else "ansi_black")
    assert "ansi_bright_green" not in variables.values()
    assert len({look.ansi for look in LOOKS.values()}) == len(LOOKS)


def test_a_bucket_too_small_for_a_cell_of_the_scale_is_seen_in_the_zoom_that_says_what_it_leaves_out() -> None:
    buckets = {"weights": 7000 * MIB, "kv_static": 20 * MIB, "driver": 380 * MIB, "free": 92600 * MIB}
    sample = Memory(total_bytes=100000 * MIB, free_bytes=92600 * MIB, buckets=buckets)
    scale, zoom, device = (bar.plain for bar in bars(sample, 88, letters=True))
    assert scale.startswith("used, to scale ")
    assert zoom.startswith("zoom ×18, without weights ")
    assert device.startswith("used and free ")
    assert "K" not in scale and "KKK" in zoom
    assert scale.count("W") == round((88 - len("zoom ×18, without weights ")) * 7000 / 7400)
    assert "W" not in zoom.removeprefix("zoom ×18, without weights ")
    assert {len(scale), len(zoom), len(device)} == {88}


def test_no_zoom_where_no_bucket_hides_the_others_and_one_labelled_bar_where_it_is_narrow_or_low() -> None:
    even = Memory(buckets={"weights": 5 * MIB, "kv_static": 5 * MIB})
    assert [bar.plain.split()[0] for bar in bars(even, 80, letters=True)] == ["tensors,"]
    view = MemoryView(memory=memory(1.0, "capture"))
    for width, height in ((40, 6), (86, 4), (86, 2)):
        lines = [line.plain for line in render_memory(view, width, height)]
        assert sum(line.startswith(("used", "zoom")) for line in lines) == 1
    assert any(line.plain.startswith("zoom") for line in render_memory(view, 86, 5))


def test_a_bar_that_stands_alone_leaves_no_room_for_labels_that_are_not_drawn() -> None:
    bar = render_memory(MemoryView(memory=memory(1.0, "capture"), letters=True), 86, 4)[1].plain
    assert bar.startswith("used, to scale W") and len(bar) == 86


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


def test_what_is_told_apart_into_three_buckets_is_not_called_unknown() -> None:
    sample = Memory(buckets={"driver": 5 * MIB}, reasons={"outside_allocator": "split into driver and others"})
    text = "\n".join(line.plain for line in render_memory(MemoryView(memory=sample), 100, 8))
    assert "driver 5.0" in text and "outside" not in text
    hidden = Memory(buckets={"outside_allocator": 5 * MIB}, reasons={"driver": "the process is not listed"})
    text = "\n".join(line.plain for line in render_memory(MemoryView(memory=hidden), 100, 8))
    assert "outside allocator 5.0" in text and "driver n/a" in text


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


def test_many_that_cannot_be_known_do_not_hide_what_is() -> None:
    unknown = ("cublas_workspace", "other_tensors", "rounding", "graph_pool", "cached", "driver")
    sample = Memory(buckets={"weights": 5 * MIB}, reasons=dict.fromkeys(unknown, "a CPU has none"))
    for width in (40, 120):
        legend = "\n".join(line.plain for line in render_memory(MemoryView(sample, on_cpu=True), width, 6))
        assert "weights 5.0" in legend and "6 others n/a" in legend and "driver n/a" not in legend
