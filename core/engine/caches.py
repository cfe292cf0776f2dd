"""The StaticCache at its fixed addresses: allocate, fill from a DynamicCache, rewind in place, and guard.

transformers' StaticCache keeps, for each layer, keys and values [batch, KV heads, max_cache_len, head_dim] and a 0-dim
int64 `cumulative_length` on the device, which every decode step advances by itself. Nothing here reads it back: the
host knows the position, because it counts the steps.
"""

from collections.abc import Iterable
from typing import Literal, NamedTuple, Protocol, cast

import torch
from transformers import DynamicCache, PreTrainedConfig, StaticCache

from .failures import EngineError

Update = Literal["copy_", "in-graph", "constant"]
"""How the next value of a fixed tensor gets there."""


class StaticLayer(Protocol):
    """A layer of a StaticCache, as far as it is used here; keys and values: [batch, KV heads, length, head_dim]."""

    keys: torch.Tensor
    values: torch.Tensor
    cumulative_length: torch.Tensor
    is_initialized: bool

    def update(self, key_states: torch.Tensor, value_states: torch.Tensor) -> object:
        """Write these tokens behind those that are there."""


class DynamicLayer(Protocol):
    """A layer of a DynamicCache, as far as it is used here."""

    keys: torch.Tensor
    values: torch.Tensor
    is_initialized: bool

    def get_seq_length(self) -> int:
        """Tokens that it has seen."""

    def crop(self, tokens_to_remove: int) -> None:
        """Drop the last tokens; the number is given as a negative one."""


def dynamic_layers(cache: DynamicCache) -> list[DynamicLayer]:
    """Its layers, typed."""
    return cast(list[DynamicLayer], cache.layers)


def dynamic_copy(config: PreTrainedConfig, cache: DynamicCache, length: int) -> DynamicCache:
    """The first `length` tokens of a DynamicCache, in another one with memory of its own."""
    copy = DynamicCache(config=config)
    for number, layer in enumerate(dynamic_layers(cache)):
        copy.update(layer.keys[:, :, :length], layer.values[:, :, :length], number)
    return copy


SPOILT = 64.0
"""What is written to slots that nothing may read; exact in every dtype, and large among keys and values."""


class Fixed(NamedTuple):
    """A tensor that a captured graph reads or writes at a fixed address. `update`: how its next value gets there."""

    name: str
    tensor: torch.Tensor
    update: Update


