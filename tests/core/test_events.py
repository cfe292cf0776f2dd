"""The event codec: what is written comes back, what is unknown is skipped, what is newer is refused."""

import msgspec
import pytest

from cgtop.core.events import EVENT_TYPES, SCHEMA, Event, Hello, SchemaError, decode_event, encode_event
from tests.sample import decode, hello, sample_run


def test_every_event_of_a_run_survives_a_round_trip() -> None:
    for event in sample_run(decode_events=3):
        assert decode_event(encode_event(event)) == event


def test_every_event_class_is_registered_under_its_own_tag() -> None:
    subclasses = set(Event.__subclasses__())
    assert set(EVENT_TYPES.values()) == subclasses
    for tag, kind in EVENT_TYPES.items():
        assert msgspec.inspect.type_info(kind).tag == tag  # type: ignore[attr-defined]


def test_unknown_events_and_fields_are_skipped() -> None:
    assert decode_event(b'{"event":"from_the_future","t":1.5,"x":[1]}') is None
    line = encode_event(hello())[:-1] + b',"a_new_field":{"y":2}}'
    assert decode_event(line) == hello()


def test_a_newer_schema_is_refused_with_what_to_do() -> None:
    line = encode_event(msgspec.structs.replace(hello(), schema=SCHEMA + 1))
    with pytest.raises(SchemaError, match=f"schema {SCHEMA + 1}.*update cgtop"):
        decode_event(line)


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"not json",
        b"[1,2]",
        b'{"t":1}',
        b'{"event":"memory","free_bytes":-1}',
        b'{"event":"decode","mode":"graph","tokens":1,"position":1,"capacity":2,"tok_s":NaN}',
        b'{"event":"phase_begin","phase":"no_such_phase"}',
    ],
)
def test_lines_that_are_no_event_raise_value_error(line: bytes) -> None:
    with pytest.raises(ValueError):
        decode_event(line)


def test_unknown_figures_are_written_as_null_and_zero_as_zero() -> None:
    line = encode_event(sample_run(decode_events=1)[-3])
    event = msgspec.json.decode(line)
    assert event["allocations"] == 108
    assert event["device_allocations"] == 0
    assert isinstance(decode_event(encode_event(hello())), Hello)


def test_allocations_a_step_count_the_step_in_flight_and_are_unknown_where_they_are() -> None:
    ten = msgspec.structs.replace(decode(1.0, "eager", 10, 20.0, 42), launched=11, allocations=11 * 2335)
    assert ten.allocations_per_step == 2335
    assert msgspec.structs.replace(ten, launched=None, allocations=10).allocations_per_step == 1
    older = msgspec.structs.replace(ten, tokens=2, launched=None, allocations=3 * 2335)
    assert older.allocations_per_step == 2335
    assert msgspec.structs.replace(older, allocations=2 * 2335).allocations_per_step == 2335
    assert msgspec.structs.replace(older, allocations=0).allocations_per_step == 0
    assert msgspec.structs.replace(ten, allocations=None).allocations_per_step is None
    assert msgspec.structs.replace(ten, launched=0).allocations_per_step is None
