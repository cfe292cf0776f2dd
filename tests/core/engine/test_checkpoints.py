"""The loading of checkpoints that are whole, and what is said of those that are not."""

import json
import os
from pathlib import Path

import huggingface_hub.constants
import pytest
import torch
import transformers.dynamic_module_utils
from safetensors.torch import load_file, save_file
from transformers import BertConfig, MambaConfig, T5Config, ViTConfig
from transformers.utils import logging

from cgtop.core.engine import checkpoints, models
from cgtop.core.engine.failures import EngineError
from cgtop.core.events import DeviceInfo
from cgtop.core.settings import RunSettings, SettingsError
from tests.checkpoint_maker import small_qwen3, write_checkpoint

pytestmark = pytest.mark.filterwarnings("error::FutureWarning")

CPU = torch.device("cpu")
CPU_FACTS = DeviceInfo(kind="cpu", name="a CPU")
Reports = list[tuple[int, int | None, str]]


def settings(source: Path | str, *, prompt: str | None = None, trust_remote_code: bool = False) -> RunSettings:
    return RunSettings(
        model=str(source), prompt=prompt, max_cache_len=64, trust_remote_code=trust_remote_code
    ).validated()


def load(source: Path, *, prompt: str | None = None) -> models.LoadedModel:
    plan = models.resolve(settings(source, prompt=prompt), CPU_FACTS)
    return models.load(plan, CPU, lambda done, total, what: None)


def refusal(source: Path | str, *, prompt: str | None = None) -> EngineError:
    with pytest.raises(EngineError) as error:
        models.resolve(settings(source, prompt=prompt), CPU_FACTS)
    assert error.value.hint
    if isinstance(source, Path):
        assert str(source.parent) not in error.value.headline + error.value.hint
    return error.value


def edit_config(folder: Path, **changes: object) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


# ------------------------------------------------------------------------------------------------------------- whole


@pytest.mark.parametrize("shard_size", [None, "20KB"])
def test_loaded_weights_are_those_that_were_written(tmp_path: Path, shard_size: str | None) -> None:
    written = write_checkpoint(tmp_path, shard_size=shard_size)
    assert (len(list(tmp_path.glob("*.safetensors"))) > 1) == (shard_size is not None)
    loaded = load(tmp_path)
    for (name, old), (same_name, new) in zip(written.named_parameters(), loaded.model.named_parameters(), strict=True):
        assert name == same_name
        assert torch.equal(old, new)
    assert not loaded.model.training
    assert not any(parameter.requires_grad for parameter in loaded.model.parameters())
    assert loaded.info.parameters == sum(parameter.numel() for parameter in written.parameters())
    assert (loaded.info.source, loaded.info.name) == ("checkpoint", tmp_path.name)


def test_a_loaded_model_computes_what_the_written_one_does(tmp_path: Path) -> None:
    written = write_checkpoint(tmp_path)
    loaded = load(tmp_path, prompt="the inn")
    ids = models.prompt_ids(loaded, settings(tmp_path, prompt="the inn"), CPU)
    with torch.no_grad():
        assert torch.equal(loaded.model(ids).logits, written(ids).logits)


def test_text_goes_through_the_checkpoints_tokenizer_and_back(tmp_path: Path) -> None:
    write_checkpoint(tmp_path)
    loaded = load(tmp_path, prompt="the ünïcode in a 🎉")
    assert loaded.info.has_tokenizer
    assert loaded.tokenizer is not None
    ids = models.prompt_ids(loaded, settings(tmp_path, prompt="the ünïcode in a 🎉"), CPU)
    assert models.Detokenizer(loaded.tokenizer).push(ids[0].tolist()) == "the ünïcode in a 🎉"


def test_a_checkpoint_in_another_dtype_is_converted(tmp_path: Path) -> None:
    written = write_checkpoint(tmp_path, dtype=torch.bfloat16)
    loaded = load(tmp_path)
    assert loaded.info.dtype == "float32"
    assert torch.equal(loaded.model.lm_head.weight, written.lm_head.weight.float())


def test_progress_reaches_the_weights_bytes_and_the_hook_is_taken_back(tmp_path: Path) -> None:
    write_checkpoint(tmp_path)
    reports: Reports = []
    plan = models.resolve(settings(tmp_path), CPU_FACTS)
    models.load(plan, CPU, lambda done, total, what: reports.append((done, total, what)))
    assert reports[0] == (0, plan.info.parameter_bytes, "reading weights")
    assert reports[-1][0] == plan.info.parameter_bytes
    assert len(reports) > 5
    assert logging.set_tqdm_hook(None) is None


