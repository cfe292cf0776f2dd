"""A phase explained to a student: what happened, why it is needed, what to look at, with this run's own figures.

A sentence whose figures are not known is left out; a phase that has not run yet is explained without any.
"""

from ...core.memory_map import MIB
from ...core.phases import PHASE_BY_ID
from ...core.plurals import counted
from ...core.sizing import DTYPE_BYTES
from ..format import bandwidth, clean, count, delta, duration, size, tok_s
from .phase_facts import ExplanationView

GUIDE_MODEL = "qwen3-4b"
GUIDE_CACHE_LEN = 1024
SAME_MIB = 1.0
"""The guide prints whole MiB: figures closer than this are the same."""


def lesson(facts: ExplanationView) -> str:
    """Two or three sentences."""
    phase = PHASE_BY_ID[facts.row.id]
    if facts.row.id == "context" and facts.on_the_cpu:
        return f"A CPU needs no context, so nothing happens here. With CUDA: {phase.what} {phase.why}"
    if facts.row.status in ("unavailable", "failed"):
        # What to look at would read as figures of a phase that never ran.
        return f"{'With CUDA: ' if facts.row.status == 'unavailable' else ''}{phase.what} {phase.why}"
    if facts.row.status != "done":
        return f"{phase.what} {phase.why} {phase.look}"
    told = {
        "context": _context,
        "load": _load,
        "prefill": _prefill,
        "static_cache": _static_cache,
        "copy_kv": _copy_kv,
        "warmup": _warmup,
        "capture": _capture,
        "replay": _replay,
        "release": _release,
    }[facts.row.id](facts)
    return told or f"{phase.what} {phase.why} {phase.look}"


def against_guide(facts: ExplanationView) -> str:
    """Why this run's Δ of the guide's counter is not the guide's, or that it is; empty without one of the two."""
    guide, ours = PHASE_BY_ID[facts.row.id].guide_delta_mib, facts.change("allocated")
    if guide is None or ours is None or facts.row.status != "done":
        return ""
    settings, model = facts.settings, facts.model
    unlike = []
    if model is not None and model.name != GUIDE_MODEL:
        unlike.append(f"{clean(model.name)} instead of its {GUIDE_MODEL}")
    if settings is not None and settings.max_cache_len != GUIDE_CACHE_LEN and facts.row.id == "static_cache":
        unlike.append(f"a cache of {count(settings.max_cache_len)} instead of its {count(GUIDE_CACHE_LEN)}")
    if settings is not None and settings.batch_size != 1 and facts.row.id in ("static_cache", "capture"):
        unlike.append(f"batch size {settings.batch_size} instead of its 1")
    if unlike:
        return f"Ours is {delta(ours)}: {', '.join(unlike)}."
    difference = ours / MIB - guide
    if abs(difference) < SAME_MIB:
        return f"Ours is the same: {delta(ours)}."
    return f"Ours is {delta(ours)}: {_why_other(facts)}"


def _why_other(facts: ExplanationView) -> str:
    rounding = facts.item("allocated", "rounding")
    workspace = facts.item("allocated", "workspace")
    if workspace is not None:
        return f"its workspace is {size(workspace)} on this GPU, the guide's was {size(8_519_680)}."
    match facts.row.id:
        case "load" if rounding is not None:
            return f"{size(rounding)} of it are rounding; requested is {delta(facts.change('requested'))}."
        case "warmup":
            return (
                "this stream has had its workspace since prefill, and logits are not kept (--guide-streams: as there)."
            )
        case "capture":
            return "it runs on the stream that has had its workspace since prefill; only the logits are new."
    return "see what it is made of."


def _context(facts: ExplanationView) -> str:
    end, driver = facts.row.end, facts.change("driver")
    if end is None or driver is None:
        return ""
    return (
        f"The first CUDA call made a context: {size(driver)} of driver memory for this process, before any tensor. "
        f"Nothing of it is the model's, and PyTorch's counters cannot see it: allocated is {size(end.after.allocated)}."
    )


def _load(facts: ExplanationView) -> str:
    model, requested = facts.model, facts.change("requested")
    if model is None or requested is None:
        return ""
    peak = facts.device.memory_bandwidth_bytes_s if facts.device is not None else None
    bound = "their bytes over the memory bandwidth bound the speed at batch size 1"
    if peak:
        bound += (
            f" ({size(model.parameter_bytes)} at {bandwidth(peak / 1e9)}: {peak / model.parameter_bytes:,.0f} tok/s)"
        )
    text = (
        f"{count(model.parameters)} parameters in {clean(model.dtype)} were put on the device, once: {size(requested)} "
        f"requested, the sum of their bytes. Every decode step reads all of them, so {bound}."
    )
    rounding = facts.item("allocated", "rounding")
    if rounding is not None:
        text += f" Allocated is {size(rounding)} more: large blocks are not split."
    return text


