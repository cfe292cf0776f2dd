"""The guide's statements about fixed addresses, and its table of StaticCache against DynamicCache."""

from typing import Literal

from ..events import Verdict
from ..plurals import counted
from ..sizing import DTYPE_BYTES, KvShape, dynamic_cache_bytes
from ..state import RunState
from .cases import ANYWHERE
from .evidence import Evidence, Finding, judged, mib, not_measured
from .phases import KV
from .statement import Statement

DYNAMIC_KV = "DynamicCache keys and values"


WAYS: dict[Literal["copy_", "in-graph", "constant"], str] = {
    "copy_": "updated by copy_()",
    "in-graph": "updated by the graph itself",
    "constant": "never updated",
}
AGREEMENT: dict[Verdict, str] = {
    "identical": "is identical to eager steps",
    "within_eager_noise": "differs from eager steps no more than these from themselves",
    "mismatch": "gives other logits than eager steps",
}


def _fixed(seen: Evidence) -> Finding:
    shown = seen.demonstration("broken")
    if shown is None:
        return not_measured("the input was not rebound to see what a replay makes of it")
    if not shown.expected_ids or not shown.replay_ids:
        return not_measured("no replay was made with the input rebound")
    apart = ""
    if shown.difference is not None and shown.tolerance is not None:
        apart = f"; their logits are {shown.difference:.3g} apart, where {shown.tolerance:.3g} is rounding"
    return judged(
        not shown.follows,
        f"With the input rebound from {shown.captured_address:#x} to {shown.present_address:#x}, replays gave "
        f"{_ids(shown.replay_ids)} where eager steps give {_ids(shown.expected_ids)}{apart}.",
    )


def _copy(seen: Evidence) -> Finding:
    """The guide: only by `copy_`; its own example uses `fill_` as well."""
    fixed, mended = seen.main.addresses, seen.demonstration("mended")
    if fixed is None or seen.main.graph is None:
        return not_measured("no fixed tensors of a graph were listed")
    if seen.main.phase("capture").status == "running":
        return not_measured("the capture has not ended")
    ways: dict[Literal["copy_", "in-graph", "constant"], int] = {}
    for tensor in fixed.fixed:
        ways[tensor.update] = ways.get(tensor.update, 0) + 1
    told = ", ".join(f"{count:,} {'is' if count == 1 else 'are'} {WAYS[way]}" for way, count in sorted(ways.items()))
    works = ""
    if mended is not None:
        if not mended.follows:
            return Finding("does_not_hold", "Copying into the captured input did not reach the graph.")
        works = "; copying into the input does reach the graph"
    return judged(ways.get("in-graph", 0) == 0, f"Of {counted(len(fixed.fixed), 'fixed tensor')}, {told}{works}.")


def _allocation(seen: Evidence) -> Finding:
    watched = seen.run_with_caches()
    if watched is not None:
        first, last = watched.caches[0], watched.caches[-1]
        dynamic = [sample.dynamic_bytes for sample in watched.caches if sample.dynamic_bytes is not None]
        static = {sample.static_bytes for sample in watched.caches if sample.static_bytes is not None}
        if len(dynamic) > 1 and static and first.dynamic_position != last.dynamic_position:
            holds = max(dynamic) > min(dynamic) and len(static) == 1
            return judged(
                holds,
                f"While tokens were added the DynamicCache went from {mib(min(dynamic))} to {mib(max(dynamic))}, "
                f"the StaticCache stayed at {' / '.join(mib(size) for size in sorted(static))}.",
            )
    sizes = _at_prompt(seen)
    if sizes is None:
        return not_measured("no prefill and StaticCache of a known shape")
    dynamic_size, form, static_size, whole = sizes
    return judged(
        dynamic_size == form and static_size == whole,
        f"After the prompt the DynamicCache holds {mib(dynamic_size)}, for its tokens {mib(form)}; "
        f"the StaticCache was given {mib(static_size)} at once, for its full length {mib(whole)}.",
    )


def _stability(seen: Evidence) -> Finding:
    watched = seen.run_with_caches()
    last = watched.caches[-1] if watched is not None else None
    if last is None or last.static_moves is None or not last.dynamic_steps:
        return not_measured("the addresses of both caches were not watched while tokens were added")
    return judged(
        last.static_moves == 0 and last.dynamic_moves > 0,
        f"The DynamicCache's keys moved in {last.dynamic_moves:,} of {last.dynamic_steps:,} steps, "
        f"of the StaticCache's tensors {last.static_moves:,} moved.",
    )


def _compatible(seen: Evidence) -> Finding:
    tried, check = seen.dynamic_capture, seen.main.verification
    if tried is None or check is None:
        return not_measured("no capture was tried on a DynamicCache, or no graph on a StaticCache was verified")
    static = f"on a StaticCache a replay {AGREEMENT[check.verdict]}"
    if check.verdict == "mismatch" or tried.usable:
        dynamic = "the graph on a DynamicCache is usable" if tried.usable else "on a DynamicCache it is not usable"
        return Finding("does_not_hold", f"{dynamic[0].upper()}{dynamic[1:]}; {static}.")
    if not tried.captured:
        return Finding("holds", f"A DynamicCache cannot be captured ({tried.error or 'refused'}); {static}.")
    return Finding(
        "other_reason",
        f"The capture on a DynamicCache succeeds, but its length stays at {tried.length_after} after "
        f"{counted(tried.replays, 'replay')} of one and the same position; {static}.",
    )


def _efficiency(seen: Evidence) -> Finding:
    sizes = _at_prompt(seen)
    if sizes is None:
        return not_measured("no prefill and StaticCache of a known shape")
    dynamic, _, static, _ = sizes
    return judged(
        dynamic < static,
        f"For the same prompt the DynamicCache takes {mib(dynamic)}, the StaticCache {mib(static)} from the start.",
    )


def _at_prompt(seen: Evidence) -> tuple[int, int, int, int] | None:
    """DynamicCache after the prompt and its closed form, StaticCache and its closed form; null where unknown."""
    dynamic, static, model = seen.items("prefill").get(DYNAMIC_KV), seen.items("static_cache").get(KV), seen.model
    run: RunState = seen.main
    if dynamic is None or static is None or model is None or run.hello is None or model.dtype not in DTYPE_BYTES:
        return None
    asked = run.hello.settings
    if asked.prompt is not None:
        return None
    kv = KvShape(layers=model.layers, kv_heads=model.kv_heads, head_dim=model.head_dim)
    form = dynamic_cache_bytes(kv, batch_size=asked.batch_size, tokens=asked.prompt_len, dtype=model.dtype)
    return dynamic, form, static, model.static_cache_bytes


def _ids(ids: tuple[int, ...]) -> str:
    return "[" + ", ".join(str(number) for number in ids[:4]) + (", …]" if len(ids) > 4 else "]")


STATEMENTS = (
    Statement("addresses.fixed", "A graph needs every tensor at the address it was captured with.", _fixed),
    Statement("addresses.copy", "After capture values can be updated only by copy_().", _copy),
    Statement(
        "caches.allocation",
        "DynamicCache allocates on demand, StaticCache its full size at once.",
        _allocation,
        ANYWHERE,
    ),
    Statement("caches.addresses", "DynamicCache's addresses move, StaticCache's do not.", _stability),
    Statement("caches.graph", "A graph cannot use a DynamicCache, and can use a StaticCache.", _compatible),
    Statement("caches.efficiency", "DynamicCache is the more economical with memory.", _efficiency, ANYWHERE),
)
