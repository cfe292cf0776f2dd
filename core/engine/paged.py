"""A paged KV cache that a graph can be captured on: a block table over a pool of pages that all batch sizes share.

As in PagedAttention (Kwon et al., 2023): a page holds a fixed number of tokens of one sequence, and a table says which
page holds which part of it. For a graph both have fixed addresses; only the table's contents change between replays. A
step writes its token with `index_put_` and gathers the pages of all sequences by the table. The gather makes a copy of
the KV that is attended to, layer by layer: a kernel that reads pages in place needs none, so its peak is reported.

transformers' own `PagedAttentionCache` is not used: its scheduler packs a batch into one row, and with sdpa every query
then attends to the KV of all sequences under a block mask, which is no measure of what paging costs.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedConfig, PreTrainedModel, StaticCache
from transformers.cache_utils import StaticLayer
from transformers.masking_utils import sdpa_mask

from ..sizing import KvShape
from .caches import SPOILT, Fixed, StaticKV
from .failures import EngineError
from .models import forward_kwargs
from .steps import DecodeStep, StaticDecode

PAGE_SIZE = 16
"""Tokens of a page."""
ATTENTION = "cgtop_paged"
"""The name under which `paged_attention` is registered with transformers."""
EMPTY_PAGE = 0
"""The page that a table names where a sequence has none yet: read under the mask, never written."""


class PagePool:
    """Pages, block table and lengths at fixed addresses, for up to `sequences` sequences of `max_cache_len` tokens.

    `keys[layer]`, `values[layer]`: [pages, page_size, KV heads, head_dim]. `table`: [sequences, pages of a sequence].
    """

    def __init__(
        self, shape: KvShape, *, sequences: int, max_cache_len: int, dtype: torch.dtype, device: torch.device
    ) -> None:
        self.sequences = sequences
        self.max_cache_len = max_cache_len
        self.pages_each = -(-max_cache_len // PAGE_SIZE)
        self.pages = 1 + sequences * self.pages_each
        size = (self.pages, PAGE_SIZE, shape.kv_heads, shape.head_dim)
        self.keys = [torch.zeros(size, dtype=dtype, device=device) for _ in range(shape.layers)]
        self.values = [torch.zeros(size, dtype=dtype, device=device) for _ in range(shape.layers)]
        self.lengths = [torch.zeros((), dtype=torch.int64, device=device) for _ in range(shape.layers)]
        self.table = torch.zeros((sequences, self.pages_each), dtype=torch.int64, device=device)
        self.in_use = 0

    @property
    def page_bytes(self) -> int:
        """Bytes of one page over all layers, keys and values."""
        return sum(tensor[0].nbytes for tensor in (*self.keys, *self.values))

    def assign(self, sequences: int, tokens: int) -> None:
        """Take all pages back, then give each of the first `sequences` enough of them for `tokens` tokens.

        Neighbours in a sequence are no neighbours in the pool, as after some time of serving. Raises `EngineError` for
        more than the table has room for.
        """
        if sequences > self.sequences or tokens > self.max_cache_len:
            raise EngineError(
                "batch_size",
                f"{sequences} sequences of {tokens} tokens do not fit a table made for {self.sequences} of "
                f"{self.max_cache_len}",
                "a block table has the size it was allocated with",
            )
        each = -(-tokens // PAGE_SIZE)
        table = torch.full((self.sequences, self.pages_each), EMPTY_PAGE, dtype=torch.int64)
        given = torch.arange(EMPTY_PAGE + 1, EMPTY_PAGE + 1 + each * sequences, dtype=torch.int64)
        table[:sequences, :each] = given.view(each, sequences).t()
        self.table.copy_(table)
        self.in_use = each * sequences


class PagedLayer(StaticLayer):  # type: ignore[no-untyped-call]  # transformers' own __init_subclass__
    """One layer of a paged cache, for transformers: it keeps lengths and masks as a StaticCache's layer does."""

    def __init__(self, pool: PagePool, layer: int, table: torch.Tensor) -> None:
        """`table`: the rows of the pool's table that are this batch's."""
        super().__init__(max_cache_len=pool.max_cache_len)
        self.keys, self.values = self._pages = (pool.keys[layer], pool.values[layer])
        self.cumulative_length = pool.lengths[layer]
        self.table = table
        self.device = table.device
        self.is_initialized = True

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: object, **kwargs: object
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Write new tokens, [batch, KV heads, new, head_dim], to their pages; returns the whole pool's pages."""
        new = key_states.shape[-2]
        position = torch.arange(new, device=self.device) + self.cumulative_length
        self.cumulative_length.add_(new)
        page = self.table.index_select(1, position // PAGE_SIZE)
        slot = (position % PAGE_SIZE).expand_as(page)
        keys, values = self._pages
        keys.index_put_((page, slot), key_states.transpose(1, 2))
        values.index_put_((page, slot), value_states.transpose(1, 2))
        return keys, values


class PagedKV(StaticKV):
    """The cache of one batch size over a shared `PagePool`; lengths and table rows are shared as well."""

    def __init__(self, config: PreTrainedConfig, pool: PagePool, batch_size: int) -> None:
        self.pool = pool
        self.batch_size = batch_size
        self.capacity = pool.max_cache_len
        self.table = pool.table[:batch_size]
        self.cache = StaticCache(config=config, max_cache_len=pool.max_cache_len)
        self.cache.layers = [PagedLayer(pool, layer, self.table) for layer in range(len(pool.keys))]

    def overwrite_from(self, position: int) -> None:
        """Spoil the slots behind `position` of the pages that this batch has."""
        positions = torch.arange(position, self.capacity, device=self.table.device)
        page = self.table[:, positions // PAGE_SIZE]
        slot = (positions % PAGE_SIZE).expand_as(page)
        for tensor in (*self.pool.keys, *self.pool.values):
            tensor[page, slot] = SPOILT

    def fixed(self) -> list[Fixed]:
        """Pages, lengths and the table, whose contents the host writes."""
        return [*super().fixed(), Fixed("block table", self.table, "copy_")]


class PagedStep(DecodeStep):
    """The decode step with `paged_attention` in the place of the model's own, for as long as it is being made."""

    def __init__(self, model: PreTrainedModel, kv: PagedKV, first_ids: torch.Tensor) -> None:
        super().__init__(model, kv.cache, first_ids)
        self._kwargs = {**forward_kwargs(model, kv.cache), "block_table": kv.table}

    def __call__(self) -> torch.Tensor:
        """Enqueue one step; returns its logits, [batch, vocab]."""
        with _attention_of(self._model, ATTENTION):
            logits: torch.Tensor = self._model(input_ids=self.input_ids, use_cache=True, **self._kwargs).logits[:, -1]
        self.input_ids.copy_(logits.argmax(dim=-1, keepdim=True))
        return logits


class PagedDecode(StaticDecode):
    """Decoding on a paged cache."""

    def __init__(self, model: PreTrainedModel, kv: PagedKV, first_ids: torch.Tensor, prompt_len: int) -> None:
        super().__init__(model, kv, first_ids, prompt_len)
        self.step = PagedStep(model, kv, first_ids)


def paged_attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    block_table: torch.Tensor | None = None,
    **kwargs: object,
) -> tuple[torch.Tensor, None]:
    """Attention of one new token a sequence over its pages; an attention function as transformers calls it.

    `query`: [batch, heads, 1, head_dim]; `key`, `value`: a layer's whole pool; `attention_mask`: [batch, 1, 1, length],
    true where a token is attended to. Returns [batch, 1, heads, head_dim]. Heads that share a KV head are queries of
    one attention, so that no KV is repeated.
    """
    if block_table is None or attention_mask is None or query.shape[2] != 1:
        raise ValueError("paged attention decodes one token a sequence, with a block table and a mask")
    batch, heads, _, head_dim = query.shape
    length = attention_mask.shape[-1]
    keys, values = _gathered(key, block_table, length), _gathered(value, block_table, length)
    grouped = query.reshape(batch, keys.shape[1], heads // keys.shape[1], head_dim)
    output = scaled_dot_product_attention(grouped, keys, values, attn_mask=attention_mask, scale=scaling)
    return output.reshape(batch, 1, heads, -1), None


def _gathered(pages: torch.Tensor, table: torch.Tensor, length: int) -> torch.Tensor:
    """The first `length` tokens of each sequence of the table, [batch, KV heads, length, head_dim]."""
    return pages[table].flatten(1, 2)[:, :length].transpose(1, 2)


@contextmanager
def _attention_of(model: PreTrainedModel, name: str) -> Iterator[None]:
    """Have the model use another attention function inside the `with`."""
    config = model.config
    before = config._attn_implementation
    config._attn_implementation = name
    try:
        yield
    finally:
        config._attn_implementation = before


AttentionInterface.register(ATTENTION, paged_attention)
AttentionMaskInterface.register(ATTENTION, sdpa_mask)
