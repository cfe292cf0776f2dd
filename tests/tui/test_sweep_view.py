"""The views of the sweeps, drawn without an app."""

import re
from pathlib import Path

import msgspec
import pytest
from textual.content import Content

from cgtop.core.events import DeviceInfo, SweepBegin, SweepEnd, SweepRow
from cgtop.core.guide import BATCH_SIZES, CACHE_LENGTHS
from cgtop.core.memory_map import MIB
from cgtop.core.recording import open_recording
from cgtop.core.state import RunState, fold
from cgtop.tui.widgets.sweep_slice import SweepSlice, added, per
from cgtop.tui.widgets.sweep_view import SweepView, render_sweep
from tests.sample import hello
from tests.tui.fakes import until
from tests.tui.sweeps import TOKEN, batches, cache_lens, length_row

SIZES = [(40, 8), (40, 10), (60, 12), (80, 20), (120, 30), (200, 50)]


def text(lines: list[Content]) -> str:
    return "\n".join(line.plain for line in lines)


def row_of(lines: list[Content], value: str) -> str:
    return next(line.plain for line in lines if line.plain.strip().startswith(value))


def test_what_a_row_adds_is_what_the_report_says_too() -> None:
    """Once told anew from other fields, which counted logits inside a shared pool twice."""
    row = length_row(1024, 120.0)
    assert added((row, row)) == (row.total_bytes, row.total_bytes), "each length by itself"
    assert per(row, 1000) == pytest.approx(170 * MIB * 1000 / 1024)
    assert added((msgspec.structs.replace(row, total_bytes=None),)) == (None,)


def test_what_a_batch_size_adds_is_the_difference_of_the_sums_of_its_strategy() -> None:
    rows = batches().rows
    for strategy in {row.strategy for row in rows}:
        mine = [one for one, row in zip(added(rows), rows, strict=True) if row.strategy == strategy]
        assert None not in mine
        assert sum(one or 0 for one in mine) == [row for row in rows if row.strategy == strategy][-1].total_bytes
    lost = (rows[0], msgspec.structs.replace(rows[1], total_bytes=None), *rows[2:])
    assert added(lost)[:4] == (rows[0].total_bytes, None, None, added(rows)[3])


def test_a_line_that_is_steeper_than_the_closed_form_is_explained() -> None:
    view = cache_lens()
    assert "whole segments" not in text(render_sweep(view, 160, 20)), "the same at every length"
    last = view.rows[-1]
    assert last.total_bytes is not None
    grown = msgspec.structs.replace(last, total_bytes=last.total_bytes + 18 * MIB)
    assert view.end is not None
    steeper, flatter = (
        msgspec.structs.replace(
            view,
            rows=(*view.rows[:-1], grown),
            end=msgspec.structs.replace(view.end, slope_bytes_per_token=slope),
        )
        for slope in (TOKEN + 5000.0, TOKEN - 600.0)
    )
    assert "whole segments" not in text(render_sweep(flatter, 200, 20)), "nothing is left to explain"
    shown = text(render_sweep(steeper, 200, 20))
    told = "the closed form says 147,456 B, and the rest is what the pool holds for a step, in whole segments"
    assert told in " ".join(shown.split())


def test_measured_closed_form_and_guide_stand_side_by_side() -> None:
    row = row_of(render_sweep(cache_lens(), 160, 20), "1,024").split()
    assert row[:10] == ["1,024", "144.0", "144.0", "0.0", "22.0", "4.0", "170.0", "161", "166.0", "157"]


def test_the_bars_are_on_one_scale_and_carry_the_guides_mark() -> None:
    lines = render_sweep(cache_lens(), 120, 20)
    bars = [row_of(lines, value).count("█") for value in ("256", "1,024", "4,096")]
    assert bars[0] < bars[1] < bars[2]
    assert all("◇" in row_of(lines, value) for value in ("256", "1,024", "4,096"))


def test_the_mark_of_a_noisy_replay_is_explained_where_rows_carry_it() -> None:
    noisy = msgspec.structs.replace(length_row(256, 100.0), verdict="within_eager_noise")
    shown = text(render_sweep(msgspec.structs.replace(cache_lens(), rows=(noisy,)), 120, 20))
    assert "100.0 ≈" in shown and "≈ within eager's noise" in shown
    identical = msgspec.structs.replace(noisy, verdict="identical")
    assert "≈" not in text(render_sweep(msgspec.structs.replace(cache_lens(), rows=(identical,)), 120, 20))


