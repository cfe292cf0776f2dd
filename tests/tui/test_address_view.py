"""The view of the fixed tensors and of the demonstration, drawn without an app."""

import msgspec
import pytest
from textual.content import Content

from cgtop.core.events import Addresses, Demonstration, FixedTensor, PhaseEnd
from cgtop.core.memory_map import MIB
from cgtop.tui.widgets.address_slice import grouped
from cgtop.tui.widgets.address_view import AddressCursor, AddressSlice, AddressView, render_addresses
from tests.sample import hello
from tests.tui.fakes import folded, until

SIZES = [(40, 8), (40, 10), (60, 12), (80, 20), (120, 30), (200, 50)]
BROKEN = Demonstration(
    stage="broken", fed_ids=(11, 52, 7, 9), expected_ids=(52, 7, 9, 33), replay_ids=(88, 88, 88, 88),
    captured_address=0x7F9A00001000, present_address=0x7F9A00002000, refused="stale graph: input_ids moved",
)  # fmt: skip
MENDED = msgspec.structs.replace(
    BROKEN, stage="mended", replay_ids=BROKEN.expected_ids, present_address=0x7F9A00001000, refused=""
)


def fixed(*, moved: tuple[str, ...] = ()) -> tuple[FixedTensor, ...]:
    tensors = [FixedTensor(name="input_ids", address=0x7F9A00001000, bytes=8, update="copy_")]
    for layer in range(36):
        for number, kind in enumerate(("keys", "values", "length")):
            address = 0x7F9B00000000 + (3 * layer + number) * 2 * MIB
            size = 8 if kind == "length" else 2 * MIB
            tensors.append(FixedTensor(name=f"{kind} {layer}", address=address, bytes=size, update="in-graph"))
    tensors.append(FixedTensor(name="logits", address=0x7F9C00000000, bytes=303_872, update="in-graph"))
    return tuple(msgspec.structs.replace(tensor, moved=tensor.name in moved) for tensor in tensors)


def view(*, moved: tuple[str, ...] = (), shown: Demonstration | None = None, opened: bool = False) -> AddressSlice:
    return AddressSlice(
        addresses=Addresses(fixed=fixed(moved=moved), moved=len(moved), checked=512),
        demonstration=shown,
        can_break=True,
        cursor=AddressCursor(opened=opened),
    )


def text(lines: list[Content]) -> str:
    return "\n".join(line.plain for line in lines)


def test_layers_of_a_kind_are_one_row_in_the_order_of_their_first() -> None:
    assert [like.title for like in grouped(fixed())] == [
        "input_ids",
        "keys 0–35",
        "values 0–35",
        "length 0–35",
        "logits",
    ]


def test_a_row_has_address_bytes_state_and_how_the_next_value_comes() -> None:
    lines = render_addresses(view(), 120, 30)
    keys = next(line.plain for line in lines if line.plain.startswith("keys"))
    assert "0x7f9b00000000" in keys
    assert "36 × 2.0 MiB = 72.0 MiB" in keys
    assert keys.split()[-2:] == ["no", "in-graph"]
    assert "0 moved of 110 fixed tensors, compared 512 times" in lines[0].plain
    assert "copy_: the host copies" in text(lines)


def test_on_a_cpu_nothing_is_said_of_replays() -> None:
    assert "the replay does it" in text(render_addresses(view(), 120, 30))
    on_cpu = msgspec.structs.replace(view(), on_cpu=True)
    lines = text(render_addresses(on_cpu, 120, 30))
    assert "the step itself writes the next value" in lines
    assert "before a replay" not in lines


def test_a_tensor_that_moved_is_named_by_itself_and_in_words() -> None:
    lines = render_addresses(view(moved=("keys 7", "keys 9")), 120, 30)
    assert lines[0].plain.startswith("✗ 2 moved of 110 fixed tensors: stale graph")
    assert next(line.plain for line in lines if line.plain.startswith("keys 0–35")).count("✗ 2") == 1
    assert "keys 7 " in text(lines)
    assert "✗ moved" in text(lines)


def test_comparisons_are_before_replays_only_where_there_can_be_one_and_as_last_told() -> None:
    lines = render_addresses(view(), 120, 30)
    assert lines[0].plain.endswith("compared 512 times when last told, before every replay")
    on_cpu = render_addresses(msgspec.structs.replace(view(), no_capture="capture needs CUDA"), 120, 30)
    assert on_cpu[0].plain.endswith("compared 512 times when last told")


