"""The StaticCache: filled with its length, rewound in place, guarded by address. Real caches, on the CPU."""

from typing import NamedTuple

import pytest
import torch
from transformers import DynamicCache, PreTrainedModel

from cgtop.core.engine.caches import AddressGuard, StaticKV, dynamic_layers, rewind_dynamic
from cgtop.core.engine.failures import EngineError
from cgtop.core.engine.models import forward_kwargs, load, resolve
from cgtop.core.engine.steps import Cursor, DecodeStep, DynamicDecode, StaticDecode
from cgtop.core.events import DeviceInfo
from tests.core.engine.driving import SMALL

PROMPT, CAPACITY = 7, 16


class Filled(NamedTuple):
    model: PreTrainedModel
    kv: StaticKV
    static: StaticDecode
    dynamic: DynamicDecode


def tiny() -> PreTrainedModel:
    plan = resolve(SMALL, DeviceInfo(kind="cpu", name="CPU"))
    return load(plan, torch.device("cpu"), lambda done, total, what: None).model


def static_kv(model: PreTrainedModel, batch_size: int = 1, capacity: int = CAPACITY) -> StaticKV:
    return StaticKV(
        model.config,
        batch_size=batch_size,
        max_cache_len=capacity,
        dtype=torch.float32,
        device=torch.device("cpu"),
    )


@pytest.fixture
def filled() -> Filled:
    """A prompt of 7 in a DynamicCache and copied to a StaticCache of 16."""
    with torch.no_grad():
        model = tiny()
        cache = DynamicCache(config=model.config)
        ids = torch.arange(3, 3 + PROMPT).unsqueeze(0)
        logits = model(input_ids=ids, use_cache=True, **forward_kwargs(model, cache)).logits[:, -1]
        first = logits.argmax(-1, keepdim=True)
        dynamic = DynamicDecode(model, cache, first, PROMPT, CAPACITY)
        kv = static_kv(model)
        static = StaticDecode(model, kv, first, PROMPT)
        assert kv.fill_from(cache) == PROMPT
        return Filled(model, kv, static, dynamic)


def pointers(kv: StaticKV) -> list[int]:
    return [fixed.tensor.data_ptr() for fixed in kv.fixed()]


def test_copying_the_prompt_moves_its_length_and_the_next_logits_are_the_dynamic_ones(filled: Filled) -> None:
    assert filled.kv.lengths() == [PROMPT] * len(filled.kv.lengths())
    with torch.no_grad():
        static, dynamic = filled.static.step(), filled.dynamic.step()
    assert torch.allclose(static, dynamic, atol=1e-4, rtol=0)
    assert filled.kv.lengths()[0] == PROMPT + 1


def test_a_cache_whose_length_was_not_moved_would_decode_differently(filled: Filled) -> None:
    with torch.no_grad():
        right = filled.static.step().clone()
        filled.kv.set_length(0)
        filled.static.step.input_ids.copy_(filled.static.first_ids)
        wrong = filled.static.step()
    assert not torch.allclose(right, wrong, atol=1e-4, rtol=0)


def test_three_warmups_and_a_rewind_leave_length_and_pointers(filled: Filled) -> None:
    before = pointers(filled.kv)
    with torch.no_grad():
        first = filled.static.step().clone()
        for _ in range(2):
            filled.static.step()
        assert filled.kv.lengths()[0] == PROMPT + 3
        filled.static.cursor.rewind()
        assert filled.kv.lengths() == [PROMPT] * len(filled.kv.lengths())
        assert pointers(filled.kv) == before
        assert torch.equal(filled.static.step(), first)


def test_a_lazy_layer_is_refused_before_capture(filled: Filled) -> None:
    filled.kv.layers[2].is_initialized = False
    with pytest.raises(EngineError, match=r"Layer 2 .* not allocated"):
        filled.kv.require_initialized()


def test_a_new_cache_is_allocated_at_once_on_every_layer() -> None:
    kv = static_kv(tiny())
    kv.require_initialized()
    assert {tensor.shape[2] for tensor in kv.keys_and_values()} == {CAPACITY}


