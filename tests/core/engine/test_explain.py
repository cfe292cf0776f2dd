"""The pieces of a Δ add up to it exactly, and what has no cause is called unexplained."""

from collections.abc import Sequence

import msgspec

from cgtop.core.engine.devices import RawBlock, RawSegment
from cgtop.core.engine.explain import UNEXPLAINED, explain
from cgtop.core.engine.memory import Owner, Processes, Sample, attribute
from cgtop.core.events import CounterName, Counters, Item

COUNTERS: tuple[CounterName, ...] = ("requested", "allocated", "reserved", "driver")


def sample(
    blocks: Sequence[tuple[int, int, Owner | None]], *, driver: int | None = 100, extra_requested: int = 0
) -> Sample:
    """Blocks of (size, requested, owner) in one segment with 1,000 bytes free."""
    raw, owners, address = [], {}, 4096
    for size, requested, owner in blocks:
        raw.append(RawBlock(address, size, requested, True))
        if owner is not None:
            owners[address] = owner
        address += size
    raw.append(RawBlock(address, 1000, 0, False))
    segment = RawSegment(4096, address + 1000 - 4096, (0, 0), 0, tuple(raw))
    own = None if driver is None else driver + segment.size
    return attribute(
        (segment,),
        owners,
        counters=Counters(
            requested=sum(block.requested for block in raw) + extra_requested,
            allocated=sum(block.size for block in raw if block.active),
            reserved=segment.size,
        ),
        free_and_total=(5000, 5000 + segment.size + 200),
        processes=Processes(own_bytes=own, others_bytes=None if own is None else 0),
    )


def sums(explained: dict[CounterName, tuple[Item, ...]]) -> dict[CounterName, int]:
    return {name: sum(item.bytes for item in items) for name, items in explained.items()}


WEIGHTS = Owner("weights", "parameters", "p")


def test_pieces_add_up_to_every_delta() -> None:
    before, after = sample([]), sample([(2048, 2000, WEIGHTS), (512, 4, None)], driver=170)
    explained = explain("load", before, after)
    assert sums(explained) == {"requested": 2004, "allocated": 2560, "reserved": 2560, "driver": 70}
    assert [(item.name, item.bytes) for item in explained["requested"]] == [("parameters", 2000), (UNEXPLAINED, 4)]
    assert [item.certainty for item in explained["driver"]] == ["inferred"]


def test_what_a_counter_says_beyond_the_map_is_unexplained() -> None:
    explained = explain("load", sample([]), sample([(2048, 2000, WEIGHTS)], extra_requested=7))
    assert (explained["requested"][-1].name, explained["requested"][-1].bytes) == (UNEXPLAINED, 7)


def test_a_measured_piece_of_the_driver_stands_apart_from_the_inferred_rest() -> None:
    pieces = (Item(name="executable graph (instantiate)", bytes=40),)
    explained = explain("capture", sample([]), sample([], driver=150), pieces)
    assert [(item.bytes, item.certainty) for item in explained["driver"]] == [(40, "measured"), (10, "inferred")]


def test_the_context_is_measured_not_inferred() -> None:
    explained = explain("context", sample([], driver=0), sample([], driver=520), driver_measured=True)
    assert [(item.name, item.certainty) for item in explained["driver"]] == [("CUDA context", "measured")]


def test_replay_has_no_excuse_for_driver_bytes() -> None:
    explained = explain("replay", sample([]), sample([], driver=102))
    assert [(item.name, item.bytes) for item in explained["driver"]] == [(UNEXPLAINED, 2)]


def test_an_unknown_counter_has_no_explanation() -> None:
    explained = explain("load", sample([], driver=None), sample([(2048, 2000, WEIGHTS)], driver=None))
    assert "driver" not in explained and set(explained) == {"requested", "allocated", "reserved"}


def test_freed_memory_is_a_negative_piece_under_its_own_name() -> None:
    explained = explain("release", sample([(2048, 2000, WEIGHTS)]), sample([]))
    assert [(item.name, item.bytes) for item in explained["requested"]] == [("parameters", -2000)]


def test_segments_are_counted_in_words_with_a_true_sign() -> None:
    one = sample([(1000, 1000, None)])
    reserved = one.pool_reserved["default"]
    three = msgspec.structs.replace(
        one,
        segments=one.segments * 3,
        pool_reserved={"default": 3 * reserved},
        counters=msgspec.structs.replace(one.counters, reserved=3 * reserved),
    )
    none = msgspec.structs.replace(
        one, segments=(), pool_reserved={}, counters=msgspec.structs.replace(one.counters, reserved=0)
    )
    notes = [
        explain("warmup", before, after)["reserved"][0].note
        for before, after in ((none, one), (one, none), (one, three), (three, one))
    ]
    assert notes == ["+1 segment", "−1 segment", "+2 segments", "−2 segments"]