def test_a_run_on_a_cpu_says_from_the_start_that_nothing_can_be_broken() -> None:
    device = msgspec.structs.replace(hello().device, kind="cpu")
    slice_ = AddressSlice.of(folded([msgspec.structs.replace(hello(), device=device)]))
    assert "Break it: not possible here: capture needs CUDA" in text(render_addresses(slice_, 120, 30))


def test_what_was_not_compared_yet_is_not_called_unmoved() -> None:
    fresh = msgspec.structs.replace(view(), addresses=Addresses(fixed=fixed()))
    lines = render_addresses(fresh, 120, 30)
    assert "not compared yet" in lines[0].plain
    assert next(line.plain for line in lines if line.plain.startswith("keys")).split()[-2:] == ["n/a", "in-graph"]
    assert "no fixed tensors yet" in text(render_addresses(AddressSlice(), 120, 30))
    assert "this run told of no fixed tensors" in text(render_addresses(AddressSlice(over=True), 120, 30))


def test_broken_shows_stale_output_both_addresses_and_what_the_guard_says() -> None:
    lines = text(render_addresses(view(shown=BROKEN), 120, 30))
    assert "BROKEN: the input was rebound" in lines
    assert "fed       11 52 7 9" in lines
    assert "expected  52 7 9 33" in lines
    assert "replayed  88 88 88 88  ✗ stale" in lines
    assert "the graph reads 0x7f9a00001000, the code writes 0x7f9a00002000" in lines
    assert "stale graph: input_ids moved" in lines
    assert "press b again" in lines


def test_mended_shows_that_the_outputs_are_as_expected_again() -> None:
    lines = text(render_addresses(view(shown=MENDED), 120, 30))
    assert "MENDED: the captured input is back" in lines
    assert "replayed  52 7 9 33  ✓ as expected" in lines
    assert "press b" not in lines


def test_the_logits_decide_where_they_were_compared() -> None:
    flipped = msgspec.structs.replace(MENDED, replay_ids=(52, 7, 9, 0), difference=0.0123, tolerance=0.066)
    lines = " ".join(text(render_addresses(view(shown=flipped), 120, 30)).split())
    assert "replayed 52 7 9 0 ✓ as expected" in lines and "follow what is fed again" in lines
    assert "logits 0.0123 apart, 0.066 is rounding: 1 id flipped where two logits are nearly equal" in lines
    by_chance = msgspec.structs.replace(flipped, replay_ids=MENDED.replay_ids, difference=1.4)
    assert "✗ stale" in text(render_addresses(view(shown=by_chance), 120, 30)), "the same ids by chance"


def test_half_right_outputs_are_stale() -> None:
    half = msgspec.structs.replace(MENDED, replay_ids=(52, 7, 9, 0))
    assert "✗ stale" in text(render_addresses(view(shown=half), 120, 30))


def test_before_the_demonstration_it_says_how_to_start_it_or_why_it_cannot() -> None:
    assert "press b to rebind the input" in text(render_addresses(AddressSlice.of(until("capture")), 120, 30))
    assert "needs a captured graph" in text(render_addresses(AddressSlice.of(until("load")), 120, 30))
    recorded = AddressSlice.of(until("capture"), recorded=True)
    assert "not shown up to here in this recording" in text(render_addresses(recorded, 120, 30))
    on_cpu = folded([hello(), PhaseEnd(phase="capture", status="unavailable", reason="needs CUDA")])
    assert "not possible here: needs CUDA" in text(render_addresses(AddressSlice.of(on_cpu), 120, 30))


def test_opened_every_layer_has_a_row_and_scrolling_stops_at_the_ends() -> None:
    widget = AddressView(view())
    widget.toggle()
    assert widget.view.cursor.opened
    widget.scroll(-3)
    assert widget.view.cursor.top == 0
    widget.scroll(10_000)
    assert "logits" in text(render_addresses(widget.view, 80, 20))
    widget.show(view(moved=("keys 1",)))
    assert widget.view.cursor.opened
    assert widget.view.addresses is not None
    assert widget.view.addresses.moved == 1


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    "slice_",
    [view(), view(shown=BROKEN), view(shown=MENDED, opened=True), view(moved=("keys 7",)), AddressSlice()],
    ids=["fine", "broken", "opened", "moved", "empty"],
)
def test_it_fits_at_every_size(size: tuple[int, int], slice_: AddressSlice) -> None:
    lines = render_addresses(slice_, *size)
    assert len(lines) <= size[1]
    assert all(line.cell_length <= size[0] for line in lines)
    if slice_.demonstration is not None:
        assert ("stale" if slice_.demonstration.stage == "broken" else "as expected") in text(lines)
    if slice_.addresses is not None and slice_.addresses.moved:
        assert "✗ 1 moved" in lines[0].plain
