"""Models as real transformers builds and loads them, on the CPU: sizes, seeds, dtypes, states."""

from pathlib import Path

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import (
    AutoModelForCausalLM,
    Cache,
    DynamicCache,
    GPT2Config,
    LlamaConfig,
    PreTrainedModel,
    StaticCache,
)

from cgtop.core import sizing
from cgtop.core.engine import models, random_weights
from cgtop.core.engine.failures import EngineError
from cgtop.core.events import DeviceInfo
from cgtop.core.presets import PRESETS, Qwen3Shape
from cgtop.core.settings import RunSettings, SettingsError
from tests.checkpoint_maker import make_model, small_qwen3, write_checkpoint

pytestmark = pytest.mark.filterwarnings("error::FutureWarning")

CPU = torch.device("cpu")
CPU_FACTS = DeviceInfo(kind="cpu", name="a CPU")
TINY = RunSettings(model="tiny")
GIB = 1 << 30


def gpu(capability: str | None = "9.0", free_bytes: int | None = 140 * GIB) -> DeviceInfo:
    return DeviceInfo(kind="cuda", name="a GPU", capability=capability, free_bytes=free_bytes)


def quiet(done: int, total: int | None, what: str) -> None:
    """Progress that nobody looks at."""


def load(settings: RunSettings) -> models.LoadedModel:
    return models.load(models.resolve(settings, CPU_FACTS), CPU, quiet)


def build(shape: Qwen3Shape, *, seed: int = 0) -> PreTrainedModel:
    return random_weights.build(shape, dtype=torch.float32, attention="sdpa", device=CPU, seed=seed, progress=quiet)


def tensor_bytes(cache: Cache, *names: str) -> int:
    """Bytes of these tensors over all layers of a cache."""
    tensors = [getattr(layer, name) for layer in cache.layers for name in names]
    assert all(isinstance(tensor, torch.Tensor) for tensor in tensors)
    return sum(tensor.nbytes for tensor in tensors)


def tiny_tied() -> Qwen3Shape:
    return Qwen3Shape(hidden_size=32, intermediate_size=16, layers=1, heads=2, kv_heads=1, head_dim=16, vocab_size=999)


# ------------------------------------------------------------------------------------------------------ closed forms


@pytest.mark.parametrize("name", PRESETS)
def test_closed_forms_equal_the_tensors_of_each_preset(name: str) -> None:
    shape = PRESETS[name]
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(  # type: ignore[no-untyped-call]
            random_weights.qwen3_config(shape), dtype=torch.bfloat16
        )
    assert sum(p.numel() for p in model.parameters()) == sizing.parameter_count(shape)
    assert sum(p.numel() * p.element_size() for p in model.parameters()) == sizing.parameter_bytes(shape, "bfloat16")
    assert sum(b.numel() * b.element_size() for b in model.buffers()) == sizing.buffer_bytes(shape)


@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize(("batch_size", "max_cache_len"), [(1, 1024), (3, 17)])
def test_static_cache_closed_form_equals_a_real_one(name: str, batch_size: int, max_cache_len: int) -> None:
    shape = PRESETS[name]
    kv = sizing.kv_shape(shape)
    cache = StaticCache(config=random_weights.qwen3_config(shape), max_cache_len=max_cache_len)
    cache.early_initialization(batch_size, kv.kv_heads, kv.head_dim, torch.bfloat16, torch.device("meta"))
    real = tensor_bytes(cache, "keys", "values")
    assert real == sizing.static_cache_bytes(kv, batch_size=batch_size, max_cache_len=max_cache_len, dtype="bfloat16")
    assert tensor_bytes(cache, "cumulative_length") == sizing.counter_bytes(kv)


def test_dynamic_cache_closed_form_equals_a_real_one() -> None:
    loaded = load(TINY)
    cache = DynamicCache(config=loaded.model.config)
    with torch.no_grad():
        loaded.model(torch.zeros(2, 5, dtype=torch.int64), **models.forward_kwargs(loaded.model, cache))
    real = tensor_bytes(cache, "keys", "values")
    assert real == sizing.dynamic_cache_bytes(loaded.kv, batch_size=2, tokens=5, dtype="float32")


