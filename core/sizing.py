"""Closed forms: what a model shape, its caches and a decode step cost in bytes, before anything is allocated.

All results are exact integers of the bytes that tensors ask for ("requested"); the allocator's rounding is not in them.
"""

import os
import re

import msgspec

from .memory_map import GIB, MIB
from .presets import PRESETS, Qwen3Shape
from .settings import SettingsError

DTYPE_BYTES: dict[str, int] = {"bfloat16": 2, "float16": 2, "float32": 4}
COUNTER_BYTES = 8
"""A StaticCache layer's `cumulative_length`: one int64."""
FALLBACK_ORDER = ("qwen3-4b", "qwen3-1.7b", "qwen3-0.6b", "tiny")
MARGIN_BYTES = 1 * GIB
"""What a run needs beside its tensors. On one H200 with Qwen3-4B: context 529 MiB, modules loaded lazily some 200 MiB,
rounding 54 MiB, a graph's pool and its executable 26 MiB; the rest is for the activations of the prefill."""
SMALL_WORKSPACE_BYTES = 8_519_680
LARGE_WORKSPACE_BYTES = 33_554_432


class KvShape(msgspec.Struct, frozen=True, kw_only=True):
    """What decides the size of a KV cache.

    `sliding_windows` has an entry for each layer that keeps only its last so many tokens; the other layers keep all.
    """

    layers: int
    kv_heads: int
    head_dim: int
    sliding_windows: tuple[int, ...] = ()


def parameter_count(shape: Qwen3Shape) -> int:
    """Parameters of a Qwen3, tied embeddings counted once.

    Source: `modeling_qwen3.py` of transformers. A layer has q, k, v and o projections without bias, a norm of
    `head_dim` each for q and k, gate, up and down projections, and two norms of `hidden_size`.
    """
    hidden, query, key = shape.hidden_size, shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    attention = hidden * query + 2 * hidden * key + query * hidden + 2 * shape.head_dim
    mlp = 3 * hidden * shape.intermediate_size
    tables = 1 if shape.tied_embeddings else 2
    return shape.layers * (attention + mlp + 2 * hidden) + hidden + tables * shape.vocab_size * hidden


def parameter_bytes(shape: Qwen3Shape, dtype: str) -> int:
    """Bytes of all parameters in `dtype`, tied embeddings once."""
    return parameter_count(shape) * DTYPE_BYTES[dtype]


