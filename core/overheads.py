"""What a run costs beside its tensors, as one recording measured it: the terms of a plan that have no closed form."""

import msgspec

from .configs import ModelFacts
from .presets import PRESETS
from .sizing import DTYPE_BYTES, KvShape, kv_token_bytes
from .state import RunState

AT_REPLAY = ("replay", "capture")
"""The phase at whose end everything stands; the first that was recorded."""


class Overheads(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes at the end of replay; null where the recording does not tell."""

    source: str
    """Which recording, of which device and date."""
    model: str
    weight_bytes: int
    layers: int
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
    if hello is None or hello.model is None or hello.device.kind != "cuda":
        return None
    memory = next((state.boundary_memory[phase] for phase in AT_REPLAY if phase in state.boundary_memory), None)
    if memory is None:
        return None
    model, asked, graph = hello.model, hello.settings, state.graph
    kv = KvShape(layers=model.layers, kv_heads=model.kv_heads, head_dim=model.head_dim)
    context = _context(state)
    driver, executable = memory.buckets.get("driver"), graph.instantiate_driver_bytes if graph is not None else None
    modules = None if driver is None or context is None else driver - context - (executable or 0)
    preset = PRESETS.get(model.name)
    shared = preset is not None and preset.heads != preset.kv_heads
    expanded = 0
    if preset is not None and shared and model.dtype in DTYPE_BYTES:
        token = kv_token_bytes(kv, model.dtype) * preset.heads // preset.kv_heads
        expanded = asked.batch_size * asked.max_cache_len * token
    return Overheads(
        source=f"{name} ({hello.device.name}, {model.name}, {hello.started_at[:10] or 'date not recorded'})",
        model=model.name,
        weight_bytes=model.parameter_bytes,
        layers=model.layers,
        kv=kv,
        batch_size=asked.batch_size,
        max_cache_len=asked.max_cache_len,
        expanded_kv_bytes=expanded,
        context_bytes=context,
        module_bytes=modules,
        executable_bytes=executable,
        pool_bytes=memory.buckets.get("graph_pool"),
        rounding_bytes=memory.buckets.get("rounding"),
        cached_bytes=memory.buckets.get("cached"),
        pools=_pools(state),
    )


def _context(state: RunState) -> int | None:
    end = state.phase("context").end
    return None if end is None else end.after.driver


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