def test_static_cache_of_a_checkpoint_with_sliding_layers_counts_their_windows(tmp_path: Path) -> None:
    config = small_qwen3(num_hidden_layers=3, use_sliding_window=True, sliding_window=8, max_window_layers=1)
    write_checkpoint(tmp_path, config=config)
    plan = models.resolve(RunSettings(model=str(tmp_path), max_cache_len=64), CPU_FACTS)
    assert plan.kv.sliding_windows == (8, 8)
    cache = StaticCache(config=config, max_cache_len=64)
    cache.early_initialization(1, plan.kv.kv_heads, plan.kv.head_dim, torch.float32, torch.device("meta"))
    assert plan.info.static_cache_bytes == tensor_bytes(cache, "keys", "values")


# ----------------------------------------------------------------------------------------------------------- presets


def test_a_preset_is_ready_to_decode_and_as_large_as_announced() -> None:
    loaded = load(TINY)
    assert not loaded.model.training
    assert not any(parameter.requires_grad for parameter in loaded.model.parameters())
    assert not any(tensor.is_meta for tensor in [*loaded.model.parameters(), *loaded.model.buffers()])
    assert loaded.info == models.resolve(TINY, CPU_FACTS).info
    assert loaded.info.parameter_bytes == sum(p.nbytes for p in loaded.model.parameters())


def test_the_same_seed_gives_the_same_weights_and_another_seed_others() -> None:
    first, again, other = build(PRESETS["tiny"]), build(PRESETS["tiny"]), build(PRESETS["tiny"], seed=1)
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), again.parameters(), strict=True))
    assert not torch.equal(first.lm_head.weight, other.lm_head.weight)


def test_building_leaves_the_random_state_alone() -> None:
    before = torch.random.get_rng_state()
    build(PRESETS["tiny"])
    assert torch.equal(torch.random.get_rng_state(), before)


def test_a_model_built_tensor_by_tensor_computes_what_an_ordinary_one_does() -> None:
    built = build(PRESETS["tiny"]).train(mode=False)
    ordinary = make_model(random_weights.qwen3_config(PRESETS["tiny"]), seed=7)
    ordinary.load_state_dict(built.state_dict())
    ids = torch.arange(12).reshape(1, 12)
    with torch.no_grad():
        assert torch.equal(built(ids).logits, ordinary(ids).logits)


def test_random_weights_have_the_configured_spread() -> None:
    weight = build(PRESETS["tiny"]).lm_head.weight
    assert weight.std().item() == pytest.approx(PRESETS["tiny"].initializer_range, rel=0.1)


