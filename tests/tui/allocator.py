"""A made-up map of the caching allocator after each phase of a 4B model: shaped like a real one, nobody's measurement.

Sizes follow the allocator's rules: tensors of 10 MiB and more get a segment of their own, rounded up to 2 MiB; smaller
ones share segments of 20 MiB, and those under 1 MiB segments of 2 MiB.
"""

from cgtop.core.events import Block, PhaseId, Segment, Segments
from cgtop.core.memory_map import MIB
from cgtop.core.phases import PHASE_IDS

LAYERS = 36
SIDE_STREAM = 0x55D0C0FFEE00
BASE = 0x7F2A00000000


class Allocator:
    """Hands out addresses in segments, never takes any back."""

    def __init__(self) -> None:
        self.segments: list[Segment] = []
        self._next = BASE
        self._open: dict[tuple[str, int, int], list[tuple[int, int, str, str]]] = {}

    def take(self, requested: int, bucket: str, name: str, *, pool: str = "default", stream: int = SIDE_STREAM) -> None:
        small = requested < MIB
        step = 512 if small or requested < 10 * MIB else 2 * MIB
        size = -(-requested // step) * step
        length = 2 * MIB if small else 20 * MIB if requested < 10 * MIB else size
        key = (pool, stream, length if length in (2 * MIB, 20 * MIB) and requested < 10 * MIB else 0)
        shared = self._open.setdefault(key, [])
        if not key[2]:
            self._close((pool, stream), size, [(requested, size, bucket, name)])
            return
        if sum(block[1] for block in shared) + size > length:
            self._close((pool, stream), length, shared)
            shared.clear()
        shared.append((requested, size, bucket, name))

    def close(self) -> tuple[Segment, ...]:
        for (pool, stream, length), shared in self._open.items():
            if shared:
                self._close((pool, stream), length, shared)
        return tuple(self.segments)

    def _close(self, where: tuple[str, int], length: int, taken: list[tuple[int, int, str, str]]) -> None:
        blocks, at = [], 0
        for requested, size, bucket, name in taken:
            blocks.append(Block(offset=at, size=size, requested=requested, bucket=bucket, name=name))
            at += size
        if at < length:
            blocks.append(Block(offset=at, size=length - at, requested=0))
        segment = Segment(address=self._next, size=length, pool=where[0], stream=where[1], blocks=tuple(blocks))
        self.segments.append(segment)
        self._next += length


def qwen_map(phase: PhaseId, t: float = 0.0) -> Segments:
    """The map at the end of a phase of the sample model."""
    reached = PHASE_IDS.index(phase)
    allocator = Allocator()
    if reached >= PHASE_IDS.index("load"):
        _load(allocator)
    if reached >= PHASE_IDS.index("prefill"):
        allocator.take(32 * MIB, "cublas_workspace", "cuBLAS workspace of the side stream")
        for layer in range(LAYERS):
            allocator.take(36 * 2048, "kv_dynamic", f"dynamic keys {layer}")
            allocator.take(36 * 2048, "kv_dynamic", f"dynamic values {layer}")
    if reached >= PHASE_IDS.index("static_cache"):
        for layer in range(LAYERS):
            allocator.take(2 * MIB, "kv_static", f"keys {layer}")
            allocator.take(2 * MIB, "kv_static", f"values {layer}")
            allocator.take(8, "kv_static", f"length {layer}")
    if reached >= PHASE_IDS.index("capture"):
        allocator.take(303_872, "graph_io", "logits", pool="0.1")
    return Segments(t=t, phase=phase, segments=allocator.close())


def _load(allocator: Allocator) -> None:
    weights = (
        ("self_attn.q_proj", 4096), ("self_attn.k_proj", 1024), ("self_attn.v_proj", 1024), ("self_attn.o_proj", 4096),
        ("mlp.gate_proj", 9728), ("mlp.up_proj", 9728), ("mlp.down_proj", 9728),
    )  # fmt: skip
    allocator.take(151_936 * 2560 * 2, "weights", "model.embed_tokens.weight", stream=0)
    for layer in range(LAYERS):
        for name, rows in weights:
            allocator.take(rows * 2560 * 2, "weights", f"model.layers.{layer}.{name}.weight", stream=0)
        for name in ("input_layernorm", "post_attention_layernorm"):
            allocator.take(2560 * 2, "weights", f"model.layers.{layer}.{name}.weight", stream=0)