def buffer_bytes(shape: Qwen3Shape) -> int:
    """Bytes of a Qwen3's buffers: the rotary frequencies (`head_dim / 2` values, always fp32) and their original."""
    return 2 * (shape.head_dim // 2) * 4


def kv_shape(shape: Qwen3Shape) -> KvShape:
    """The KV shape of a preset: every layer attends to everything."""
    return KvShape(layers=shape.layers, kv_heads=shape.kv_heads, head_dim=shape.head_dim)


def kv_token_bytes(kv: KvShape, dtype: str) -> int:
    """Keys and values of one token of one sequence in one layer."""
    return 2 * kv.kv_heads * kv.head_dim * DTYPE_BYTES[dtype]


def kv_bytes(kv: KvShape, *, batch_size: int, tokens: int, dtype: str) -> int:
    """Keys and values of `tokens` tokens a sequence over all layers.

    layers × 2 × batch × KV heads × tokens × head_dim × bytes of a value; a sliding layer keeps its window at most.
    """
    full = (kv.layers - len(kv.sliding_windows)) * tokens
    sliding = sum(min(tokens, window) for window in kv.sliding_windows)
    return (full + sliding) * batch_size * kv_token_bytes(kv, dtype)


def static_cache_bytes(kv: KvShape, *, batch_size: int, max_cache_len: int, dtype: str) -> int:
    """Keys and values of a `StaticCache`, allocated in full at once; its counters are `counter_bytes`.

    Source: `StaticLayer.lazy_initialization` of transformers: two zero tensors
    `[batch_size, kv_heads, max_cache_len, head_dim]` a layer.
    """
    return kv_bytes(kv, batch_size=batch_size, tokens=max_cache_len, dtype=dtype)


def counter_bytes(kv: KvShape) -> int:
    """The length counters of a `StaticCache`, one int64 a layer."""
    return kv.layers * COUNTER_BYTES


def dynamic_cache_bytes(kv: KvShape, *, batch_size: int, tokens: int, dtype: str) -> int:
    """Keys and values of a `DynamicCache` that holds `tokens` tokens a sequence."""
    return kv_bytes(kv, batch_size=batch_size, tokens=tokens, dtype=dtype)


def cublas_workspace_bytes(capability: str | None, config: str | None = None) -> int:
    """The workspace that PyTorch gives cuBLAS for each pair of handle and stream.

    `capability` as in "9.0"; unknown counts as new, so that a plan errs on the safe side. `config` is the value of
    CUBLAS_WORKSPACE_CONFIG, by default the environment's: `:KiB:count` pairs that add up; a value without any such
    pair is ignored, as PyTorch does. Source: `parseChosenWorkspaceSize` in `aten/src/ATen/cuda/CublasHandlePool.cpp`.
    A plan only: which block is a workspace is found by provoking it, never by this size.
    """
    config = os.environ.get("CUBLAS_WORKSPACE_CONFIG", "") if config is None else config
    pairs = re.findall(r":([0-9]+):([0-9]+)", config)
    if pairs:
        return sum(int(size) * 1024 * int(count) for size, count in pairs)
    return SMALL_WORKSPACE_BYTES if capability and capability_number(capability) < 90 else LARGE_WORKSPACE_BYTES


def capability_number(capability: str) -> int:
    """ "8.6" as 86, "12.0" as 120. Raises `ValueError` for anything else."""
    major, minor = capability.split(".")
    return int(major) * 10 + int(minor)


def needed_bytes(shape: Qwen3Shape, *, capability: str | None, batch_size: int, max_cache_len: int, dtype: str) -> int:
    """Device memory that a run of all phases needs at most, by the closed forms plus `MARGIN_BYTES`.

    Weights, the StaticCache, a DynamicCache grown to the same length with one layer's copy of it (a DynamicCache grows
    by concatenation), the workspace, and logits in fp32 and in `dtype`.
    """
    kv = kv_shape(shape)
    cache = static_cache_bytes(kv, batch_size=batch_size, max_cache_len=max_cache_len, dtype=dtype)
    logits = batch_size * shape.vocab_size * (DTYPE_BYTES[dtype] + 4)
    return (
        parameter_bytes(shape, dtype)
        + buffer_bytes(shape)
        + 2 * cache
        + cache // kv.layers
        + counter_bytes(kv)
        + cublas_workspace_bytes(capability)
        + logits
        + MARGIN_BYTES
    )


def largest_fitting_preset(
    free_bytes: int, *, capability: str | None, batch_size: int, max_cache_len: int, dtype: str
) -> str:
    """The largest preset up to qwen3-4b that fits into `free_bytes`, as free before this process has a context.

    `tiny` is the last resort: it shows every phase, if not a real model's speed. Raises `SettingsError` if not even
    that fits.
    """
    need = 0
    for name in FALLBACK_ORDER:
        need = needed_bytes(
            PRESETS[name], capability=capability, batch_size=batch_size, max_cache_len=max_cache_len, dtype=dtype
        )
        if need <= free_bytes:
            return name
    raise SettingsError(
        f"no model fits: {free_bytes / MIB:,.0f} MiB are free and even the smallest needs {need / MIB:,.0f} MiB with "
        f"batch size {batch_size} and a cache of {max_cache_len}; free memory on the device, or choose a smaller "
        "--batch-size or --max-cache-len"
    )


def weight_read_bytes(shape: Qwen3Shape, *, batch_size: int, dtype: str) -> int:
    """Weight bytes that a decode step must read, each once.

    With tied embeddings the output layer reads the whole table, so all parameters count; untied, the input table gives
    one row a sequence and its other rows are not read.
    """
    total = parameter_bytes(shape, dtype)
    if shape.tied_embeddings:
        return total
    unread_rows = max(0, shape.vocab_size - batch_size)
    return total - unread_rows * shape.hidden_size * DTYPE_BYTES[dtype]


def decode_read_bytes(weight_bytes: int, kv: KvShape, *, batch_size: int, tokens: int, dtype: str) -> int:
    """Bytes that a decode step must read: the weights once (`weight_read_bytes`) and the KV cache once.

    `tokens`: `max_cache_len` for a StaticCache, since a masked step reads all of it; for a DynamicCache the tokens that
    the step attends to, its own among them.
    """
    return weight_bytes + kv_bytes(kv, batch_size=batch_size, tokens=tokens, dtype=dtype)