def test_the_end_of_the_cache_is_bounded_on_the_host() -> None:
    rewinds: list[int] = []
    cursor = Cursor(PROMPT, CAPACITY, lambda: rewinds.append(1))
    for _ in range(CAPACITY - PROMPT):
        cursor.advance()
    assert cursor.full
    with pytest.raises(IndexError, match="cache full"):
        cursor.advance()
    cursor.make_room()
    assert (cursor.position, cursor.laps, rewinds) == (PROMPT, 1, [1])


def test_batch_2_on_a_cache_for_batch_1_is_refused_before_the_model_is_called(filled: Filled) -> None:
    with pytest.raises(EngineError, match="batch 2"):
        StaticDecode(filled.model, filled.kv, torch.zeros(2, 1, dtype=torch.int64), PROMPT)
    with pytest.raises(EngineError, match="batch 1 does not fit a cache made for batch 2"):
        static_kv(filled.model, batch_size=2).fill_from(filled.dynamic.cache)


def test_a_prompt_without_room_to_decode_is_refused(filled: Filled) -> None:
    with pytest.raises(EngineError) as caught:
        static_kv(filled.model, capacity=PROMPT).fill_from(filled.dynamic.cache)
    assert caught.value.kind == "cache_too_small" and "8 or more" in caught.value.hint


def test_rebinding_keys_after_capture_is_a_stale_graph_and_copying_into_them_is_not(filled: Filled) -> None:
    guard = AddressGuard(filled.static.fixed)
    layer = filled.kv.layers[1]
    layer.keys.copy_(torch.ones_like(layer.keys))
    guard.require_unmoved()
    layer.keys = layer.keys.clone()
    with pytest.raises(EngineError, match="keys 1 moved") as caught:
        guard.require_unmoved()
    assert caught.value.kind == "stale_graph"
    assert [moved for _, _, moved in guard.addresses()].count(True) == 1


def test_the_guard_covers_inputs_lengths_keys_and_values(filled: Filled) -> None:
    names = {fixed.name for fixed in filled.static.fixed()}
    layers = len(filled.kv.layers)
    assert names == {"input_ids"} | {f"{kind} {n}" for kind in ("keys", "values", "length") for n in range(layers)}


def test_a_dynamic_cache_is_cut_back_to_the_prompt(filled: Filled) -> None:
    with torch.no_grad():
        first = filled.dynamic.step().clone()
        filled.dynamic.step()
        assert filled.dynamic.cache.get_seq_length() == PROMPT + 2
        rewind_dynamic(filled.dynamic.cache, PROMPT)
        assert filled.dynamic.cache.get_seq_length() == PROMPT
        filled.dynamic.step.input_ids.copy_(filled.dynamic.first_ids)
        assert torch.equal(filled.dynamic.step(), first)


def test_the_next_token_is_written_to_the_same_input_inside_the_step(filled: Filled) -> None:
    step: DecodeStep = filled.static.step
    address = step.input_ids.data_ptr()
    with torch.no_grad():
        logits = step()
    assert step.input_ids.data_ptr() == address
    assert int(step.input_ids) == int(logits.argmax())


def test_a_sliding_layer_is_cut_back_with_its_own_count_of_tokens() -> None:
    config = tiny().config
    config.layer_types = ["sliding_attention", "full_attention", "sliding_attention", "full_attention"]
    config.sliding_window = 32
    cache = DynamicCache(config=config)
    for number in range(4):
        cache.update(torch.zeros(1, 2, PROMPT, 16), torch.zeros(1, 2, PROMPT, 16), number)
    for number in range(3):  # a step that failed before the last layer
        cache.update(torch.zeros(1, 2, 1, 16), torch.zeros(1, 2, 1, 16), number)
    rewind_dynamic(cache, PROMPT)
    assert [int(layer.get_seq_length()) for layer in dynamic_layers(cache)] == [PROMPT] * 4