def test_weights_are_moved_one_by_one_and_stay_tied(tmp_path: Path) -> None:
    write_checkpoint(tmp_path)
    checkpoint = checkpoints.describe(str(tmp_path), trust_remote_code=False)
    reports: Reports = []
    model = checkpoints.load_weights(
        checkpoint,
        dtype=torch.float32,
        attention="sdpa",
        device=torch.device("meta"),
        progress=lambda done, total, what: reports.append((done, total, what)),
    )
    assert all(tensor.is_meta for tensor in [*model.parameters(), *model.buffers()])
    assert model.lm_head.weight is model.model.embed_tokens.weight
    assert [name for name, _ in model.named_buffers()] == [
        "model.rotary_emb.inv_freq",
        "model.rotary_emb.original_inv_freq",
    ]
    assert reports[-1] == (reports[-1][1], reports[-1][1], "moving weights to the device")


def test_a_checkpoint_without_tokenizer_runs_without_a_prompt_text(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, tokenizer=False)
    assert load(tmp_path).tokenizer is None
    error = refusal(tmp_path, prompt="hello")
    assert "has no tokenizer" in error.headline
    assert "--prompt" in error.hint


# ------------------------------------------------------------------------------------------------------------ broken


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    error = refusal(tmp_path / "nowhere")
    assert error.kind == "checkpoint"
    assert error.headline == "The checkpoint folder nowhere does not exist"
    assert "qwen3-4b" in error.hint


def test_a_file_in_place_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "model.bin").write_bytes(b"")
    assert "is a file" in refusal(tmp_path / "model.bin").headline


def test_a_folder_without_configuration(tmp_path: Path) -> None:
    write_checkpoint(tmp_path)
    (tmp_path / "config.json").unlink()
    assert "has no config.json" in refusal(tmp_path).headline


def test_a_configuration_that_is_cut_short(tmp_path: Path) -> None:
    write_checkpoint(tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "qwen3", "hidd')
    assert refusal(tmp_path).kind == "checkpoint"


def test_a_folder_without_weights(tmp_path: Path) -> None:
    write_checkpoint(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    assert "has no weights" in refusal(tmp_path).headline


def test_a_missing_shard_is_named(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, shard_size="20KB")
    shards = sorted(tmp_path.glob("*.safetensors"))
    shards[1].unlink()
    error = refusal(tmp_path)
    assert f"1 of {len(shards)} weight files missing ({shards[1].name})" in error.headline


def test_an_index_that_is_cut_short(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, shard_size="20KB")
    index = tmp_path / "model.safetensors.index.json"
    index.write_bytes(index.read_bytes()[:50])
    assert "model.safetensors.index.json cannot be read" in refusal(tmp_path).headline


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (lambda whole: whole[:-100], "is cut short: "),
        (lambda whole: whole[:100], "is cut short"),
        (lambda whole: b"", "is empty"),
        (lambda whole: b"version https://git-lfs.github.com/spec/v1\n", "Git LFS pointer"),
        (lambda whole: (20).to_bytes(8, "little") + b"x" * 400, "no safetensors file"),
        (lambda whole: (2).to_bytes(8, "little") + b"[]" * 40, "no safetensors file"),
    ],
)
def test_a_damaged_weight_file_is_named(tmp_path: Path, content, what: str) -> None:  # type: ignore[no-untyped-def]
    write_checkpoint(tmp_path)
    path = tmp_path / "model.safetensors"
    path.write_bytes(content(path.read_bytes()))
    error = refusal(tmp_path)
    assert "half-written: model.safetensors" in error.headline
    assert what in error.headline


