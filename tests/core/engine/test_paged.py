"""The paged cache: the same results as a StaticCache, pages that are shared, and a model that is left as it was."""

import pytest
import torch
from transformers import DynamicCache

from cgtop.core.engine.caches import StaticKV
from cgtop.core.engine.failures import EngineError
from cgtop.core.engine.models import LoadedModel, forward_kwargs, load, prompt_ids, resolve
from cgtop.core.engine.paged import PAGE_SIZE, PagedDecode, PagedKV, PagePool, paged_attention
from cgtop.core.engine.prompts import Prompt, fill
from cgtop.core.engine.steps import StaticDecode
from cgtop.core.events import DeviceInfo
from cgtop.core.settings import RunSettings

CPU = torch.device("cpu")
PROMPT, LENGTH, BATCH = 7, 70, 3
SETTINGS = RunSettings(model="tiny", device="cpu", prompt_len=PROMPT, batch_size=BATCH, max_cache_len=LENGTH)


@pytest.fixture(scope="module", params=[torch.float32, torch.bfloat16], ids=["fp32", "bf16"])
def loaded(request: pytest.FixtureRequest) -> LoadedModel:
    found = load(resolve(SETTINGS, DeviceInfo(kind="cpu", name="cpu")), CPU, lambda *_: None)
    found.model.to(request.param)
    return found


def prompt(loaded: LoadedModel) -> Prompt:
    cache = DynamicCache(config=loaded.model.config)
    ids = prompt_ids(loaded, SETTINGS, CPU)
    with torch.no_grad():
        output = loaded.model(input_ids=ids, use_cache=True, **forward_kwargs(loaded.model, cache))
    kv = tuple((layer.keys, layer.values) for layer in cache.layers)  # type: ignore[union-attr]
    return Prompt(kv, output.logits[:, -1].argmax(dim=-1, keepdim=True), PROMPT)  # type: ignore[arg-type]


def pool_for(loaded: LoadedModel, sequences: int = 5) -> PagePool:
    return PagePool(loaded.kv, sequences=sequences, max_cache_len=LENGTH, dtype=loaded.model.dtype, device=CPU)


def paged(loaded: LoadedModel, pool: PagePool, tokens: int = LENGTH) -> PagedDecode:
    filled = prompt(loaded)
    kv = PagedKV(loaded.model.config, pool, BATCH)
    pool.assign(BATCH, tokens)
    fill(kv, filled)
    return PagedDecode(loaded.model, kv, filled.first_ids, PROMPT)


def static(loaded: LoadedModel) -> StaticDecode:
    filled = prompt(loaded)
    kv = StaticKV(loaded.model.config, batch_size=BATCH, max_cache_len=LENGTH, dtype=loaded.model.dtype, device=CPU)
    fill(kv, filled)
    return StaticDecode(loaded.model, kv, filled.first_ids, PROMPT)


@torch.no_grad()
def test_decoding_on_pages_is_decoding_on_a_static_cache(loaded: LoadedModel) -> None:
    on_pages, on_static = paged(loaded, pool_for(loaded)), static(loaded)
    exact = loaded.model.dtype == torch.float32
    for _ in range(LENGTH - PROMPT):
        got, expected = on_pages.step(), on_static.step()
        if exact:
            torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-4)
            assert torch.equal(on_pages.step.input_ids, on_static.step.input_ids)
        else:
            assert float((got.float() - expected.float()).norm() / expected.float().norm()) < 0.05
            on_pages.step.input_ids.copy_(on_static.step.input_ids)
    assert on_pages.kv.lengths() == on_static.kv.lengths()


@torch.no_grad()
def test_another_batch_that_took_the_pages_does_not_matter_after_they_are_claimed_again(loaded: LoadedModel) -> None:
    pool = pool_for(loaded)
    first = paged(loaded, pool)
    expected = first.step().clone()
    pool.assign(5, LENGTH)
    for layer in range(len(pool.keys)):
        pool.keys[layer].normal_()
        pool.values[layer].normal_()
    again = paged(loaded, pool)
    torch.testing.assert_close(again.step(), expected)


@torch.no_grad()
def test_pages_without_tokens_are_not_attended_to(loaded: LoadedModel) -> None:
    pool = pool_for(loaded)
    decode = paged(loaded, pool, tokens=PROMPT + 1)
    for tensor in (*pool.keys, *pool.values):
        tensor[0].fill_(1e4)
    torch.testing.assert_close(decode.step(), static(loaded).step(), rtol=0.05, atol=0.05)


@torch.no_grad()
def test_addresses_stay_while_pages_change_hands_and_tokens_are_added(loaded: LoadedModel) -> None:
    pool = pool_for(loaded)
    decode = paged(loaded, pool)
    before = [(fixed.name, fixed.tensor.data_ptr()) for fixed in decode.fixed()]
    decode.step()
    pool.assign(2, LENGTH)
    decode.cursor.rewind()
    assert [(fixed.name, fixed.tensor.data_ptr()) for fixed in decode.fixed()] == before
    assert "block table" in dict(before)


def test_a_sequences_pages_are_its_own_and_lie_apart(loaded: LoadedModel) -> None:
    pool = pool_for(loaded)
    pool.assign(BATCH, 33)
    given = pool.table[:BATCH, :3]
    assert len(set(given.flatten().tolist())) == given.numel() == pool.in_use == 9
    assert int(given.min()) > 0 and int(pool.table[BATCH:].max()) == 0 and int(pool.table[:, 3:].max()) == 0
    assert (given.diff(dim=1) > 1).all()


def test_a_page_is_its_tokens_over_all_layers(loaded: LoadedModel) -> None:
    pool, kv = pool_for(loaded), loaded.kv
    size = loaded.model.dtype.itemsize
    assert pool.page_bytes == PAGE_SIZE * 2 * kv.layers * kv.kv_heads * kv.head_dim * size
    assert pool.pages == 1 + 5 * 5


def test_more_than_the_table_has_room_for_is_refused(loaded: LoadedModel) -> None:
    pool = pool_for(loaded, sequences=2)
    for sequences, tokens in ((3, 10), (2, LENGTH + 1)):
        with pytest.raises(EngineError, match="do not fit"):
            pool.assign(sequences, tokens)


@torch.no_grad()
def test_the_models_own_attention_is_back_after_a_step_even_a_failed_one(loaded: LoadedModel) -> None:
    decode = paged(loaded, pool_for(loaded))
    decode.step()
    assert loaded.model.config._attn_implementation == "sdpa"
    with pytest.raises(ValueError, match="one token a sequence"):
        decode.step.input_ids = torch.zeros((BATCH, 2), dtype=torch.int64)
        decode.step()
    assert loaded.model.config._attn_implementation == "sdpa"


def test_it_is_for_decoding_with_a_table() -> None:
    one = torch.zeros(1, 2, 1, 4)
    with pytest.raises(ValueError, match="block table"):
        paged_attention(torch.nn.Identity(), one, one, one, torch.ones(1, 1, 1, 4, dtype=torch.bool))
