"""Exact accounting: where every byte of the device is.

`attribute` is pure: an allocator map, the addresses of what the engine owns, and the readings of CUDA and NVML in; a
`Sample` out, whose buckets add up to the device's total exactly. What is in each bucket stands in `core.memory_map`.
"""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from ..events import Block, Counters, Memory, PhaseId, Pool, Segment
from ..memory_map import BUCKET_IDS, REQUESTED_BUCKETS
from .devices import RawSegment
from .graphs import pool_name


class Owner(msgspec.Struct, frozen=True):
    """Whose storage begins at an address. `item` groups owners in a phase's explanation."""

    bucket: str
    item: str
    name: str


class Processes(msgspec.Struct, frozen=True):
    """One reading of NVML's processes. `own_bytes` is None if the own pid is hidden or has no figure."""

    own_bytes: int | None = None
    others_bytes: int | None = None
    reason: str = ""


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """One full attribution. `items` maps (bucket, item) to requested bytes; `pools` to reserved bytes by pool name."""

    counters: Counters
    buckets: dict[str, int]
    reasons: dict[str, str]
    items: dict[tuple[str, str], int]
    pool_reserved: dict[str, int]
    pools: tuple[Pool, ...]
    segments: tuple[Segment, ...]
    free_bytes: int | None
    total_bytes: int | None
    settled: bool = True
    source: str = ""

    def event(self, phase: PhaseId | None) -> Memory:
        """This sample as an event."""
        return Memory(
            phase=phase,
            total_bytes=self.total_bytes,
            free_bytes=self.free_bytes,
            counters=self.counters,
            buckets=self.buckets,
            reasons=self.reasons,
            pools=self.pools,
            settled=self.settled,
            source=self.source,
        )


UNOWNED = Owner("other_tensors", "unexplained", "")
"""An active block that nothing registered and no live tensor explains."""
ALLOCATORS_ONLY = ("cublas_workspace", "other_tensors")
"""Requested buckets that take an allocator's map to be known; without one they hold only what is registered, if any."""


def attribute(
    segments: Sequence[RawSegment],
    owners: Mapping[int, Owner],
    *,
    counters: Counters,
    free_and_total: tuple[int, int],
    processes: Processes,
    settled: bool = True,
    source: str = "",
) -> Sample:
    """Put every byte of a CUDA device into one bucket. `owners`: storage address -> owner.

    `device_used = total - free`; inside the allocator by its map, outside of it by NVML's processes. Where the own
    process is unknown, everything outside the allocator is one bucket.
    """
    free, total = free_and_total
    buckets = dict.fromkeys(REQUESTED_BUCKETS, 0)
    buckets |= {"rounding": 0, "graph_pool": 0, "cached": 0}
    items: dict[tuple[str, str], int] = {}
    pools: dict[str, list[int]] = {}
    mapped: list[Segment] = []
    for segment in segments:
        pool = pool_name(segment.pool)
        sums = pools.setdefault(pool, [0, 0, 0])
        sums[0] += segment.size
        blocks = []
        idle = segment.size
        for block in segment.blocks:
            owner = owners.get(block.address, UNOWNED) if block.active else None
            if owner is not None:
                idle -= block.size
                sums[1] += block.size
                sums[2] += block.requested
                buckets[owner.bucket] += block.requested
                buckets["rounding"] += block.size - block.requested
                key = (owner.bucket, owner.item)
                items[key] = items.get(key, 0) + block.requested
            blocks.append(
                Block(
                    offset=block.address - segment.address,
                    size=block.size,
                    requested=block.requested if block.active else 0,
                    bucket=owner.bucket if owner else None,
                    name=owner.name if owner else "",
                )
            )
        buckets["cached" if pool == "default" else "graph_pool"] += idle
        mapped.append(
            Segment(address=segment.address, size=segment.size, pool=pool, stream=segment.stream, blocks=tuple(blocks))
        )
    reserved = sum(segment.size for segment in segments)
    outside, reasons, driver = _outside_allocator(total - free - reserved, reserved, processes)
    buckets |= outside
    buckets["free"] = free
    return Sample(
        counters=msgspec.structs.replace(counters, driver=driver),
        buckets={bucket: buckets[bucket] for bucket in BUCKET_IDS if bucket in buckets},
        reasons=reasons,
        items=items,
        pool_reserved={name: sums[0] for name, sums in pools.items()},
        pools=tuple(
            Pool(id=name, reserved_bytes=sums[0], active_bytes=sums[1], requested_bytes=sums[2])
            for name, sums in sorted(pools.items())
            if name != "default"
        ),
        segments=tuple(mapped),
        free_bytes=free,
        total_bytes=total,
        settled=settled,
        source=source,
    )


