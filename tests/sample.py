"""A made-up stream of a whole run, for tests of what is drawn and stored: its figures are nobody's measurement."""

from cgtop.core.events import (
    Addresses,
    Block,
    CounterName,
    Counters,
    Decode,
    DeviceInfo,
    Event,
    FixedTensor,
    Graph,
    Hello,
    Item,
    Log,
    Memory,
    ModelInfo,
    PhaseBegin,
    PhaseEnd,
    PhaseId,
    Pool,
    Segment,
    Segments,
    Status,
    Telemetry,
    Tokens,
    Verification,
)
from cgtop.core.memory_map import BUCKET_IDS, GIB, MIB
from cgtop.core.phases import PHASE_IDS
from cgtop.core.settings import Mode, RunSettings

TOTAL = 140 * GIB

# phase -> (requested, allocated, reserved, driver) after it, in MiB; made up
AFTER: dict[PhaseId, tuple[int, int, int, int]] = {
    "context": (0, 0, 0, 520),
    "load": (7672, 7726, 8468, 612),
    "prefill": (7709, 7763, 8476, 688),
    "static_cache": (7853, 7907, 8476, 688),
    "copy_kv": (7853, 7907, 8476, 688),
    "warmup": (7853, 7907, 8476, 700),
    "capture": (7854, 7908, 8498, 704),
    "replay": (7854, 7908, 8498, 704),
    "release": (33, 33, 64, 700),
}
COUNTERS: tuple[CounterName, ...] = ("requested", "allocated", "reserved", "driver")


def counters(phase: PhaseId) -> Counters:
    return Counters(**{name: value * MIB for name, value in zip(COUNTERS, AFTER[phase], strict=True)})


def memory(t: float, phase: PhaseId, *, live: bool = False) -> Memory:
    """Buckets that add up to the total exactly."""
    requested, allocated, reserved, driver = (value * MIB for value in AFTER[phase])
    buckets = dict.fromkeys(BUCKET_IDS, 0)
    del buckets["outside_allocator"]
    loaded = requested > 7000 * MIB
    buckets["weights"] = 7672 * MIB if loaded else 0
    rest = requested - buckets["weights"]
    buckets["cublas_workspace"] = min(rest, 32 * MIB)
    rest -= buckets["cublas_workspace"]
    buckets["kv_static"] = 144 * MIB if rest >= 144 * MIB else 0
    rest -= buckets["kv_static"]
    buckets["kv_dynamic"] = rest
    buckets["rounding"] = allocated - requested
    pool = 21 * MIB if phase in ("capture", "replay") else 0
    buckets["graph_pool"] = pool
    buckets["cached"] = reserved - allocated - pool
    buckets["driver"] = driver
    buckets["unattributed"] = 9 * MIB
    buckets["free"] = TOTAL - sum(buckets.values())
    return Memory(
        t=t,
        phase=phase,
        live=live,
        total_bytes=TOTAL,
        free_bytes=buckets["free"],
        counters=counters(phase),
        buckets=buckets,
        pools=(Pool(id="0.1", reserved_bytes=22 * MIB, active_bytes=MIB, requested_bytes=MIB),) if pool else (),
        source="made up",
    )


def phase_end(t: float, phase: PhaseId) -> PhaseEnd:
    previous = PHASE_IDS[PHASE_IDS.index(phase) - 1] if phase != "context" else None
    before = counters(previous) if previous else Counters(requested=0, allocated=0, reserved=0, driver=0)
    after = counters(phase)
    explained: dict[CounterName, tuple[Item, ...]] = {}
    for name in COUNTERS:
        delta = getattr(after, name) - getattr(before, name)
        inferred = name == "driver" and phase != "context"
        items = (Item(name=f"{phase} {name}", bytes=delta, certainty="inferred" if inferred else "measured"),)
        explained[name] = items if delta else ()
    return PhaseEnd(
        t=t,
        phase=phase,
        before=before,
        after=after,
        peak_allocated=(after.allocated or 0) + 3 * MIB,
        seconds=0.25,
        allocations=0 if phase in ("replay", "copy_kv") else 108,
        device_allocations=0,
        explained=explained,
    )


def hello() -> Hello:
    return Hello(
        schema=1,
        started_at="2026-11-30T08:00:00Z",
        versions={"cgtop": "0.1.0", "python": "3.12.3", "torch": "2.11.0+cu130", "transformers": "5.17.0"},
        device=DeviceInfo(
            kind="cuda",
            name="NVIDIA Sample GPU",
            index=0,
            uuid="GPU-00000000-1111-2222-3333-444444444444",
            capability="9.0",
            total_bytes=TOTAL,
            driver_version="580.159.04",
            memory_bandwidth_bytes_s=4.8e12,
        ),
        model=ModelInfo(
            name="qwen3-4b",
            source="random",
            parameters=4_022_468_096,
            parameter_bytes=8_044_936_192,
            dtype="bfloat16",
            attention="sdpa",
            layers=36,
            kv_heads=8,
            head_dim=128,
            vocab_size=151_936,
            static_cache_bytes=144 * MIB,
        ),
        settings=RunSettings(model="qwen3-4b", device="cuda:0"),
        policies={"synchronisation": "one decode step in flight", "streams": "one side stream from prefill on"},
    )


