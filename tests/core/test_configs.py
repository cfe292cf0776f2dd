"""Models read without torch, against what transformers makes of the same files."""

import json
import math
import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from cgtop.core import sizing
from cgtop.core.configs import FAMILIES, ConfigError, kv_shape_of, model_facts
from cgtop.core.engine.models import _kv_shape
from cgtop.core.settings import SettingsError
from cgtop.core.tensor_files import read_header
from tests.checkpoint_maker import small_qwen3, write_checkpoint

SHAPE = {
    "num_hidden_layers": 7,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "vocab_size": 300,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}
VARIANTS: tuple[dict[str, object], ...] = (
    {},
    {"sliding_window": 5, "use_sliding_window": True, "max_window_layers": 2},
    {"tie_word_embeddings": True},
)


@pytest.mark.parametrize("variant", range(len(VARIANTS)))
@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_is_read_as_transformers_reads_it(family: str, variant: int, tmp_path: Path) -> None:
    config = AutoConfig.for_model(family, **SHAPE, **VARIANTS[variant])
    config.save_pretrained(tmp_path)
    fields = json.loads((tmp_path / "config.json").read_text())
    assert kv_shape_of(fields) == _kv_shape(family, config)
    without_types = {name: value for name, value in fields.items() if name != "layer_types"}
    assert kv_shape_of(without_types) == _kv_shape(family, config)
    if FAMILIES[family].weights is None:
        with pytest.raises(ConfigError, match="checkpoint folder"):
            model_facts(str(tmp_path / "config.json"))
        return
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)  # type: ignore[no-untyped-call]
    facts = model_facts(str(tmp_path / "config.json"), "float16")
    assert facts.parameters == sum(parameter.numel() for parameter in model.parameters())
    assert facts.weight_bytes == 2 * facts.parameters


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("shards", [None, "20KB"])
def test_headers_of_a_checkpoint_give_its_weights_exactly(tmp_path: Path, tied: bool, shards: str | None) -> None:
    config = small_qwen3(tie_word_embeddings=tied)
    model = write_checkpoint(tmp_path, config=config, dtype=torch.bfloat16, tokenizer=False, shard_size=shards)
    facts = model_facts(str(tmp_path))
    assert (facts.source, facts.dtype, facts.name) == ("checkpoint", "bfloat16", tmp_path.name)
    assert facts.weight_bytes == sum(parameter.nbytes for parameter in model.parameters())
    assert facts.kv == _kv_shape("small", config)
    assert model_facts(str(tmp_path), "float32").weight_bytes == 2 * facts.weight_bytes


def test_a_tied_table_that_is_stored_twice_counts_once(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, config=small_qwen3(tie_word_embeddings=False), tokenizer=False)
    config = json.loads((tmp_path / "config.json").read_text())
    untied = model_facts(str(tmp_path)).parameters
    (tmp_path / "config.json").write_text(json.dumps({**config, "tie_word_embeddings": True}))
    assert untied - model_facts(str(tmp_path)).parameters == 272 * 32


def test_presets_are_their_closed_forms() -> None:
    facts = model_facts("qwen3-4b")
    assert (facts.parameters, facts.weight_bytes, facts.buffer_bytes) == (4_022_468_096, 8_044_936_192, 512)
    assert sizing.static_cache_bytes(facts.kv, batch_size=1, max_cache_len=1024, dtype=facts.dtype) == 150_994_944


def test_a_sliding_window_bounds_the_cache() -> None:
    kv = kv_shape_of({"model_type": "mistral", **SHAPE, "sliding_window": 100})
    size = sizing.static_cache_bytes(kv, batch_size=1, max_cache_len=1000, dtype="bfloat16")
    assert size == 7 * 2 * 2 * 100 * 16 * 2


def test_a_downloaded_qwen_config_does_not_slide() -> None:
    fields = {**SHAPE, "model_type": "qwen3", "sliding_window": 4096, "use_sliding_window": False}
    assert kv_shape_of(fields).sliding_windows == ()
    assert kv_shape_of({**fields, "model_type": "qwen3_moe"}).sliding_windows == ()


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"model_type": "mamba2"}, "mamba2 is not supported"),
        ({}, "model_type"),
        ({"model_type": "llama"}, "num_hidden_layers"),
        ({"model_type": "llama", **SHAPE, "kv_lora_rank": 64}, "latent"),
        ({"model_type": "qwen3", **SHAPE, "quantization_config": {"bits": 4}}, "quantised"),
        ({"model_type": "qwen3", **SHAPE, "num_attention_heads": 0}, "num_attention_heads"),
        ({"model_type": "qwen3", **SHAPE, "num_attention_heads": 10**400}, "num_attention_heads .* more than"),
        ({"model_type": "qwen3", **SHAPE, "vocab_size": 10**4000}, "vocab_size .* more than"),
        ({"model_type": "mistral", **SHAPE, "num_hidden_layers": 10**9, "sliding_window": 8}, "hidden_layers .* more"),
        ({"model_type": "gpt_oss", **SHAPE, "sliding_window": 8, "layer_types": ["linear_attention"] * 7}, "linear"),
        ({"model_type": "gpt_oss", **SHAPE, "sliding_window": 8, "layer_types": ["full_attention"]}, "layer_types"),
    ],
)
def test_what_cannot_be_planned_for_says_why(tmp_path: Path, fields: dict[str, object], said: str) -> None:
    write_header(tmp_path / "model.safetensors", {"w": {"dtype": "BF16", "shape": [4], "data_offsets": [0, 8]}}, 8)
    (tmp_path / "config.json").write_text(json.dumps(fields))
    with pytest.raises(ConfigError, match=said):
        model_facts(str(tmp_path))