def test_the_fit_is_told_per_1000_and_per_1024_beside_the_closed_form() -> None:
    lines = text(render_sweep(cache_lens(), 200, 20))
    assert "overhead = 26.3 MiB + 147,456 B × tokens" in lines
    assert "140.6 MiB per 1,000 and 144.0 MiB per 1,024 tokens; the closed form says 147,456 B" in lines
    assert "242.2 at 256, 147.0 at 4,096" in lines


def test_a_speed_that_does_not_fall_is_not_explained() -> None:
    assert "reads the whole StaticCache" in text(render_sweep(cache_lens(), 120, 20))
    flat = msgspec.structs.replace(cache_lens(), rows=(length_row(256, 100.0), length_row(512, 101.0)))
    assert "reads the whole StaticCache" not in text(render_sweep(flat, 120, 20))


def test_rows_arrive_one_by_one_and_what_is_measured_now_is_named() -> None:
    lines = text(render_sweep(cache_lens(3, end=False), 100, 20))
    assert "▶ measuring 3 of 5 rows, cache length 2,048 now" in lines
    assert "2,048  measuring …" in lines
    assert "4,096  waiting" in lines


def test_largest_first_waits_for_the_smaller_ones_in_order() -> None:
    assert batches(7, end=False).waiting == (4, 2, 1)


def test_out_of_memory_keeps_the_rows_and_says_what_to_do() -> None:
    lines = text(render_sweep(cache_lens(4, oom=True, cancelled=True), 120, 20))
    assert "■ cancelled, 4 of 5 rows" in lines
    assert "2,048  out of memory, needed 576.0 MiB, free 300.0 MiB; leave out the longest" in lines
    assert "170.0" in lines


def test_a_run_that_ended_in_a_sweep_is_not_said_to_be_measuring() -> None:
    over = msgspec.structs.replace(cache_lens(3, end=False), over=True)
    lines = text(render_sweep(over, 100, 20))
    assert "■ interrupted, 3 of 5 rows" in lines
    assert "measuring …" not in lines


def test_unknown_figures_are_na_and_a_length_the_guide_has_not_measured_has_no_mark() -> None:
    bare = SweepSlice(kind="cache_lens", rows=(SweepRow(sweep="cache_lens", value=777),))
    row = row_of(render_sweep(bare, 160, 20), "777")
    assert row.count("n/a") == 11
    assert "◇" not in row


def test_wrong_results_are_marked_beside_their_speed() -> None:
    wrong = msgspec.structs.replace(length_row(256, 100.0), verdict="mismatch")
    view = msgspec.structs.replace(cache_lens(), rows=(wrong,))
    assert "100.0 ✗" in row_of(render_sweep(view, 120, 20), "256")


def test_what_is_wrong_with_a_row_is_said_below_the_table() -> None:
    wrong = msgspec.structs.replace(length_row(512, 100.0), verdict="mismatch", reason="far from eager")
    view = msgspec.structs.replace(cache_lens(), rows=(length_row(256, 101.0), wrong))
    for width, height in ((160, 30), (80, 20)):
        assert "512 tokens: far from eager" in text(render_sweep(view, width, height))
    of_batches = msgspec.structs.replace(batches().rows[1], verdict="mismatch", reason="far from eager")
    view = msgspec.structs.replace(batches(), rows=(of_batches,))
    assert "own, batch 2: far from eager" in text(render_sweep(view, 160, 30))


def test_the_figures_behind_a_verdict_stand_beside_it_where_there_is_room_and_they_are_known() -> None:
    noisy = msgspec.structs.replace(
        length_row(512, 100.0), verdict="within_eager_noise", max_difference=0.125, eager_difference=0.147
    )
    view = msgspec.structs.replace(cache_lens(), rows=(noisy,))
    wide = render_sweep(view, 200, 30)
    assert "off by  eager's own" in text(wide) and "0.125        0.147" in row_of(wide, "512")
    assert "off by" not in text(render_sweep(view, 80, 30))
    assert "off by" not in text(render_sweep(cache_lens(), 200, 30))


def test_strategies_stand_one_below_the_other_or_fold_to_a_line_each() -> None:
    lines = text(render_sweep(batches(), 160, 50))
    assert "own  own cache and own pool" in lines
    assert "◇" in row_of(render_sweep(batches(), 160, 50), "16")
    folded = render_sweep(batches(), 120, 20)
    assert "own  4,594.0 MiB for 5 sizes up to 16" in text(folded)
    assert "paged  pages of one shared pool" in text(folded)


