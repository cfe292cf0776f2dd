"""The figures of the guide that this project starts from: its tables, as printed.

They are of one RTX 3090 with Qwen3-4B in bf16; what the guide prints as MB are MiB (2^20 B) of
`torch.cuda.memory_allocated()`. They are a reference beside measurements, never a mark to reach.
"""

import msgspec

SPEED_EAGER_TOK_S = 25.0
"""Printed as "~25 tok/s"."""
SPEED_GRAPH_TOK_S = 70.0
"""Printed as "~70 tok/s"."""
SPEED_UP = 2.80


class CacheLength(msgspec.Struct, frozen=True):
    """A row of "cache length and memory": total overhead in MiB, and that over length / 1000, as printed."""

    tokens: int
    total_mib: int
    per_1000_mib: int


class BatchSize(msgspec.Struct, frozen=True):
    """A row of "graphs of several batch sizes": one StaticCache of 1024 tokens each, MiB, and their running sum."""

    batch_size: int
    cache_mib: int
    cumulative_mib: int


CACHE_LENGTHS: tuple[CacheLength, ...] = (
    CacheLength(256, 53, 206),
    CacheLength(512, 89, 174),
    CacheLength(1024, 161, 157),
    CacheLength(2048, 305, 149),
    CacheLength(4096, 593, 145),
)
CACHE_LENGTH_BY_TOKENS: dict[int, CacheLength] = {row.tokens: row for row in CACHE_LENGTHS}

BATCH_SIZES: tuple[BatchSize, ...] = (
    BatchSize(1, 144, 144),
    BatchSize(2, 288, 432),
    BatchSize(4, 576, 1008),
    BatchSize(8, 1152, 2160),
    BatchSize(16, 2304, 4464),
)
BATCH_SIZE_BY_SIZE: dict[int, BatchSize] = {row.batch_size: row for row in BATCH_SIZES}


class CacheProperty(msgspec.Struct, frozen=True):
    """A row of "StaticCache against DynamicCache"."""

    id: str
    title: str
    dynamic: str
    static: str


CACHE_PROPERTIES: tuple[CacheProperty, ...] = (
    CacheProperty("allocation", "allocation", "on demand", "preallocated"),
    CacheProperty("addresses", "address stability", "unstable", "stable"),
    CacheProperty("graph", "CUDA Graph compatible", "no", "yes"),
    CacheProperty("efficiency", "memory efficiency", "high", "low"),
)
