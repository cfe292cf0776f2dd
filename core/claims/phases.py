"""The guide's table of phases: each figure, and what the guide says it is made of."""

from ..events import CounterName, PhaseEnd, PhaseId
from ..memory_map import MIB
from ..plurals import counted
from ..sizing import DTYPE_BYTES, KvShape, static_cache_bytes
from .cases import ANYWHERE, GUIDES_CASE, GUIDES_MODEL
from .evidence import (
    Evidence,
    Finding,
    change,
    done,
    items_of,
    judged,
    listed,
    mib,
    not_measured,
    part,
    prints_as,
)
from .statement import Statement

GUIDE_GROWTH_MIB = 8
ORIGIN = "the guide's 8.4 MiB are a cuBLAS workspace before sm_90 and one logits tensor, once for each further stream"
"""What the guide's figure is made of: 8,519,680 + 151,936 × 2 B."""
NO_ACTIVATIONS = ("workspace", "logits")
NO_SEQUENCE = ("workspace", "logits", "generator")
COUNTERS: tuple[CounterName, ...] = ("requested", "allocated", "reserved", "driver")
AFTER_LOAD: tuple[PhaseId, ...] = ("prefill", "static_cache", "copy_kv", "warmup", "capture")
KV = "StaticCache keys and values"
NO_CACHE = "no static cache phase that has ended"


def _load(seen: Evidence) -> Finding:
    requested, model = seen.delta("load", "requested"), seen.model
    if requested is None or model is None:
        return not_measured("no load phase")
    items, allocated = seen.items("load"), seen.delta("load", "allocated")
    weights = part(items, "parameters", "buffers")
    counted = f"; allocated reads {mib(allocated)}, with the allocator's rounding" if allocated is not None else ""
    sentence = f"The load adds {mib(requested)} requested, of which {mib(weights)} are weights{counted}."
    return judged(weights == requested and prints_as(weights, 7672), sentence)


def _total(seen: Evidence) -> Finding:
    end = seen.end("capture")
    if end is None or end.after.allocated is None:
        return not_measured("no allocated bytes after a capture")
    sentence = f"Allocated after capture is {mib(end.after.allocated)}, which depends on rounding, workspaces and GPU."
    return judged(prints_as(end.after.allocated, 7833), sentence)


def _static_cache(seen: Evidence) -> Finding:
    size = seen.items("static_cache").get(KV)
    if size is None:
        return not_measured(NO_CACHE)
    return judged(prints_as(size, 144), f"Keys and values of the StaticCache take {mib(size)} ({size:,} B).")


def _formula(seen: Evidence) -> Finding:
    size, model, hello = seen.items("static_cache").get(KV), seen.model, seen.main.hello
    if size is None or model is None or hello is None or model.dtype not in DTYPE_BYTES:
        return not_measured("no StaticCache of a known shape")
    asked = hello.settings
    kv = KvShape(layers=model.layers, kv_heads=model.kv_heads, head_dim=model.head_dim)
    form = static_cache_bytes(kv, batch_size=asked.batch_size, max_cache_len=asked.max_cache_len, dtype=model.dtype)
    factors = (
        f"{model.layers} × 2 × {asked.batch_size} × {model.kv_heads} × {asked.max_cache_len} × {model.head_dim} × "
        f"{DTYPE_BYTES[model.dtype]}"
    )
    return judged(size == form, f"{factors} = {form:,} B; allocated were {size:,} B.")


def _dominant(seen: Evidence) -> Finding:
    size = seen.items("static_cache").get(KV)
    if size is None:
        return not_measured(NO_CACHE)
    if seen.main.phase("capture").status in ("pending", "running"):
        return not_measured("what warmup and capture add beside the StaticCache is not known before the capture's end")
    pieces: dict[str, int] = {}
    for phase in AFTER_LOAD:
        for name, amount in seen.items(phase).items():
            pieces[name] = pieces.get(name, 0) + amount
    others = {name: amount for name, amount in pieces.items() if name != KV}
    largest = max(others, key=lambda name: others[name], default="")
    beside = f"the next largest is {largest} with {mib(others[largest])}" if largest else "nothing else was allocated"
    driver = [seen.delta(phase, "driver") for phase in AFTER_LOAD]
    grown = sum(amount for amount in driver if amount is not None)
    outside = f"; outside the allocator the driver took {mib(grown)} meanwhile" if grown else ""
    holds = size > max(others.values(), default=0)
    return judged(holds, f"Of what is allocated after the load, the StaticCache takes {mib(size)}; {beside}{outside}.")