@pytest.mark.parametrize("text", ["", "[]", "{", "[" * 100_000, "null", "\x00"])
def test_a_config_that_is_none_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(ConfigError):
        model_facts(str(tmp_path / "config.json"))


@pytest.mark.parametrize("model", ["no/such", "Qwen/Qwen3-4B", ""])
def test_what_is_no_file_is_refused_and_nothing_is_downloaded(model: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"downloads nothing|config\.json"):
        model_facts(model)


def write_header(path: Path, header: object, data: int) -> None:
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + bytes(data))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"version https://git-lfs.github.com/spec/v1\n", "LFS"),
        (b"", "cut short"),
        (b"\xff" * 8, "cut short"),
        (struct.pack("<Q", 2) + b"[]", "no safetensors"),
        (struct.pack("<Q", 4) + b"nope", "no safetensors"),
    ],
)
def test_a_weight_file_that_is_none_is_refused(tmp_path: Path, content: bytes, said: str) -> None:
    (tmp_path / "model.safetensors").write_bytes(content)
    with pytest.raises(SettingsError, match=said):
        read_header(tmp_path / "model.safetensors")


@pytest.mark.parametrize(
    ("shape", "place"),
    [
        ([-1000], [0, 4]),
        ([10**12], [0, 4]),
        ([10**300] * 40, [0, 4]),
        ([2], [4, 0]),
        ([2], [0, 4.0]),
        ([math.inf], [0, 4]),
        ([2], [0, math.inf]),
        ([math.nan], [0, 4]),
        ([True, 2], [0, 4]),
        ("2", [0, 4]),
        ([1] * 10_000, [0, 2]),
        ([2], [0, 4, 8]),
    ],
)
def test_a_header_that_says_another_size_than_the_file_has_is_refused(
    tmp_path: Path, shape: object, place: object
) -> None:
    write_header(tmp_path / "model.safetensors", {"w": {"dtype": "BF16", "shape": shape, "data_offsets": place}}, 4)
    with pytest.raises(SettingsError, match="no safetensors file"):
        read_header(tmp_path / "model.safetensors")


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
@pytest.mark.timeout(20)
def test_a_pipe_in_a_folder_is_not_waited_for(tmp_path: Path, name: str) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "qwen3", **SHAPE}))
    (tmp_path / name).unlink(missing_ok=True)
    os.mkfifo(tmp_path / name)
    with pytest.raises(SettingsError, match=f"{name} is no file"):
        model_facts(str(tmp_path))


@pytest.mark.parametrize(
    ("index", "said"), [("[" * 200_000, "cannot be read"), ({"weight_map": {"w": "x" * 5000}}, "are missing")]
)
def test_an_index_of_any_content_is_an_index_or_refused(tmp_path: Path, index: object, said: str) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "qwen3", **SHAPE}))
    text = index if isinstance(index, str) else json.dumps(index)
    (tmp_path / "model.safetensors.index.json").write_text(text)
    with pytest.raises(SettingsError, match=said):
        model_facts(str(tmp_path))


def test_cut_off_quantised_and_missing_weights_are_refused(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, tokenizer=False, shard_size="20KB")
    shard = sorted(tmp_path.glob("*.safetensors"))[0]
    whole = shard.read_bytes()
    shard.write_bytes(whole[:-4])
    with pytest.raises(SettingsError, match="cut short"):
        model_facts(str(tmp_path))
    shard.unlink()
    with pytest.raises(SettingsError, match="missing"):
        model_facts(str(tmp_path))
    write_header(shard, {"w": {"dtype": "I8", "shape": [4], "data_offsets": [0, 4]}}, 4)
    with pytest.raises(SettingsError, match="I8"):
        model_facts(str(tmp_path))


def test_none_of_it_imports_torch() -> None:
    code = "import sys, cgtop.core.planner, cgtop.core.bundled, cgtop.core.claims; print('torch' in sys.modules)"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=240)
    assert shown.stdout.strip() == "False"