def decode(t: float, mode: Mode, tokens: int, tok_s: float, position: int) -> Decode:
    return Decode(
        t=t,
        mode=mode,
        tokens=tokens,
        tok_s=tok_s,
        tok_s_mean=tok_s,
        step_ms_p50=1000 / tok_s,
        step_ms_p99=1100 / tok_s,
        allocations=0 if mode == "graph" else tokens * 2338,
        device_allocations=0,
        replays=tokens if mode == "graph" else 0,
        replay_allocations=0 if mode == "graph" else None,
        position=position,
        capacity=1024,
        gb_s=8.2 * tok_s,
    )


def sample_run(*, decode_events: int = 30) -> list[Event]:
    """All nine phases with a stretch of each decode mode before release."""
    events: list[Event] = [hello()]
    t = 0.0
    for phase in PHASE_IDS:
        if phase == "release":
            continue
        t += 0.5
        events += [Status(t=t, state="running", phase=phase), PhaseBegin(t=t, phase=phase)]
        t += 0.5
        if phase == "capture":
            events += [
                Graph(
                    t=t,
                    nodes=2372,
                    nodes_by_kind={"kernel": 2300, "memcpy": 36, "memset": 36},
                    pool_id="0.1",
                    stream="side",
                    capture_s=0.1,
                    instantiate_s=0.02,
                    instantiate_driver_bytes=4 * MIB,
                ),
                Addresses(
                    t=t,
                    fixed=(
                        FixedTensor(name="input_ids", address=4096, bytes=8, update="in-graph"),
                        FixedTensor(name="keys 0", address=8192, bytes=2 * MIB, update="in-graph"),
                        FixedTensor(name="logits", address=16384, bytes=303_872, update="in-graph"),
                    ),
                ),
            ]
        events += [phase_end(t, phase), memory(t, phase), segments(t, phase)]
        if phase == "capture":
            events.append(
                Verification(
                    t=t,
                    verdict="identical",
                    steps=64,
                    batch_size=1,
                    identical_steps=64,
                    max_difference=0.0,
                    eager_runs=2,
                    eager_identical_steps=64,
                    eager_difference=0.0,
                    distinct_tokens=40,
                    dynamic_difference=0.004,
                    dynamic_tolerance=0.05,
                    dynamic_ok=True,
                    seconds=6.0,
                )
            )
    stretches: tuple[tuple[Mode, float], ...] = (("graph", 125.5), ("eager", 28.1), ("dynamic", 26.0), ("graph", 125.0))
    position = 32
    for mode, tok_s in stretches:
        events.append(Status(t=t, state="decoding", mode=mode, phase="replay", next_phase="release"))
        for i in range(1, decode_events + 1):
            t += 0.1
            step = max(1, round(tok_s / 10))
            position = 32 + (position - 32 + step) % 992
            events.append(decode(t, mode, i * step, tok_s, position))
            events.append(Tokens(t=t, mode=mode, ids=tuple(range(position, position + step))))
            if i % 10 == 0:
                events.append(
                    Telemetry(
                        t=t,
                        used_bytes=9 * GIB,
                        total_bytes=TOTAL,
                        memory_api="v2",
                        gpu_percent=97,
                        sm_mhz=1980,
                        power_w=350.0,
                        temperature_c=40,
                        throttle=(),
                        matched_by="uuid",
                    )
                )
                events.append(memory(t, "replay", live=True))
    events += [
        Log(t=t, source="stderr", text="a native library says hello"),
        PhaseBegin(t=t, phase="release"),
        phase_end(t + 0.3, "release"),
        memory(t + 0.3, "release"),
        Status(t=t + 0.3, state="released"),
    ]
    return events


def segments(t: float, phase: PhaseId) -> Segments:
    """Two segments, one of them of a private pool."""
    return Segments(
        t=t,
        phase=phase,
        segments=(
            Segment(
                address=0x7F0000000000,
                size=64 * MIB,
                pool="default",
                stream=0,
                blocks=(
                    Block(offset=0, size=32 * MIB, requested=32 * MIB, bucket="cublas_workspace", name="workspace"),
                    Block(offset=32 * MIB, size=32 * MIB, requested=0),
                ),
            ),
            Segment(
                address=0x7F1000000000,
                size=22 * MIB,
                pool="0.1",
                stream=1,
                blocks=(
                    Block(offset=0, size=MIB, requested=303_872, bucket="graph_io", name="logits"),
                    Block(offset=MIB, size=21 * MIB, requested=0),
                ),
            ),
        ),
    )