class LargeStorages(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the storages on the CPU of at least so many bytes that appear inside."""

    def __init__(self, at_least: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.at_least = at_least
        self.seen: dict[int, torch.Tensor] = {}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        result = func(*args, **(kwargs or {}))
        if isinstance(result, torch.Tensor) and result.device.type == "cpu":
            storage = result.untyped_storage()
            if storage.nbytes() >= self.at_least:
                self.seen[storage.data_ptr()] = result  # kept, so that no address is used twice
        return result


def test_a_tied_model_is_built_with_one_table_and_no_copy_of_it() -> None:
    shape = tiny_tied()
    with LargeStorages(shape.vocab_size * shape.hidden_size * 4) as large:
        model = build(shape)
    assert model.lm_head.weight is model.model.embed_tokens.weight
    assert [tensor.data_ptr() for tensor in large.seen.values()] == [model.lm_head.weight.data_ptr()]


def test_progress_counts_bytes_up_to_the_weights_and_is_not_chatty() -> None:
    reports: list[tuple[int, int | None, str]] = []
    plan = models.resolve(TINY, CPU_FACTS)
    models.load(plan, CPU, lambda done, total, what: reports.append((done, total, what)))
    done = [report[0] for report in reports]
    assert reports[0] == (0, plan.info.parameter_bytes, "random weights")
    assert done[-1] == plan.info.parameter_bytes
    assert done == sorted(done)
    assert 5 < len(reports) <= 52


# ----------------------------------------------------------------------------------------------------------- choices


@pytest.mark.parametrize(
    ("device", "dtype"),
    [
        (CPU_FACTS, "float32"),
        (gpu("9.0"), "bfloat16"),
        (gpu("8.0"), "bfloat16"),
        (gpu("7.5"), "float16"),
        (gpu(None), "bfloat16"),
    ],
)
def test_automatic_dtype_follows_the_device(device: DeviceInfo, dtype: str) -> None:
    assert models.resolve(TINY, device).info.dtype == dtype


def test_a_chosen_dtype_wins() -> None:
    assert models.resolve(RunSettings(model="tiny", dtype="float16"), CPU_FACTS).info.dtype == "float16"


@pytest.mark.parametrize(
    ("own", "device", "dtype"),
    [
        (torch.float16, gpu("9.0"), "float16"),
        (torch.float32, gpu("9.0"), "float32"),
        (torch.bfloat16, gpu("7.5"), "float16"),
        (torch.bfloat16, CPU_FACTS, "float32"),
    ],
)
def test_a_checkpoints_own_dtype_is_kept_where_the_card_has_it(
    tmp_path: Path, own: torch.dtype, device: DeviceInfo, dtype: str
) -> None:
    write_checkpoint(tmp_path, dtype=own, tokenizer=False)
    assert models.resolve(RunSettings(model=str(tmp_path), max_cache_len=64), device).info.dtype == dtype


@pytest.mark.parametrize(
    ("device", "name"),
    [
        (CPU_FACTS, "tiny"),
        (gpu(), "qwen3-4b"),
        (gpu(free_bytes=8 * GIB), "qwen3-1.7b"),
        (gpu(free_bytes=None), "qwen3-0.6b"),
    ],
)
def test_default_model_follows_the_device(device: DeviceInfo, name: str) -> None:
    assert models.resolve(RunSettings(), device).info.name == name


def test_qwen3_4b_is_announced_with_its_figures() -> None:
    info = models.resolve(RunSettings(model="qwen3-4b"), gpu()).info
    assert (info.parameters, info.parameter_bytes) == (4_022_468_096, 8_044_936_192)
    assert (info.layers, info.kv_heads, info.head_dim, info.vocab_size) == (36, 8, 128, 151_936)
    assert info.static_cache_bytes == 150_994_944


def test_a_cache_longer_than_the_models_positions_is_refused() -> None:
    with pytest.raises(SettingsError, match="40960 or less"):
        models.resolve(RunSettings(model="tiny", max_cache_len=50_000), CPU_FACTS)


# ------------------------------------------------------------------------------------------------------------- state


def test_a_model_in_train_mode_is_refused_and_named() -> None:
    model = make_model(small_qwen3())
    model.train()
    with pytest.raises(EngineError, match="Qwen3ForCausalLM is in train mode") as refusal:
        models.check_model_state(model)
    assert refusal.value.kind == "model_state"


def test_active_dropout_inside_a_model_in_eval_mode_is_refused_and_named() -> None:
    model = make_model(GPT2Config(vocab_size=64, n_positions=32, n_embd=16, n_layer=1, n_head=2))
    models.check_model_state(model)
    model.get_submodule("transformer.h.0.mlp.dropout").train()
    with pytest.raises(EngineError, match=r"transformer\.h\.0\.mlp\.dropout dropout is active"):
        models.check_model_state(model)


def test_plain_attention_may_be_captured() -> None:
    assert models.graph_refusal(make_model(small_qwen3())) is None


def test_sliding_window_layers_may_not_be_captured() -> None:
    config = small_qwen3(num_hidden_layers=3, use_sliding_window=True, sliding_window=8, max_window_layers=1)
    assert "2 layers (the first is 1) keep a sliding window" in (models.graph_refusal(make_model(config)) or "")


def test_a_rotary_embedding_that_looks_at_the_position_may_not_be_captured() -> None:
    config = LlamaConfig(
        vocab_size=64,
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        rope_parameters={"rope_type": "dynamic", "factor": 2.0, "rope_theta": 10_000.0},
    )
    assert "rotary embedding (dynamic)" in (models.graph_refusal(make_model(config)) or "")


def test_the_cache_is_passed_by_the_name_that_forward_has() -> None:
    model = make_model(small_qwen3())
    cache = StaticCache(config=model.config, max_cache_len=8)
    with torch.no_grad():
        model(torch.zeros(1, 3, dtype=torch.int64), **models.forward_kwargs(model, cache))
    assert int(cache.get_seq_length()) == 3


def test_an_older_forward_gets_past_key_values() -> None:
    class Older:
        def forward(self, input_ids: object, past_key_values: object = None) -> None: ...

    cache = DynamicCache()
    assert models.forward_kwargs(Older(), cache) == {"past_key_values": cache}  # type: ignore[arg-type]


def test_an_unknown_attention_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(SettingsError, match=r"one of .*sdpa.*, not 'junk'"):
        models.resolve(RunSettings(model="tiny", attention="junk"), DeviceInfo(kind="cpu", name="CPU"))