class StaticKV:
    """A StaticCache, fully allocated when this returns.

    Raises `EngineError` (kind "capture") for layer kinds whose length a graph would freeze.
    """

    def __init__(
        self,
        config: PreTrainedConfig,
        *,
        batch_size: int,
        max_cache_len: int,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        text = config.get_text_config(decoder=True)
        self.batch_size = batch_size
        self.capacity = max_cache_len
        self.cache = StaticCache(config=config, max_cache_len=max_cache_len)
        heads = text.num_attention_heads
        self.cache.early_initialization(
            batch_size=batch_size,
            num_heads=getattr(text, "num_key_value_heads", None) or heads,
            head_dim=getattr(text, "head_dim", None) or text.hidden_size // heads,
            dtype=dtype,
            device=device,
        )
        self.require_initialized()

    @property
    def layers(self) -> list[StaticLayer]:
        """The cache's layers, typed."""
        return cast(list[StaticLayer], self.cache.layers)

    def require_initialized(self) -> None:
        """Refuse a cache with a lazy layer: captured so, its KV would be born inside the graph's private pool."""
        for number, layer in enumerate(self.layers):
            if not layer.is_initialized:
                raise EngineError(
                    kind="capture",
                    headline=f"Layer {number} of the StaticCache is not allocated yet",
                    hint="allocate the whole cache before capture, or its keys and values land in the graph's pool",
                )

    def fill_from(self, dynamic: DynamicCache) -> int:
        """Copy the prompt's KV and its length to the fixed addresses; returns the length in tokens."""
        length = 0
        for static, source in zip(self.layers, dynamic_layers(dynamic), strict=True):
            keys, values = source.keys, source.values
            if keys.shape[0] != self.batch_size:
                raise EngineError(
                    kind="batch_size",
                    headline=f"A prompt of batch {keys.shape[0]} does not fit a cache made for batch {self.batch_size}",
                    hint="a StaticCache has the batch size it was allocated with",
                )
            length = int(keys.shape[-2])
            if length >= self.capacity:
                raise cache_too_small(length, self.capacity)
            static.cumulative_length.zero_()
            static.update(keys, values)
        return length

    def set_length(self, length: int) -> None:
        """Make every layer hold `length` tokens, in place: the next step writes slot `length`."""
        for layer in self.layers:
            layer.cumulative_length.fill_(length)

    def overwrite_from(self, position: int) -> None:
        """Spoil every slot behind `position`: a step must not read one that it, or one before it, has not written.

        With finite values, since a masked slot still counts as 0 times its value.
        """
        for tensor in self.keys_and_values():
            tensor[:, :, position:].fill_(SPOILT)

    def lengths(self) -> list[int]:
        """The lengths as the device has them. Waits for the device: for checks, never for a decode loop."""
        return [int(layer.cumulative_length.item()) for layer in self.layers]

    def keys_and_values(self) -> list[torch.Tensor]:
        """Every layer's keys, then its values."""
        return [tensor for layer in self.layers for tensor in (layer.keys, layer.values)]

    def counters(self) -> list[torch.Tensor]:
        """Every layer's length counter."""
        return [layer.cumulative_length for layer in self.layers]

    def fixed(self) -> list[Fixed]:
        """Everything of this cache that a graph depends on."""
        found = []
        for number, layer in enumerate(self.layers):
            found.append(Fixed(f"keys {number}", layer.keys, "in-graph"))
            found.append(Fixed(f"values {number}", layer.values, "in-graph"))
            found.append(Fixed(f"length {number}", layer.cumulative_length, "in-graph"))
        return found

    def check_batch(self, batch_size: int) -> None:
        """Raise a clear `EngineError` before the model is called with another batch size."""
        if batch_size != self.batch_size:
            raise EngineError(
                kind="batch_size",
                headline=f"A step of batch {batch_size} on a StaticCache made for batch {self.batch_size}",
                hint=f"allocate the cache for batch {batch_size}, or decode {self.batch_size} sequences",
            )


class FixedSource(Protocol):
    """Something that can list, at any time, the tensors it holds now."""

    def __call__(self) -> list[Fixed]:
        """The tensors, in the same order at every call."""


class AddressGuard:
    """Remembers where the fixed tensors were when it was made, and compares when asked: before each replayed token."""

    def __init__(self, source: FixedSource) -> None:
        self._source = source
        self._recorded = [(fixed.name, fixed.tensor.data_ptr()) for fixed in source()]
        self.checked = 0

    def moved(self) -> list[str]:
        """Names of the tensors that are somewhere else now."""
        self.checked += 1
        return [
            name
            for (name, address), fixed in zip(self._recorded, self._source(), strict=True)
            if fixed.tensor.data_ptr() != address
        ]

    def require_unmoved(self) -> None:
        """Raise `EngineError` (kind "stale_graph") if a replay would work on memory that is no longer the tensor's."""
        moved = self.moved()
        if moved:
            shown = ", ".join(moved[:3]) + (f" and {len(moved) - 3} more" if len(moved) > 3 else "")
            raise EngineError(
                kind="stale_graph",
                headline=f"Stale graph: {shown} moved since capture",
                hint="The graph would go on with the old addresses: copy into the tensors instead of rebinding them.",
                recoverable=True,
            )

    def addresses(self) -> list[tuple[Fixed, int, bool]]:
        """Each fixed tensor with the address at capture, and whether it moved."""
        return [
            (fixed, address, fixed.tensor.data_ptr() != address)
            for (_, address), fixed in zip(self._recorded, self._source(), strict=True)
        ]


def dynamic_tensors(dynamic: DynamicCache) -> Iterable[torch.Tensor]:
    """Keys and values that a DynamicCache holds now."""
    for layer in dynamic_layers(dynamic):
        if layer.is_initialized:
            yield layer.keys
            yield layer.values


def rewind_dynamic(dynamic: DynamicCache, length: int) -> None:
    """Cut a DynamicCache back to `length` tokens, layer by layer: after a step that failed they differ."""
    for layer in dynamic_layers(dynamic):
        surplus = int(layer.get_seq_length()) - length if layer.is_initialized else 0
        if surplus > 0:
            layer.crop(-surplus)


def cache_too_small(prompt_len: int, capacity: int) -> EngineError:
    """The error for a prompt that leaves no room to decode."""
    return EngineError(
        kind="cache_too_small",
        headline=f"A cache of {capacity} tokens has no room to decode after a prompt of {prompt_len}",
        hint=f"choose --max-cache-len {prompt_len + 1} or more",
    )
