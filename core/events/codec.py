"""Events as lines of JSON, and the register of all event types."""

from typing import get_args

import msgspec

from .base import SCHEMA, Event, SchemaError
from .experiments import (
    Caches,
    Check,
    Claim,
    Comparison,
    Demonstration,
    DynamicCapture,
    SweepBegin,
    SweepEnd,
    SweepRow,
)
from .run import (
    Addresses,
    Decode,
    End,
    Error,
    Graph,
    Hello,
    Log,
    Memory,
    PhaseBegin,
    PhaseEnd,
    Progress,
    Segments,
    Status,
    Telemetry,
    Tokens,
    Verification,
)

AnyEvent = (
    Hello
    | Progress
    | PhaseBegin
    | PhaseEnd
    | Memory
    | Segments
    | Graph
    | Addresses
    | Verification
    | Decode
    | Tokens
    | Caches
    | DynamicCapture
    | Demonstration
    | SweepBegin
    | SweepRow
    | SweepEnd
    | Comparison
    | Check
    | Claim
    | Telemetry
    | Status
    | Log
    | Error
    | End
)

EVENT_TYPES: dict[str, type[Event]] = {str(kind.__struct_config__.tag): kind for kind in get_args(AnyEvent)}
"""Tag -> type."""

LIVE_EVENTS: tuple[type[Event], ...] = (Progress, Decode, Caches, Telemetry)
"""Events of which only the latest matters (and `Memory` with `live=True`): a sink may overwrite one not yet written."""


class _Envelope(msgspec.Struct):
    event: str = ""
    schema: int = SCHEMA


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(AnyEvent)
_envelope_decoder = msgspec.json.Decoder(_Envelope)
_decoders = {tag: msgspec.json.Decoder(kind) for tag, kind in EVENT_TYPES.items()}


def encode_event(event: Event) -> bytes:
    """One line of JSON, without its newline."""
    return _encoder.encode(event)


def decode_event(line: bytes) -> Event | None:
    """The event of one line, or None for a type that this version does not know.

    Raises `SchemaError` for a `hello` of a newer schema and `ValueError` (msgspec's errors are) for a line that is not
    an event at all.
    """
    try:
        event: Event = _decoder.decode(line)
    except msgspec.ValidationError:
        return _decode_by_envelope(line)
    if isinstance(event, Hello):
        _require_known(event.schema)
    return event


def _decode_by_envelope(line: bytes) -> Event | None:
    """Of a line that is no event of this version: an event of another one, or what is wrong with it."""
    envelope = _envelope_decoder.decode(line)
    if envelope.event == "hello":
        _require_known(envelope.schema)
    decoder = _decoders.get(envelope.event)
    if decoder is None:
        if not envelope.event:
            raise ValueError("not an event: no field 'event'")
        return None
    return decoder.decode(line)


def _require_known(schema: int) -> None:
    if schema > SCHEMA:
        raise SchemaError(
            f"written in schema {schema}; this cgtop reads up to schema {SCHEMA}: update cgtop to open it"
        )