def _outside_allocator(
    outside: int, reserved: int, processes: Processes
) -> tuple[dict[str, int], dict[str, str], int | None]:
    """Split what is used outside the allocator; one bucket where the own process or the others are unknown."""
    if processes.own_bytes is None or processes.others_bytes is None:
        why = processes.reason or "NVML does not tell this process's memory"
        return {"outside_allocator": outside}, dict.fromkeys(("driver", "other_processes", "unattributed"), why), None
    driver = processes.own_bytes - reserved
    unattributed = outside - driver - processes.others_bytes
    buckets = {"driver": driver, "other_processes": processes.others_bytes, "unattributed": unattributed}
    return buckets, {"outside_allocator": "split into driver, other processes and unattributed"}, driver


def registered_only(owned: Iterable[tuple[Owner, int]], why: str) -> Sample:
    """A sample where there is no allocator to ask (CPU): exact bytes of the registered storages, no total claimed."""
    buckets: dict[str, int] = {}
    items: dict[tuple[str, str], int] = {}
    for owner, size in owned:
        buckets[owner.bucket] = buckets.get(owner.bucket, 0) + size
        key = (owner.bucket, owner.item)
        items[key] = items.get(key, 0) + size
    ordered = {
        bucket: buckets.get(bucket, 0)
        for bucket in REQUESTED_BUCKETS
        if bucket in buckets or bucket not in ALLOCATORS_ONLY
    }
    return Sample(
        counters=Counters(requested=sum(buckets.values())),
        buckets=ordered,
        reasons={bucket: why for bucket in BUCKET_IDS if bucket not in ordered},
        items=items,
        pool_reserved={},
        pools=(),
        segments=(),
        free_bytes=None,
        total_bytes=None,
        source="registered storages",
    )


def carried_forward(
    last: Sample,
    counters: Counters,
    free: int | None,
    phase: PhaseId | None,
    *,
    kv_dynamic: int | None = None,
    processes: Processes | None = None,
) -> Memory:
    """A live sample: the last attribution moved by the counters, still adding up to the total exactly.

    What changed since the last attribution inside the allocator is the DynamicCache (`kv_dynamic`: its bytes now, where
    known), tensors of the running step (`other_tensors`, `rounding`) and free blocks (`cached`). Outside of it, a
    reading of the processes made now splits what is used; without one the change is `unattributed`.
    """
    buckets = dict(last.buckets)
    driver = last.counters.driver
    known = last.counters
    pairs = (
        (counters.requested, known.requested),
        (counters.allocated, known.allocated),
        (counters.reserved, known.reserved),
    )
    if last.total_bytes is not None and free is not None and last.free_bytes is not None:
        moved = [now - then if now is not None and then is not None else 0 for now, then in pairs]
        requested, allocated, reserved = moved
        grown = 0 if kv_dynamic is None else kv_dynamic - buckets["kv_dynamic"]
        buckets["kv_dynamic"] += grown
        buckets["other_tensors"] += requested - grown
        buckets["rounding"] += allocated - requested
        buckets["cached"] += reserved - allocated
        outside = "unattributed" if "unattributed" in buckets else "outside_allocator"
        buckets[outside] += last.free_bytes - free - reserved
        buckets["free"] = free
        if outside == "unattributed" and processes is not None and counters.reserved is not None:
            split, _, now = _outside_allocator(
                last.total_bytes - free - counters.reserved, counters.reserved, processes
            )
            if now is not None:
                driver = now
                buckets |= split
    return Memory(
        phase=phase,
        live=True,
        total_bytes=last.total_bytes,
        free_bytes=free,
        counters=msgspec.structs.replace(counters, driver=driver),
        buckets=buckets,
        reasons=last.reasons,
        pools=last.pools,
        settled=last.settled,
        source=f"{last.source}, carried forward by the allocator's counters" if last.source else "",
    )
