"""What a run costs beside its tensors, as one recording measured it: the terms of a plan that have no closed form."""

import msgspec

from .configs import ModelFacts
from .events import Counters, ModelInfo, PhaseId
from .presets import PRESETS
from .sizing import DTYPE_BYTES, KvShape, kv_token_bytes
from .state import RunState

AT_REPLAY: tuple[PhaseId, ...] = ("replay", "capture")
"""The phase at whose end everything stands; the first that was recorded."""


class Overheads(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes at the end of replay; null where the recording does not tell."""

    source: str
    """Which recording, of which device and date."""
    model: str
    capability: str | None = None
    """Of the GPU that it was recorded on."""
    weight_bytes: int
    kv: KvShape
    batch_size: int
    max_cache_len: int
    expanded_kv_bytes: int
    """One layer's keys and values repeated for all heads; 0 where the number of heads is unknown."""
    context_bytes: int | None = None
    module_bytes: int | None = None
    executable_bytes: int | None = None
    pool_bytes: int | None = None
    rounding_bytes: int | None = None
    cached_bytes: int | None = None
    pools: dict[tuple[int, int], int] = {}
    """(batch size, cache length) -> reserved by the graph's pool, of the rows of a sweep."""

    def is_of(self, model: ModelFacts) -> bool:
        """Whether this model is the recorded one, in shape and bytes."""
        same_kv = (model.kv.layers, model.kv.kv_heads, model.kv.head_dim) == (
            self.kv.layers,
            self.kv.kv_heads,
            self.kv.head_dim,
        )
        return same_kv and model.weight_bytes == self.weight_bytes


def overheads_of(state: RunState, name: str) -> Overheads | None:
    """Of a run on a GPU that came to a captured graph; null for any other. `name`: what to call the recording."""
    hello = state.hello
    after = next((counters for phase in AT_REPLAY if (counters := _after(state, phase)) is not None), None)
    if hello is None or hello.model is None or hello.device.kind != "cuda" or after is None:
        return None
    model, asked, graph = hello.model, hello.settings, state.graph
    context = _after(state, "context")
    context_bytes = None if context is None else context.driver
    executable = graph.instantiate_driver_bytes if graph is not None else None
    rounding = _difference(after.allocated, after.requested)
    pool = _pool(state)
    return Overheads(
        source=f"{name} ({hello.device.name}, {model.name}, {hello.started_at[:10] or 'date not recorded'})",
        model=model.name,
        capability=hello.device.capability,
        weight_bytes=model.parameter_bytes,
        kv=KvShape(layers=model.layers, kv_heads=model.kv_heads, head_dim=model.head_dim),
        batch_size=asked.batch_size,
        max_cache_len=asked.max_cache_len,
        expanded_kv_bytes=_expanded(hello.model, asked.batch_size * asked.max_cache_len),
        context_bytes=context_bytes,
        module_bytes=_difference(_difference(after.driver, context_bytes), executable or 0),
        executable_bytes=executable,
        pool_bytes=pool,
        rounding_bytes=rounding,
        cached_bytes=_difference(_difference(after.reserved, after.allocated), pool),
        pools=_pools(state),
    )


def _after(state: RunState, phase: PhaseId) -> Counters | None:
    end = state.phase(phase).end
    return end.after if end is not None and end.status == "done" else None


def _pool(state: RunState) -> int | None:
    """What the graph's private pool holds beside the logits in it."""
    end = state.phase("capture").end
    if end is None or end.explained.get("reserved") is None:
        return None
    reserved = sum(item.bytes for item in end.explained["reserved"] if item.name.startswith("private pool"))
    logits = sum(item.bytes for item in end.explained.get("requested", ()) if item.name.startswith("logits"))
    return reserved - logits if reserved else None


def _expanded(model: ModelInfo, tokens: int) -> int:
    preset = PRESETS.get(model.name)
    if preset is None or preset.heads == preset.kv_heads or model.dtype not in DTYPE_BYTES:
        return 0
    kv = KvShape(layers=model.layers, kv_heads=model.kv_heads, head_dim=model.head_dim)
    return tokens * kv_token_bytes(kv, model.dtype) * preset.heads // preset.kv_heads


def _difference(first: int | None, second: int | None) -> int | None:
    return None if first is None or second is None else max(0, first - second)


def _pools(state: RunState) -> dict[tuple[int, int], int]:
    """Of rows that have a pool of their own."""
    found: dict[tuple[int, int], int] = {}
    asked = state.hello.settings if state.hello is not None else None
    if asked is None:
        return found
    for kind, sweep in state.sweeps.items():
        for row in sweep.rows:
            if row.status == "done" and row.strategy == "own" and row.pool_bytes is not None:
                case = (asked.batch_size, row.value) if kind == "cache_lens" else (row.value, asked.max_cache_len)
                found[case] = row.pool_bytes
    return found