@pytest.mark.timeout(60)
def test_a_weight_file_that_is_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    write_checkpoint(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    os.mkfifo(tmp_path / "model.safetensors")
    assert "model.safetensors is no file" in refusal(tmp_path).headline


@pytest.mark.parametrize(
    ("index", "said"), [("[" * 200_000, "cannot be read"), ('{"weight_map":{"w":"' + "x" * 5000 + '"}}', "missing")]
)
def test_an_index_of_any_content_is_told_of(tmp_path: Path, index: str, said: str) -> None:
    write_checkpoint(tmp_path)
    (tmp_path / "model.safetensors.index.json").write_text(index)
    assert said in refusal(tmp_path).headline


@pytest.mark.parametrize("source", ["~nobody-of-that-name/model", "/" + "x" * 5000])
def test_a_name_that_cannot_be_a_path_is_a_folder_that_does_not_exist(source: str) -> None:
    assert "does not exist" in refusal(source).headline


def test_weights_that_lack_a_tensor_are_not_filled_up_with_random_ones(tmp_path: Path) -> None:
    write_checkpoint(tmp_path)
    path = tmp_path / "model.safetensors"
    tensors = load_file(path)
    del tensors["model.norm.weight"]
    save_file(tensors, path, metadata={"format": "pt"})
    with pytest.raises(EngineError, match=r"1 weights are missing, such as model\.norm\.weight") as error:
        load(tmp_path)
    assert error.value.kind == "checkpoint"


def test_weights_of_another_shape_are_refused(tmp_path: Path) -> None:
    write_checkpoint(tmp_path)
    edit_config(tmp_path, intermediate_size=40)
    with pytest.raises(EngineError, match="cannot be loaded") as error:
        load(tmp_path)
    assert error.value.kind == "checkpoint"


# --------------------------------------------------------------------------------------------------------- unsuitable


@pytest.mark.parametrize(
    ("config", "what"),
    [
        (ViTConfig(), "is no causal language model"),
        (T5Config(), "is an encoder-decoder model"),
        (BertConfig(hidden_size=32, num_hidden_layers=1, architectures=["BertForMaskedLM"]), "holds a BertForMaskedLM"),
        (MambaConfig(hidden_size=32, num_hidden_layers=1, vocab_size=64), "state other than plain keys and values"),
    ],
)
def test_a_model_that_cannot_decode_here_is_refused(tmp_path: Path, config, what: str) -> None:  # type: ignore[no-untyped-def]
    config.save_pretrained(tmp_path)
    save_file({"a": torch.zeros(1)}, tmp_path / "model.safetensors")
    error = refusal(tmp_path)
    assert error.kind == "checkpoint"
    assert what in error.headline


def test_a_class_that_transformers_does_not_know(tmp_path: Path) -> None:
    write_checkpoint(tmp_path)
    edit_config(tmp_path, model_type="of-the-future")
    error = refusal(tmp_path)
    assert "does not know" in error.headline
    assert "Update transformers" in error.hint


def test_quantised_weights_are_refused(tmp_path: Path) -> None:
    write_checkpoint(tmp_path)
    edit_config(tmp_path, quantization_config={"quant_method": "gptq", "bits": 4})
    assert "quantised" in refusal(tmp_path).headline


def test_an_attention_that_does_not_exist(tmp_path: Path) -> None:
    write_checkpoint(tmp_path)
    with pytest.raises(SettingsError, match="'no_such'"):
        models.resolve(RunSettings(model=str(tmp_path), max_cache_len=64, attention="no_such"), CPU_FACTS)


def test_an_unreachable_hub_is_said_to_be_unreachable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    error = refusal("somebody/some-model")
    assert error.kind == "checkpoint"
    assert error.headline == "The hub could not be reached for somebody/some-model"
    assert "folder" in error.hint


# -------------------------------------------------------------------------------------------------------- remote code

REMOTE_CONFIG = """
from pathlib import Path
from transformers import Qwen3Config
Path(__file__).with_name("ran").touch()
Path({marker!r}).touch()
class MineConfig(Qwen3Config):
    model_type = "mine"
"""
REMOTE_MODEL = """
from transformers import Qwen3ForCausalLM
from .configuration_mine import MineConfig
class MineForCausalLM(Qwen3ForCausalLM):
    config_class = MineConfig
"""


@pytest.fixture
def remote(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkpoint whose classes are in its own folder; importing them leaves `tmp_path / "ran"`."""
    monkeypatch.setattr(transformers.dynamic_module_utils, "HF_MODULES_CACHE", str(tmp_path / "modules"))
    folder = tmp_path / "remote"
    write_checkpoint(folder, config=small_qwen3())
    edit_config(
        folder,
        model_type="mine",
        architectures=["MineForCausalLM"],
        auto_map={
            "AutoConfig": "configuration_mine.MineConfig",
            "AutoModelForCausalLM": "modeling_mine.MineForCausalLM",
        },
    )
    (folder / "configuration_mine.py").write_text(REMOTE_CONFIG.format(marker=str(tmp_path / "ran")))
    (folder / "modeling_mine.py").write_text(REMOTE_MODEL)
    return folder


def test_code_in_a_checkpoint_does_not_run_unasked(remote: Path) -> None:
    error = refusal(remote)
    assert error.kind == "remote_code"
    assert "--trust-remote-code" in error.hint
    assert not (remote.parent / "ran").exists()


def test_code_in_a_checkpoint_runs_when_asked_for(remote: Path) -> None:
    plan = models.resolve(settings(remote, trust_remote_code=True), CPU_FACTS)
    loaded = models.load(plan, CPU, lambda done, total, what: None)
    assert type(loaded.model).__name__ == "MineForCausalLM"
    assert (remote.parent / "ran").exists()