def test_what_was_added_stands_beside_all_that_it_is_the_sum_of_and_pages_beside_it() -> None:
    heading = next(line.plain for line in render_sweep(batches(), 116, 20) if line.plain.startswith("batch"))
    for name in ("KV", "pool", "workspace", "driver", "added", "pages in use"):
        assert name in heading
    assert "↑ and ↓ open another way" in text(render_sweep(batches(), 116, 20))
    assert "↑ and ↓ open" not in text(render_sweep(batches(), 116, 50))


def test_another_strategy_is_opened_by_moving_and_stays_open() -> None:
    widget = SweepView(batches())
    widget.move(-4)
    assert widget.view.cursor.strategy == "own"
    widget.show(batches(20))
    lines = text(render_sweep(widget.view, 120, 20))
    assert "own  own cache and own pool" in lines
    widget.move(-1)
    assert widget.view.cursor.strategy == "own"
    widget.follow()
    assert widget.view.cursor.strategy is None


def test_what_sharing_saves_is_said_of_strategies_that_measured_everything() -> None:
    assert "shared-cache needs 2,346.0 MiB for 5 batch sizes" in text(render_sweep(batches(), 160, 50))
    assert "What sharing saves" not in text(render_sweep(batches(7, end=False), 160, 50))


def test_before_a_sweep_the_guide_and_the_closed_form_are_there_and_the_key() -> None:
    lines = text(render_sweep(SweepSlice(kind="cache_lens", token_bytes=TOKEN), 120, 20))
    assert "Press m" in lines
    assert "147,456 B, 1,024 tokens 144.0 MiB" in lines
    assert "4,096: 593 (145)" in lines
    recorded = text(render_sweep(SweepSlice(kind="batches", recorded=True), 120, 20))
    assert "Press m" not in recorded
    assert "16: 4,464" in recorded


def test_where_nothing_can_be_captured_it_says_so_and_invites_nobody() -> None:
    on_cpu = msgspec.structs.replace(hello(), device=DeviceInfo(kind="cpu", name="a CPU"))
    lines = text(render_sweep(SweepSlice.of(fold(RunState(), on_cpu), "cache_lens"), 120, 20))
    assert "Not possible here: capture needs CUDA" in lines
    assert "Press m" not in lines


def test_a_view_without_a_measurement_names_the_bundled_recording_that_has_one() -> None:
    lines = text(render_sweep(SweepSlice.of(until("release"), "batches", recorded=True), 200, 20))
    (command,) = re.findall(r"cgtop play (\S+)", lines)
    assert Path(command).is_file()
    assert any(
        isinstance(event, SweepRow) and event.sweep == "batches" for event in open_recording(Path(command)).events
    )
    nowhere = text(render_sweep(SweepSlice(kind="batches", recorded=True), 200, 20))
    assert "cgtop play" not in nowhere
    assert "cgtop batches measures it" in nowhere


def test_the_slice_is_folded_out_of_a_runs_events() -> None:
    state = until("capture")
    for event in (
        SweepBegin(sweep="cache_lens", values=(256, 1024)),
        length_row(256, 120.0),
        SweepEnd(sweep="cache_lens", cancelled=True),
    ):
        state = fold(state, event)
    view = SweepSlice.of(state, "cache_lens")
    assert (view.wanted, len(view.rows), view.running, view.token_bytes) == (2, 1, False, TOKEN)
    assert SweepSlice.of(state, "batches").begin is None


def test_the_guides_tables_add_up_as_printed() -> None:
    assert [round(row.total_mib * 1000 / row.tokens) for row in CACHE_LENGTHS] == pytest.approx(
        [row.per_1000_mib for row in CACHE_LENGTHS], abs=1
    )
    total = 0
    for row in BATCH_SIZES:
        total += row.cache_mib
        assert (row.cache_mib, row.cumulative_mib) == (144 * row.batch_size, total)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    "slice_",
    [
        cache_lens(),
        cache_lens(3, end=False),
        cache_lens(0, end=False),
        batches(),
        batches(7, end=False),
        batches(0, end=False),
        SweepSlice(kind="cache_lens"),
        SweepSlice(kind="batches"),
    ],
    ids=[
        "lengths",
        "lengths running",
        "lengths begun",
        "batches",
        "batches running",
        "batches begun",
        "none",
        "none b",
    ],
)
def test_it_fits_at_every_size_and_keeps_the_latest_row(size: tuple[int, int], slice_: SweepSlice) -> None:
    lines = render_sweep(slice_, *size)
    assert len(lines) <= size[1]
    assert all(line.cell_length <= size[0] for line in lines)
    if slice_.rows and not slice_.running:
        latest = "2,346.0" if slice_.kind == "batches" else "602.0"
        assert latest in text(lines)
