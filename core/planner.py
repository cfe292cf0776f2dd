"""What a run would need, before there is one: weights, caches and the rest, and what fits into a device's memory.

What has a closed form is computed; what has none is taken from a recording of a real run and named so. Nothing is
allocated, and no GPU is asked.
"""

from collections.abc import Callable, Iterable
from functools import partial

import msgspec

from .configs import ModelFacts
from .events import Certainty
from .overheads import Overheads
from .sizing import (
    DTYPE_BYTES,
    counter_bytes,
    cublas_workspace_bytes,
    dynamic_cache_bytes,
    kv_token_bytes,
    static_cache_bytes,
)

CACHE_LENS = (256, 512, 1024, 2048, 4096)
BATCH_SIZES = (1,)
PROMPT_LEN = 32
LONGEST = 1 << 24
"""Tokens beyond which no cache is looked for where the model names no limit."""
LARGEST = 1 << 14


class Term(msgspec.Struct, frozen=True, kw_only=True):
    """One part of a sum. `bytes` null: nothing is known of it, and it is not in the sum."""

    name: str
    bytes: int | None
    certainty: Certainty
    source: str
    """The closed form, or which recording."""


class PlanRow(msgspec.Struct, frozen=True, kw_only=True):
    """One pair of batch size and cache length."""

    batch_size: int
    max_cache_len: int
    static_cache_bytes: int
    total_bytes: int
    """Sum of the known terms."""
    fits: bool | None = None
    """Null where no memory size was given, the model has fewer positions, or the prompt leaves no room in the cache."""
    free_bytes: int | None = None
    """What would be left; negative: what is missing."""
    note: str = ""
    terms: tuple[Term, ...]


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The whole answer. `longest_cache` is by batch size, `largest_batch` by cache length; null: not even the least."""

    model: ModelFacts
    capability: str | None
    memory_bytes: int | None
    prompt_len: int
    measured_in: str | None
    """The recording that the measured terms are of."""
    weight_bytes: int
    static_cache_bytes: int
    """Of the first row."""
    rows: tuple[PlanRow, ...]
    longest_cache: dict[int, int | None] = {}
    largest_batch: dict[int, int | None] = {}
    notes: tuple[str, ...] = ()


def make_plan(
    model: ModelFacts,
    *,
    memory_bytes: int | None = None,
    capability: str | None = None,
    cache_lens: Iterable[int] = CACHE_LENS,
    batch_sizes: Iterable[int] = BATCH_SIZES,
    prompt_len: int = PROMPT_LEN,
    overheads: Overheads | None = None,
) -> Plan:
    """Every pair of `batch_sizes` and `cache_lens`. `memory_bytes`: what `cudaMemGetInfo` would call the total."""
    lens, batches = tuple(cache_lens), tuple(batch_sizes)

    def row(batch_size: int, max_cache_len: int) -> PlanRow:
        terms = _terms(model, overheads, capability, batch_size, max_cache_len, prompt_len)
        return _row(model, terms, batch_size, max_cache_len, memory_bytes, prompt_len)

    rows = tuple(row(batch_size, length) for batch_size in batches for length in lens)
    longest: dict[int, int | None] = {}
    largest: dict[int, int | None] = {}
    if memory_bytes is not None:
        limit = model.max_positions or LONGEST
        longest = {batch: _greatest(partial(_fits, row, batch), prompt_len + 1, limit) for batch in batches}
        largest = {length: _greatest(partial(_fits, lambda n, b: row(b, n), length), 1, LARGEST) for length in lens}
    return Plan(
        model=model,
        capability=capability,
        memory_bytes=memory_bytes,
        prompt_len=prompt_len,
        measured_in=overheads.source if overheads is not None else None,
        weight_bytes=model.weight_bytes,
        static_cache_bytes=rows[0].static_cache_bytes,
        rows=rows,
        longest_cache=longest,
        largest_batch=largest,
        notes=_notes(model, overheads, capability),
    )


def _row(
    model: ModelFacts,
    terms: tuple[Term, ...],
    batch_size: int,
    max_cache_len: int,
    memory_bytes: int | None,
    prompt: int,
) -> PlanRow:
    total = sum(term.bytes for term in terms if term.bytes is not None)
    note = ""
    if max_cache_len <= prompt:
        note = f"no room to decode after a prompt of {prompt:,}"
    elif model.max_positions is not None and max_cache_len > model.max_positions:
        note = f"the model knows {model.max_positions:,} positions"
    free = None if memory_bytes is None else memory_bytes - total
    return PlanRow(
        batch_size=batch_size,
        max_cache_len=max_cache_len,
        static_cache_bytes=static_cache_bytes(
            model.kv, batch_size=batch_size, max_cache_len=max_cache_len, dtype=model.dtype
        ),
        total_bytes=total,
        fits=None if free is None or note else free >= 0,
        free_bytes=free,
        note=note,
        terms=terms,
    )


def _terms(
    model: ModelFacts, known: Overheads | None, capability: str | None, batch_size: int, max_cache_len: int, prompt: int
) -> tuple[Term, ...]:
    kv, dtype = model.kv, model.dtype
    cache = static_cache_bytes(kv, batch_size=batch_size, max_cache_len=max_cache_len, dtype=dtype)
    form = "layers × 2 × batch × KV heads × length × head_dim × bytes of a value"
    if kv.sliding_windows:
        form += f"; {len(kv.sliding_windows)} of the layers keep their window at most"
    architecture = f"sm_{capability.replace('.', '')}" if capability else "unknown architecture: the larger one"
    prompt_kv = dynamic_cache_bytes(kv, batch_size=batch_size, tokens=prompt, dtype=dtype)
    logits = batch_size * model.vocab_size * DTYPE_BYTES[dtype]
    computed = [
        ("weights", model.weight_bytes, f"{model.weights_from}; {model.parameters:,} parameters in {dtype}"),
        ("rotary buffers", model.buffer_bytes, "closed form of the architecture" if model.buffer_bytes else "unknown"),
        ("StaticCache", cache, form),
        ("length counters", counter_bytes(kv), "one int64 a layer"),
        ("DynamicCache of the prompt", prompt_kv, f"the same form with {prompt} tokens"),
        ("cuBLAS workspace", cublas_workspace_bytes(capability), f"one stream, {architecture}"),
        ("logits kept by the graph", logits, "batch × vocabulary × bytes of a value"),
    ]
    terms = [Term(name=name, bytes=size, certainty="computed", source=source) for name, size, source in computed]
    return (*terms, *_recorded_terms(model, known, capability, batch_size, max_cache_len))


def _recorded_terms(
    model: ModelFacts, known: Overheads | None, capability: str | None, batch_size: int, max_cache_len: int
) -> tuple[Term, ...]:
    """What has no closed form: measured for this very case, or concluded from the case that was measured."""
    if known is None:
        why = "no recording of a GPU run to take it from"
        names = ("CUDA context and modules", "executable graph", "graph pool", "rounding", "cached")
        return tuple(Term(name=name, bytes=None, certainty="measured", source=why) for name in names)
    same_model = known.is_of(model)
    same_case = same_model and (known.batch_size, known.max_cache_len) == (batch_size, max_cache_len)
    more = expanded_kv_bytes(model, batch_size, max_cache_len) - known.expanded_kv_bytes
    pool_row = known.pools.get((batch_size, max_cache_len)) if same_model else None
    if pool_row is not None:  # the logits in it are a term of their own
        pool_row = max(0, pool_row - batch_size * model.vocab_size * DTYPE_BYTES[model.dtype])
    pool = pool_row if pool_row is not None else _at_least(known.pool_bytes, more)
    pool_measured = same_case or pool_row is not None
    graph = _scaled(known.executable_bytes, model.kv.layers, known.kv.layers)
    rounding = _scaled(known.rounding_bytes, model.weight_bytes, known.weight_bytes)
    # Only what the asked GPU itself could have been measured with is measured.
    other_gpu = None not in (capability, known.capability) and capability != known.capability
    found = (
        ("CUDA context", known.context_bytes, True, ""),
        ("modules loaded lazily", known.module_bytes, same_model, "as it was with the recorded model"),
        ("executable graph", graph, same_model, "by the number of layers"),
        ("graph pool", pool, pool_measured, "recorded, moved by one layer's keys and values for all heads"),
        ("rounding", rounding, same_model, "by the size of the weights"),
        ("cached", _at_least(known.cached_bytes, more), same_case, "recorded, moved as the graph pool"),
    )
    terms = []
    for name, size, measured, how in found:
        reasons = [text for text in (how if not measured else "", "on another GPU" if other_gpu else "") if text]
        certainty: Certainty = "inferred" if reasons else "measured"
        source = f"{', '.join(reasons)}: {known.source}" if reasons else known.source
        terms.append(Term(name=name, bytes=size, certainty=certainty, source=source))
    return tuple(terms)


def expanded_kv_bytes(model: ModelFacts, batch_size: int, max_cache_len: int) -> int:
    """Keys and values of one layer repeated for all heads, as masked attention does where heads share them.

    The largest temporaries of a decode step, so what a graph's pool mostly holds. 0 where no heads are shared.
    """
    kv = model.kv
    if model.heads == kv.kv_heads:
        return 0
    return batch_size * max_cache_len * kv_token_bytes(kv, model.dtype) * model.heads // kv.kv_heads


def _at_least(size: int | None, more: int) -> int | None:
    return None if size is None else max(0, size + more)


def _scaled(size: int | None, new: int, old: int) -> int | None:
    return None if size is None else size if new == old else round(size * new / max(1, old))


def _fits(row: Callable[[int, int], PlanRow], batch_size: int, max_cache_len: int) -> bool:
    return row(batch_size, max_cache_len).fits is True


def _greatest(fits: Callable[[int], bool], least: int, most: int) -> int | None:
    """The greatest number that fits, where everything below one that fits does too."""
    if least > most or not fits(least):
        return None
    low, high = least, most
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low


def _notes(model: ModelFacts, known: Overheads | None, capability: str | None) -> tuple[str, ...]:
    notes = []
    if capability is None:
        notes.append("workspace: 8,519,680 B before sm_90, 33,554,432 B from sm_90 on; --capability 8.6 says which")
    if known is None:
        notes.append("without a recording: driver, graph and rounding are not in the sums")
    elif not known.is_of(model):
        notes.append(f"recorded with {known.model}: another model's driver, graph and rounding are concluded from it")
    if model.kv.sliding_windows:
        notes.append("sliding layers: cgtop does not capture this model, whose cache counts on the host")
    return tuple(notes)
