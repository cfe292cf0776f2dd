"""A made-up run in which the guide is right in everything: a measure for what must flip a verdict, nobody's figures."""

from typing import TypeVar

import msgspec

from cgtop.core import guide
from cgtop.core.events import (
    Addresses,
    ArmResult,
    Caches,
    Comparison,
    CounterName,
    Counters,
    Decode,
    Demonstration,
    DeviceInfo,
    DynamicCapture,
    FixedTensor,
    Graph,
    Hello,
    Item,
    ModelInfo,
    PhaseEnd,
    PhaseId,
    SweepKind,
    SweepRow,
    Verification,
)
from cgtop.core.memory_map import MIB
from cgtop.core.phases import PHASE_IDS
from cgtop.core.settings import Mode, RunSettings
from cgtop.core.state import PhaseState, RunState, Sweep

S = TypeVar("S", bound=msgspec.Struct)
WEIGHTS = 8_044_936_192
ITEMS: dict[PhaseId, tuple[tuple[str, int], ...]] = {
    "context": (),
    "load": (("parameters", WEIGHTS), ("buffers", 512)),
    "prefill": (("DynamicCache keys and values", 9 * MIB // 2),),
    "static_cache": (("StaticCache keys and values", 144 * MIB),),
    "copy_kv": (),
    "warmup": (("activations", 8 * MIB),),
    "capture": (("kernel sequence", 8 * MIB),),
    "replay": (),
}
GUIDE = RunSettings(model="qwen3-4b", device="cuda")
MODEL = ModelInfo(
    name="qwen3-4b",
    source="random",
    parameters=4_022_468_096,
    parameter_bytes=WEIGHTS,
    dtype="bfloat16",
    attention="sdpa",
    layers=36,
    kv_heads=8,
    head_dim=128,
    vocab_size=151_936,
    static_cache_bytes=144 * MIB,
)
FIXED = (FixedTensor(name="input_ids", address=4096, bytes=8, update="copy_"),)


def phase_end(phase: PhaseId, items: tuple[tuple[str, int], ...], before: int) -> PhaseEnd:
    """Requested, allocated and reserved grow by the items; the driver by nothing."""
    pieces = tuple(Item(name=name, bytes=size) for name, size in items)
    after = before + sum(size for _, size in items)
    explained: dict[CounterName, tuple[Item, ...]] = {"requested": pieces, "allocated": pieces}
    if phase == "capture":
        explained["reserved"] = (Item(name="private pool 0.1", bytes=6 * MIB),)
    return PhaseEnd(
        phase=phase,
        before=Counters(requested=before, allocated=before, reserved=before, driver=0),
        after=Counters(requested=after, allocated=after, reserved=after, driver=0),
        peak_allocated=after,
        allocations=0,
        device_allocations=0,
        explained=explained,
    )


def phase_states(items: dict[PhaseId, tuple[tuple[str, int], ...]] = ITEMS) -> tuple[PhaseState, ...]:
    states, before = [], 0
    for phase in PHASE_IDS:
        if phase not in items:
            states.append(PhaseState(id=phase))
            continue
        end = phase_end(phase, items[phase], before)
        before = end.after.requested or 0
        states.append(PhaseState(id=phase, status="done", end=end))
    # the guide's counter reads its own total, whatever lives beside it
    capture = states[PHASE_IDS.index("capture")]
    if capture.end is not None and items is ITEMS:
        size, grown = 7833 * MIB, 8 * MIB
        counters = {"before": Counters(requested=0, allocated=size - grown, reserved=0, driver=0)}
        counters["after"] = Counters(requested=grown, allocated=size, reserved=grown, driver=0)
        states[PHASE_IDS.index("capture")] = change(capture, end=change(capture.end, **counters))
    return tuple(states)


def decode(mode: Mode, tok_s: float) -> Decode:
    return Decode(
        mode=mode,
        tokens=100,
        tok_s_mean=tok_s,
        allocations=0 if mode == "graph" else 230_000,
        replays=100,
        replay_allocations=0,
        position=132,
        capacity=1024,
    )


def length_row(tokens: int, allocated_mib: float) -> SweepRow:
    kv = tokens * 144 * 1024
    size = int(allocated_mib * MIB)
    return SweepRow(sweep="cache_lens", value=tokens, kv_bytes=kv, workspace_bytes=size - kv, allocated_bytes=size)


def batch_row(size: int, strategy: str = "own", kv_mib: int | None = None) -> SweepRow:
    kv = (144 * size if kv_mib is None else kv_mib) * MIB
    return SweepRow(sweep="batches", strategy=strategy, value=size, kv_bytes=kv, verdict="identical")


def sweeps() -> dict[SweepKind, Sweep]:
    sizes = [row.batch_size for row in guide.BATCH_SIZES]
    paged = [batch_row(size, "paged", 144 * 16 if size == 16 else 0) for size in reversed(sizes)]
    shared = [batch_row(size, "shared-cache") for size in sizes]
    # 16.8 MiB beside the cache, as the guide had; its long rows are what its "145 to 160" is of
    lengths = [length_row(row.tokens, row.tokens * 0.140625 + 16.83) for row in guide.CACHE_LENGTHS]
    return {
        "cache_lens": Sweep(rows=tuple(lengths)),
        "batches": Sweep(rows=(*(batch_row(size) for size in sizes), *shared, *paged)),
    }


def arm(mode: Mode, tok_s: float) -> ArmResult:
    return ArmResult(
        mode=mode,
        rounds=5,
        tokens=320,
        tok_s=tok_s,
        tok_s_low=tok_s,
        tok_s_high=tok_s,
        step_ms_p50=1000 / tok_s,
        step_ms_p99=1000 / tok_s,
    )


def comparison(eager: float = 25.0, graph: float = 70.0) -> Comparison:
    arms = (arm("eager", eager), arm("graph", graph))
    return Comparison(arms=arms, rounds=5, final=True, ratio=graph / eager, verdict="identical")


def demonstration(stage: str, replayed: tuple[int, ...]) -> Demonstration:
    return Demonstration(
        stage="broken" if stage == "broken" else "mended",
        fed_ids=(1, 2),
        expected_ids=(5, 6),
        replay_ids=replayed,
        captured_address=4096,
        present_address=8192,
    )


def caches(static: int, dynamic: int, position: int, moves: int) -> Caches:
    return Caches(
        static_bytes=static * MIB,
        static_position=position,
        static_moves=0,
        dynamic_bytes=dynamic * MIB,
        dynamic_position=position,
        dynamic_steps=position,
        dynamic_moves=moves,
    )


def main_run() -> RunState:
    return RunState(
        t=60.0,
        hello=Hello(schema=1, device=DeviceInfo(kind="cuda", name="made up"), model=MODEL, settings=GUIDE),
        phases=phase_states(),
        graph=Graph(nodes=2400, instantiate_driver_bytes=2 * MIB),
        addresses=Addresses(fixed=FIXED, moved=0, checked=100),
        verification=Verification(
            verdict="identical",
            steps=64,
            batch_size=1,
            identical_steps=64,
            eager_runs=2,
            eager_identical_steps=64,
            seconds=1.0,
        ),
        decode_by_mode={"eager": decode("eager", 25.0), "graph": decode("graph", 70.0)},
        caches=(caches(144, 5, 32, 0), caches(144, 9, 64, 30)),
        dynamic_capture=DynamicCapture(captured=False, error="refused"),
        demonstration=demonstration("mended", (5, 6)),
        sweeps=sweeps(),
        comparison=comparison(),
    )


def with_warmup(steps: int, *, late: bool) -> RunState:
    """A shorter run; `late`: its capture had to make a workspace."""
    items = dict(ITEMS)
    items["capture"] = (("cuBLAS workspace of the stream", 8_519_680),) if late else (("logits", 303_872),)
    settings = msgspec.structs.replace(GUIDE, warmup=steps)
    hello = Hello(schema=1, device=DeviceInfo(kind="cuda", name="made up"), model=MODEL, settings=settings)
    return RunState(hello=hello, phases=phase_states(items), graph=Graph(nodes=2400))


def guide_runs() -> list[RunState]:
    broken = RunState(hello=main_run().hello, demonstration=demonstration("broken", (5, 5)))
    return [main_run(), broken, with_warmup(1, late=True), with_warmup(0, late=True)]


def change(struct: S, **fields: object) -> S:
    return msgspec.structs.replace(struct, **fields)
