"""The buckets add up to the device's total exactly, whatever the allocator's map looks like."""

from hypothesis import given
from hypothesis import strategies as st

from cgtop.core.engine.devices import RawBlock, RawSegment
from cgtop.core.engine.memory import Owner, Processes, Sample, attribute, carried_forward
from cgtop.core.events import Counters
from cgtop.core.memory_map import REQUESTED_BUCKETS

WORKSPACE = 33_554_432


@st.composite
def snapshots(draw: st.DrawFn) -> tuple[tuple[RawSegment, ...], dict[int, Owner]]:
    """A random allocator map with some of its active blocks owned."""
    segments, owners = [], {}
    address = 0x7000_0000_0000
    for _ in range(draw(st.integers(0, 6))):
        pool = draw(st.sampled_from([(0, 0), (0, 1), (0, 2)]))
        blocks, start = [], address
        for _ in range(draw(st.integers(1, 6))):
            size = draw(st.integers(1, 70)) * 1_048_576 // 2
            active = draw(st.booleans())
            requested = draw(st.integers(0, size)) if active else 0
            blocks.append(RawBlock(address, size, requested, active))
            if active and draw(st.booleans()):
                bucket = draw(st.sampled_from(REQUESTED_BUCKETS))
                owners[address] = Owner(bucket, f"an item of {bucket}", "a name")
            address += size
        segments.append(RawSegment(start, address - start, pool, draw(st.integers(0, 2)), tuple(blocks)))
        address += 1 << 30
    return tuple(segments), owners


def counted(segments: tuple[RawSegment, ...]) -> Counters:
    active = [block for segment in segments for block in segment.blocks if block.active]
    return Counters(
        requested=sum(block.requested for block in active),
        allocated=sum(block.size for block in active),
        reserved=sum(segment.size for segment in segments),
    )


def taken(
    segments: tuple[RawSegment, ...], owners: dict[int, Owner], *, free: int, outside: int, processes: Processes
) -> Sample:
    counters = counted(segments)
    assert counters.reserved is not None
    total = free + counters.reserved + outside
    return attribute(segments, owners, counters=counters, free_and_total=(free, total), processes=processes)


@given(snapshots(), st.integers(0, 1 << 40), st.integers(-(1 << 20), 1 << 31), st.integers(0, 1 << 35))
def test_buckets_add_up_to_the_total_exactly(
    snapshot: tuple[tuple[RawSegment, ...], dict[int, Owner]], free: int, outside: int, others: int
) -> None:
    segments, owners = snapshot
    reserved = counted(segments).reserved or 0
    known = Processes(own_bytes=reserved + 520 * 1_048_576, others_bytes=others)
    for processes in (known, Processes(reason="pid hidden")):
        sample = taken(segments, owners, free=free, outside=outside, processes=processes)
        assert sum(sample.buckets.values()) == sample.total_bytes
        assert sum(sample.items.values()) == sample.counters.requested
        named = sum(sample.buckets[bucket] for bucket in REQUESTED_BUCKETS)
        assert named == sample.counters.requested
        assert sample.buckets["rounding"] == (sample.counters.allocated or 0) - named
        private = sum(pool.reserved_bytes - pool.active_bytes for pool in sample.pools)
        assert sample.buckets["graph_pool"] == private
        negative = {bucket for bucket, size in sample.buckets.items() if size < 0}
        assert negative <= {"unattributed", "outside_allocator"}
        assert sum(len(segment.blocks) for segment in sample.segments) == sum(len(s.blocks) for s in segments)


def one_block(size: int, requested: int, pool: tuple[int, int] = (0, 0)) -> tuple[RawSegment, ...]:
    return (RawSegment(4096, size, pool, 0, (RawBlock(4096, size, requested, True),)),)


def test_an_unregistered_tensor_of_the_workspaces_size_is_no_workspace() -> None:
    sample = taken(one_block(WORKSPACE, WORKSPACE), {}, free=1, outside=0, processes=Processes())
    assert sample.buckets["cublas_workspace"] == 0
    assert sample.buckets["other_tensors"] == WORKSPACE
    assert sample.items == {("other_tensors", "unexplained"): WORKSPACE}


def test_rounding_of_a_private_pool_is_counted_once() -> None:
    owners = {4096: Owner("graph_io", "logits", "logits")}
    sample = taken(one_block(304_128, 303_872, (0, 1)), owners, free=1, outside=0, processes=Processes())
    assert (sample.buckets["graph_io"], sample.buckets["rounding"], sample.buckets["graph_pool"]) == (303_872, 256, 0)


def test_a_hidden_pid_leaves_one_bucket_outside_the_allocator_and_says_why() -> None:
    processes = Processes(reason="pid hidden: this process is not in NVML's list")
    sample = taken(one_block(1024, 1000), {}, free=10, outside=700, processes=processes)
    assert sample.buckets["outside_allocator"] == 700
    assert "driver" not in sample.buckets and "pid hidden" in sample.reasons["driver"]
    assert sample.counters.driver is None


def test_unattributed_may_be_negative_and_keeps_the_sum() -> None:
    processes = Processes(own_bytes=1024 + 500, others_bytes=300)
    sample = taken(one_block(1024, 1000), {}, free=10, outside=700, processes=processes)
    assert (sample.buckets["driver"], sample.buckets["unattributed"]) == (500, -100)
    assert sum(sample.buckets.values()) == sample.total_bytes


@given(
    snapshots(),
    st.integers(0, 1 << 30),
    st.integers(0, 1 << 30),
    st.integers(0, 1 << 30),
    st.integers(0, 1 << 30),
    st.none() | st.integers(0, 1 << 28),
    st.none() | st.builds(Processes, own_bytes=st.none() | st.integers(0, 1 << 32), others_bytes=st.integers(0, 9)),
)
def test_live_samples_still_add_up_to_the_total(
    snapshot: tuple[tuple[RawSegment, ...], dict[int, Owner]],
    free: int,
    requested: int,
    allocated: int,
    reserved: int,
    kv_dynamic: int | None,
    now: Processes | None,
) -> None:
    segments, owners = snapshot
    last = taken(
        segments, owners, free=1 << 30, outside=1 << 29, processes=Processes(own_bytes=1 << 31, others_bytes=0)
    )
    counters = Counters(requested=requested, allocated=allocated, reserved=reserved)
    live = carried_forward(last, counters, free, None, kv_dynamic=kv_dynamic, processes=now)
    assert live.live and sum(live.buckets.values()) == live.total_bytes == last.total_bytes
    if kv_dynamic is not None:
        assert live.buckets["kv_dynamic"] == kv_dynamic
    if now is not None and now.own_bytes is not None:
        assert live.buckets["driver"] == live.counters.driver == now.own_bytes - reserved