def _warmup(seen: Evidence) -> Finding:
    end = _as_in_guide(seen, "warmup")
    grown = None if end is None else change(end, "allocated")
    if end is None or grown is None:
        return not_measured("no warmup with the allocator's counters")
    if seen.main.hello is not None and seen.main.hello.settings.warmup != 3:
        return not_measured(f"a run with three warmups is missing, there is one with {seen.main.hello.settings.warmup}")
    items = items_of(end)
    if grown >= MIB and 2 * part(items, *NO_ACTIVATIONS) >= grown:
        return Finding("other_reason", f"Warmup adds {mib(grown)}, but as {listed(items)}: no activations are kept.")
    peak, before = end.peak_allocated, end.before.allocated
    passing = f"; {mib(peak - before)} were used in passing" if peak is not None and before is not None else ""
    what = f" ({listed(items)})" if items else ""
    return judged(prints_as(grown, GUIDE_GROWTH_MIB), f"Warmup adds {mib(grown)} that stay{what}{passing}; {ORIGIN}.")


def _capture(seen: Evidence) -> Finding:
    end, graph = _as_in_guide(seen, "capture"), seen.main.graph
    grown = None if end is None else change(end, "allocated")
    if end is None or grown is None or graph is None:
        return not_measured("no capture on a GPU")
    items, sequence = items_of(end), graph.instantiate_driver_bytes
    where = f"the sequence of {graph.nodes:,} nodes" if graph.nodes is not None else "the kernel sequence"
    if sequence:
        where += f" takes {mib(sequence)} of driver memory, which this counter does not see"
    if grown >= MIB and 2 * part(items, *NO_SEQUENCE) >= grown:
        return Finding("other_reason", f"Capture adds {mib(grown)} allocated, but as {listed(items)}; {where}.")
    what = f" ({listed(items)})" if items else ""
    return judged(prints_as(grown, GUIDE_GROWTH_MIB), f"Capture adds {mib(grown)} allocated{what}; {where}; {ORIGIN}.")


def _as_in_guide(seen: Evidence, phase: PhaseId) -> PhaseEnd | None:
    """With the guide's streams where such a run is there: its figure is of them."""
    run = seen.with_guide_streams()
    guides = done(run, phase) if run is not None else None
    return guides if guides is not None else seen.end(phase)


def _capture_small(seen: Evidence) -> Finding:
    end, cache = seen.end("capture"), seen.items("static_cache").get(KV)
    if end is None or cache is None or change(end, "reserved") is None:
        return not_measured("no capture with all counters beside a StaticCache")
    pool = part(items_of(end, "reserved"), "private pool")
    graph = seen.main.graph
    sequence = (graph.instantiate_driver_bytes or 0) if graph is not None else 0
    cost = pool + sequence
    return judged(
        cost < cache,
        f"In all a graph holds {mib(cost)}: pool {mib(pool)}, executable {mib(sequence)}; the cache {mib(cache)}.",
    )


def _replay(seen: Evidence) -> Finding:
    end = seen.end("replay")
    if end is None or end.allocations is None or end.device_allocations is None:
        return not_measured("no replay phase that has ended, with the allocator's counters")
    grown = {name: change(end, name) for name in COUNTERS}
    changed: dict[str, int] = {name: size for name, size in grown.items() if size}
    count = f"{counted(end.allocations, 'allocation')}, {end.device_allocations:,} of the device"
    change_told = f"changed: {listed(changed)}" if changed else "no counter changed"
    decode = seen.main.decode_by_mode.get("graph")
    since = decode.replay_allocations if decode is not None else None
    told = f"; in all {counted(decode.replays, 'replay')} {since:,}" if decode is not None and since is not None else ""
    return judged(
        not changed and not end.allocations and not end.device_allocations and not since,
        f"{count}; {change_told} in the replay phase{told}.",
    )


def _replay_reason(seen: Evidence) -> Finding:
    fixed, end = seen.main.addresses, seen.end("replay")
    if fixed is None or end is None or not fixed.checked:
        return not_measured("no replay phase that has ended, with addresses compared")
    return judged(
        seen.moved == 0,
        f"The addresses of {counted(len(fixed.fixed), 'tensor')} were compared {counted(fixed.checked, 'time')}; "
        f"{seen.moved:,} of them moved.",
    )


STATEMENTS = (
    Statement("phases.load", "Loading the model adds 7,672 MB: its weights.", _load, GUIDES_MODEL),
    Statement("phases.static_cache", "The StaticCache of 1,024 tokens adds 144 MB.", _static_cache, GUIDES_CASE),
    Statement("phases.main", "The StaticCache is the main overhead.", _dominant, GUIDES_CASE),
    Statement(
        "phases.formula", "Its size is layers × 2 × batch × KV heads × length × head_dim × bytes.", _formula, ANYWHERE
    ),
    Statement("phases.warmup", "Three warmups add 8 MB: activation buffers.", _warmup, GUIDES_CASE),
    Statement("phases.capture", "Capture adds 8 MB, which store the kernel sequence.", _capture, GUIDES_CASE),
    Statement("phases.capture_small", "The overhead of capture is small.", _capture_small, GUIDES_CASE),
    Statement("phases.total", "After capture 7,833 MB are allocated.", _total, GUIDES_CASE),
    Statement("phases.replay", "Replay allocates nothing.", _replay),
    Statement("phases.replay_reason", "That is because all addresses were fixed at capture.", _replay_reason),
)
