"""The buckets of device memory: every byte of the device is in exactly one of them."""

import msgspec

MIB = 1 << 20
GIB = 1 << 30


class Bucket(msgspec.Struct, frozen=True):
    """A bucket: `id` as in events, `title` as on the screen, what is in it."""

    id: str
    title: str
    what: str


BUCKETS: tuple[Bucket, ...] = (
    Bucket("weights", "weights", "parameters and buffers of the model, as requested"),
    Bucket("kv_static", "KV static", "keys, values and length counters of the StaticCache, as requested"),
    Bucket("kv_dynamic", "KV dynamic", "keys and values of the DynamicCache, as requested"),
    Bucket("graph_io", "graph I/O", "static inputs of the decode step and the logits it leaves, as requested"),
    Bucket("cublas_workspace", "workspace", "cuBLAS workspaces, one a handle and stream, found by provoking them"),
    Bucket("other_tensors", "other tensors", "active blocks that nothing registered, as requested"),
    Bucket("rounding", "rounding", "block size minus requested size, over all active blocks of all pools"),
    Bucket("graph_pool", "graph pool", "private pools of graphs: reserved and not in use, kept for replay"),
    Bucket("cached", "cached", "default pool: reserved and not in use, kept by the caching allocator"),
    Bucket("driver", "driver", "this process outside the allocator: context, modules, executable graphs"),
    Bucket("other_processes", "other processes", "what NVML counts for the other processes on the device"),
    Bucket("unattributed", "unattributed", "used by CUDA's count minus all processes; may be negative"),
    Bucket(
        "outside_allocator",
        "outside allocator",
        "driver, others and unattributed, where the own pid is hidden",
    ),
    Bucket("free", "free", "free by cudaMemGetInfo"),
)
BUCKET_IDS: tuple[str, ...] = tuple(bucket.id for bucket in BUCKETS)
BUCKET_BY_ID: dict[str, Bucket] = {bucket.id: bucket for bucket in BUCKETS}
REQUESTED_BUCKETS: tuple[str, ...] = BUCKET_IDS[:6]
"""Those that count requested bytes of active blocks."""


def size_words(size: int) -> str:
    """Bytes in a sentence: `15.26 GiB`, `32.0 MiB`."""
    return f"{size / GIB:.2f} GiB" if size >= GIB else f"{size / MIB:.1f} MiB"
