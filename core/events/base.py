"""What all events and their parts are made of: the base classes and the closed sets of names."""

from typing import Annotated, Literal

import msgspec

SCHEMA = 1

PhaseId = Literal["context", "load", "prefill", "static_cache", "copy_kv", "warmup", "capture", "replay", "release"]
CounterName = Literal["requested", "allocated", "reserved", "driver"]
Bytes = Annotated[int, msgspec.Meta(ge=0)]
"""A size: never negative."""
Certainty = Literal["measured", "computed", "inferred"]
Verdict = Literal["identical", "within_eager_noise", "mismatch"]
RunStateName = Literal["idle", "running", "decoding", "paused", "failed", "released"]


class SchemaError(ValueError):
    """A stream was written by a newer cgtop, in a schema that this one does not know."""


class Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="event"):
    """Base of all events. `t`: seconds since `hello`, monotonic."""

    t: float = 0.0


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """Base of the values inside events."""
