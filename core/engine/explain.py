"""What a phase's Δ is made of, for each counter: pieces that add up to it exactly.

What has no cause is a piece "unexplained". A cause that was not measured itself, but is what is left when the measured
ones are taken away, is marked inferred.
"""

from collections.abc import Sequence

from ..events import CounterName, Counters, Item, PhaseId
from ..plurals import counted
from .memory import Sample

UNEXPLAINED = "unexplained"

LEFT_OVER_DRIVER: dict[PhaseId, str] = {
    "context": "CUDA context",
    "load": "modules of the kernels that fill or copy weights",
    "prefill": "modules loaded lazily at first use",
    "static_cache": "modules loaded lazily at first use",
    "copy_kv": "modules loaded lazily at first use",
    "warmup": "modules loaded lazily at first use",
    "capture": "modules loaded lazily at first use",
}
"""What the driver's own growth in a phase is, where no measured piece explains it."""


def explain(
    phase: PhaseId, before: Sample, after: Sample, driver_pieces: Sequence[Item] = (), *, driver_measured: bool = False
) -> dict[CounterName, tuple[Item, ...]]:
    """Counter -> pieces of its Δ between two full attributions; a counter that is unknown is absent.

    `driver_pieces`: what was measured of the driver's growth while the phase ran. `driver_measured`: the phase does
    nothing else that the driver could grow by, so what is left over was measured as well (the context).
    """
    found: dict[CounterName, tuple[Item, ...]] = {}
    requested = _requested_items(before, after)
    delta = _delta(before.counters, after.counters, "requested")
    if delta is not None:
        found["requested"] = _with_rest(requested, delta)
    delta = _delta(before.counters, after.counters, "allocated")
    if delta is not None:
        rounding = after.buckets.get("rounding", 0) - before.buckets.get("rounding", 0)
        note = "block size minus requested size"
        found["allocated"] = _with_rest([*requested, *_item("rounding", rounding, note)], delta)
    delta = _delta(before.counters, after.counters, "reserved")
    if delta is not None:
        found["reserved"] = _with_rest(_reserved_items(before, after), delta)
    delta = _delta(before.counters, after.counters, "driver")
    if delta is not None:
        found["driver"] = _driver_items(phase, delta, driver_pieces, driver_measured)
    return found


def _requested_items(before: Sample, after: Sample) -> list[Item]:
    keys = [*after.items, *(key for key in before.items if key not in after.items)]
    items = []
    for key in keys:
        bucket, name = key
        items += _item(name, after.items.get(key, 0) - before.items.get(key, 0), bucket)
    return items


def _reserved_items(before: Sample, after: Sample) -> list[Item]:
    items = []
    for pool in sorted({*before.pool_reserved, *after.pool_reserved}):
        change = after.pool_reserved.get(pool, 0) - before.pool_reserved.get(pool, 0)
        name = "default pool" if pool == "default" else f"private pool {pool}"
        segments = sum(1 for segment in after.segments if segment.pool == pool) - sum(
            1 for segment in before.segments if segment.pool == pool
        )
        items += _item(name, change, _more_segments(segments))
    return items


def _more_segments(count: int) -> str:
    if not count:
        return ""
    return f"{'+' if count > 0 else '−'}{counted(abs(count), 'segment')}"


def _driver_items(phase: PhaseId, delta: int, pieces: Sequence[Item], measured: bool) -> tuple[Item, ...]:
    items = [piece for piece in pieces if piece.bytes]
    rest = delta - sum(piece.bytes for piece in items)
    if rest == 0:
        return tuple(items)
    cause = LEFT_OVER_DRIVER.get(phase)
    if cause is None or (rest < 0 and not items):
        return (*items, Item(name=UNEXPLAINED, bytes=rest))
    note = "" if measured else "what is left of the driver's change"
    return (*items, Item(name=cause, bytes=rest, certainty="measured" if measured else "inferred", note=note))


def _with_rest(items: Sequence[Item], delta: int) -> tuple[Item, ...]:
    named = [item for item in items if item.name != UNEXPLAINED]
    rest = delta - sum(item.bytes for item in named)
    return (*named, *_item(UNEXPLAINED, rest, ""))


def _item(name: str, size: int, note: str) -> list[Item]:
    return [Item(name=name, bytes=size, note=note)] if size else []


def _delta(before: Counters, after: Counters, name: CounterName) -> int | None:
    first: int | None = getattr(before, name)
    last: int | None = getattr(after, name)
    return None if first is None or last is None else last - first
