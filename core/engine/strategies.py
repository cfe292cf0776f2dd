"""Ways to keep the caches and pools of several batch sizes' graphs, as a server that captures one for each must."""

import copy
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

import torch

from .. import sizing
from .caches import StaticKV
from .failures import EngineError
from .models import LoadedModel
from .paged import PagedDecode, PagedKV, PagePool
from .prompts import Prompt, fill
from .steps import StaticDecode


class Strategy(NamedTuple):
    """One way. `order`: in which order its graphs are captured."""

    name: str
    caches: type["Caches"]
    shared_pool: bool
    largest_first: bool

    def order(self, batch_sizes: Sequence[int]) -> list[int]:
        """The batch sizes as they are captured."""
        return sorted(batch_sizes, reverse=self.largest_first)


class Allocated(NamedTuple):
    """A cache for one batch size, and what the closed form says that allocating it took just now."""

    kv: StaticKV
    closed_form_bytes: int


class Caches(ABC):
    """Gives a cache to each batch size of a strategy. On the device and stream that are current."""

    attention = "the model's own"
    """Graphs of the same attention, batch size and cache length compute the same."""

    def __init__(self, loaded: LoadedModel, *, device: torch.device, max_cache_len: int, tokens: int) -> None:
        """`tokens`: that each sequence will have at most."""
        self._loaded = loaded
        self._device = device
        self._max_cache_len = max_cache_len
        self._tokens = tokens

    @abstractmethod
    def allocate(self, batch_size: int) -> Allocated:
        """The cache for a batch size; raises what allocating raises."""

    @abstractmethod
    def decode(self, kv: StaticKV, prompt: Prompt) -> StaticDecode:
        """Decoding on that cache from a prompt, which is filled in; its input at a fixed address."""

    def claim(self, kv: StaticKV) -> None:  # noqa: B027 - most caches have nothing to do
        """Make a cache that shares its memory with others the one that is decoded on."""

    def pages_in_use(self) -> int | None:
        """Pages that sequences hold now; None where there are no pages."""
        return None

    def page_bytes(self) -> int | None:
        """Bytes of one page over all layers; None where there are no pages."""
        return None

    def _closed_form(self, batch_size: int) -> int:
        loaded = self._loaded
        return sizing.static_cache_bytes(
            loaded.kv, batch_size=batch_size, max_cache_len=self._max_cache_len, dtype=loaded.info.dtype
        )

    def _static(self, batch_size: int) -> StaticKV:
        return StaticKV(
            self._loaded.model.config,
            batch_size=batch_size,
            max_cache_len=self._max_cache_len,
            dtype=self._loaded.model.dtype,
            device=self._device,
        )


class OwnCaches(Caches):
    """A StaticCache for each batch size: the guide's growth."""

    def allocate(self, batch_size: int) -> Allocated:
        """A StaticCache of this size."""
        return Allocated(self._static(batch_size), self._closed_form(batch_size))

    def decode(self, kv: StaticKV, prompt: Prompt) -> StaticDecode:
        """With an input of its own."""
        fill(kv, prompt)
        decode = StaticDecode(self._loaded.model, kv, prompt.first_ids.to(self._device), prompt.length)
        decode.cursor.rewind()
        return decode


class SlicedCaches(Caches):
    """One StaticCache of the largest size, of which each batch size uses the first sequences; so of the input."""

    _whole: StaticKV | None = None
    _input_ids: torch.Tensor | None = None

    def allocate(self, batch_size: int) -> Allocated:
        """A slice of the cache; the first call, which is to be for the largest size, allocates the whole."""
        taken = 0
        if self._whole is None:
            self._whole, taken = self._static(batch_size), self._closed_form(batch_size)
        return Allocated(SlicedKV(self._whole, batch_size), taken)

    def decode(self, kv: StaticKV, prompt: Prompt) -> StaticDecode:
        """With the first rows of the common input."""
        fill(kv, prompt)
        decode = StaticDecode(self._loaded.model, kv, prompt.first_ids.to(self._device), prompt.length)
        if self._input_ids is None:
            self._input_ids = decode.step.input_ids
        decode.step.input_ids = self._input_ids[: kv.batch_size]
        decode.cursor.rewind()
        return decode


class PagedCaches(Caches):
    """One pool of pages and one block table for all batch sizes."""

    attention = "paged"
    _pool: PagePool | None = None
    _input_ids: torch.Tensor | None = None

    def allocate(self, batch_size: int) -> Allocated:
        """The table's first rows; the first call, which is to be for the largest size, allocates pool and table."""
        taken = 0
        if self._pool is None:
            self._pool = PagePool(
                self._loaded.kv,
                sequences=batch_size,
                max_cache_len=self._max_cache_len,
                dtype=self._loaded.model.dtype,
                device=self._device,
            )
            taken = self._pool.pages * self._pool.page_bytes
        kv = PagedKV(self._loaded.model.config, self._pool, batch_size)
        self.claim(kv)
        return Allocated(kv, taken)

    def decode(self, kv: StaticKV, prompt: Prompt) -> StaticDecode:
        """With the first rows of the common input."""
        assert isinstance(kv, PagedKV)
        fill(kv, prompt)
        decode = PagedDecode(self._loaded.model, kv, prompt.first_ids.to(self._device), prompt.length)
        if self._input_ids is None:
            self._input_ids = decode.step.input_ids
        decode.step.input_ids = self._input_ids[: kv.batch_size]
        decode.cursor.rewind()
        return decode

    def claim(self, kv: StaticKV) -> None:
        """Give the pages to this batch's sequences."""
        assert isinstance(kv, PagedKV)
        kv.pool.assign(kv.batch_size, min(self._tokens, kv.capacity))

    def pages_in_use(self) -> int | None:
        """As the table has them now."""
        return None if self._pool is None else self._pool.in_use

    def page_bytes(self) -> int | None:
        """Of this pool."""
        return None if self._pool is None else self._pool.page_bytes


class SlicedKV(StaticKV):
    """The first sequences of a larger StaticCache: the same keys, values and length counters, no bytes of its own."""

    def __init__(self, whole: StaticKV, batch_size: int) -> None:
        if batch_size > whole.batch_size:
            raise EngineError(
                "batch_size",
                f"a batch of {batch_size} does not fit a cache made for {whole.batch_size}",
                "the largest batch size comes first",
            )
        self.batch_size = batch_size
        self.capacity = whole.capacity
        self.cache = copy.copy(whole.cache)
        self.cache.layers = [copy.copy(layer) for layer in whole.cache.layers]
        for layer, source in zip(self.layers, whole.layers, strict=True):
            layer.keys, layer.values = source.keys[:batch_size], source.values[:batch_size]
            vars(layer)["batch_size"] = batch_size


STRATEGIES: dict[str, Strategy] = {
    strategy.name: strategy
    for strategy in (
        Strategy("own", OwnCaches, shared_pool=False, largest_first=False),
        Strategy("shared-pool", OwnCaches, shared_pool=True, largest_first=True),
        Strategy("shared-pool-ascending", OwnCaches, shared_pool=True, largest_first=False),
        Strategy("shared-cache", SlicedCaches, shared_pool=True, largest_first=True),
        Strategy("paged", PagedCaches, shared_pool=True, largest_first=True),
    )
}
