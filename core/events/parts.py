"""The values inside events."""

from typing import Literal

from .base import Bytes, Certainty, Part


class DeviceInfo(Part, frozen=True, kw_only=True):
    """The device of a run; everything but kind and name may be unknown."""

    kind: Literal["cuda", "cpu"]
    name: str
    index: int | None = None
    uuid: str | None = None
    """Removed from recordings."""
    capability: str | None = None
    """Compute capability, as in "9.0"."""
    total_bytes: Bytes | None = None
    """By NVML before a context exists; `Memory.total_bytes` is CUDA's own figure."""
    free_bytes: Bytes | None = None
    integrated: bool | None = None
    driver_version: str | None = None
    memory_bandwidth_bytes_s: float | None = None
    """Theoretical, from memory clock and bus width."""


class ModelInfo(Part, frozen=True, kw_only=True):
    """What is decoded: the shape that every closed form needs, and where the weights come from."""

    name: str
    source: Literal["random", "checkpoint"]
    parameters: Bytes
    parameter_bytes: Bytes
    dtype: str
    attention: str
    layers: int
    kv_heads: int
    head_dim: int
    vocab_size: int
    static_cache_bytes: Bytes
    """Closed form for this run's batch size and max_cache_len (KV only, without the counters)."""
    has_tokenizer: bool = False


class Counters(Part, frozen=True, kw_only=True):
    """The four counters of a table row, in bytes."""

    requested: Bytes | None = None
    """What tensors asked for: `requested_bytes.all.current`."""
    allocated: Bytes | None = None
    """Blocks handed out, rounded: `torch.cuda.memory_allocated()`, the guide's only counter."""
    reserved: Bytes | None = None
    """Segments taken from the driver by the caching allocator."""
    driver: int | None = None
    """This process in NVML minus reserved: context, modules, executable graphs."""


class Item(Part, frozen=True, kw_only=True):
    """A named piece of a Δ or a bucket. `certainty` says whether the cause was measured or inferred."""

    name: str
    bytes: int
    certainty: Certainty = "measured"
    note: str = ""


class Pool(Part, frozen=True, kw_only=True):
    """A private memory pool of a graph."""

    id: str
    reserved_bytes: Bytes
    active_bytes: Bytes
    requested_bytes: Bytes


class Block(Part, frozen=True, kw_only=True):
    """A block of a segment. `bucket` is null for a free block."""

    offset: Bytes
    size: Bytes
    requested: Bytes
    bucket: str | None = None
    name: str = ""


class Segment(Part, frozen=True, kw_only=True):
    """One `cudaMalloc` of the caching allocator."""

    address: Bytes
    size: Bytes
    pool: str
    """"default", or the id of a private pool."""
    stream: int
    blocks: tuple[Block, ...]


class FixedTensor(Part, frozen=True, kw_only=True):
    """A tensor whose address a captured graph depends on."""

    name: str
    address: Bytes
    bytes: Bytes
    update: Literal["copy_", "in-graph", "constant"]
    """How its next value gets there."""
    moved: bool = False


class Process(Part, frozen=True, kw_only=True):
    """A process that uses the device."""

    pid: int
    bytes: Bytes | None = None
    own: bool = False