def _prefill(facts: ExplanationView) -> str:
    cache, settings = facts.item("requested", "DynamicCache"), facts.settings
    if cache is None or settings is None:
        return ""
    prompt = "The prompt" if settings.prompt is not None else f"The prompt of {count(settings.prompt_len)} tokens"
    text = (
        f"{prompt} went through the model at once, and a DynamicCache grew to {size(cache)} of keys and values. "
        "This runs eagerly: prompts differ in length, and a graph has fixed shapes."
    )
    workspace, driver = facts.item("allocated", "workspace"), facts.change("driver")
    if workspace is not None:
        text += f" Look at the {size(workspace)} of a cuBLAS workspace, kept from here on"
        text += f", and at {delta(driver)} of driver memory: kernels loaded at first use." if driver else "."
    return text


def _static_cache(facts: ExplanationView) -> str:
    model, settings = facts.model, facts.settings
    if model is None or settings is None:
        return ""
    value = DTYPE_BYTES.get(model.dtype)
    text = (
        f"Keys and values for {count(settings.max_cache_len)} tokens, {size(model.static_cache_bytes)}, were allocated "
        "in full, at addresses that stay: a graph replays on the same ones, so its cache may neither grow nor move. "
    )
    if value is None:
        return f"{text}The size is that of the closed form."
    return text + (
        f"{model.layers} layers × 2 × {settings.batch_size} sequence{'s' if settings.batch_size > 1 else ''} × "
        f"{model.kv_heads} KV heads × {settings.max_cache_len} × {model.head_dim} × {value} B = "
        f"{size(model.static_cache_bytes)}, and a counter of 8 B a layer."
    )


def _copy_kv(facts: ExplanationView) -> str:
    end = facts.row.end
    if end is None:
        return ""
    allocated = facts.change("allocated")
    grew = f": allocated changed by {delta(allocated)} in {duration(end.seconds)}" if allocated is not None else ""
    return (
        f"The prompt's keys and values were copied to the fixed addresses{grew}. The length moved with them: without "
        "it, decoding would overwrite slot 0. Every address is recorded now, to be compared before each replay."
    )


def _warmup(facts: ExplanationView) -> str:
    end, settings, allocated = facts.row.end, facts.settings, facts.change("allocated")
    if end is None or settings is None:
        return ""
    where = "" if facts.on_the_cpu else " on the capture stream"
    ran = f"{counted(settings.warmup, 'eager decode step')} ran{where}"
    why = (
        "Libraries allocate and load kernels at first use: in a capture that may fail or stay in the graph's pool. "
        "The length was set back in place."
    )
    if allocated is None:
        return f"{ran}. {why}"
    stays = (
        "nothing new stays, since this stream has its workspace already" if not allocated else f"{size(allocated)} stay"
    )
    return f"{ran}: {count(end.allocations)} blocks were handed out and taken back; {stays}. {why}"


def _capture(facts: ExplanationView) -> str:
    graph, allocated = facts.graph, facts.change("allocated")
    if graph is None:
        return ""
    kernels = graph.nodes_by_kind.get("kernel")
    nodes = f"{count(graph.nodes)} nodes" + (f", {count(kernels)} of them kernels" if kernels is not None else "")
    text = (
        f"One decode step was recorded instead of run: {nodes}, {size(graph.instantiate_driver_bytes)} of driver "
        f"memory that allocated ({delta(allocated)}) cannot see, in {duration(graph.capture_s)}. "
    )
    logits = facts.item("requested", "logits")
    kept = f"The logits ({size(logits)}) stay in a private pool" if logits is not None else "A private pool stays"
    pool = f" that holds {size(facts.pool_bytes)}" if facts.pool_bytes is not None else ""
    return f"{text}A replay launches all of them at once, so the CPU no longer limits the speed. {kept}{pool}."


def _replay(facts: ExplanationView) -> str:
    decode, allocated = facts.decode, facts.change("allocated")
    text = (
        "Each token is one launch of the graph: same kernels, same addresses, new values. The next token is written to "
        "the static input inside the graph, so the host only launches."
    )
    if decode is None or decode.replay_allocations is None:
        return text
    return (
        f"{count(decode.replays)} replays made {count(decode.replay_allocations)} allocations and changed allocated by "
        f"{delta(allocated)}, at {tok_s(decode.tok_s_mean)} tok/s. {text}"
    )


def _release(facts: ExplanationView) -> str:
    end, allocated, reserved = facts.row.end, facts.change("allocated"), facts.change("reserved")
    if end is None or allocated is None:
        return ""
    return (
        f"Graph, caches and model were dropped: {delta(allocated)} of allocated and {delta(reserved)} of reserved. "
        f"{size(end.after.driver)} of driver memory stay until the process ends: context and loaded kernels."
    )
