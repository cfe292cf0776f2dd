"""Checkpoints of other people: what is wrong with one is said before, or instead of, a library's traceback."""

import contextlib
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple, cast

import torch
from transformers import (
    MODEL_FOR_CAUSAL_LM_MAPPING,
    AutoConfig,
    AutoModelForCausalLM,
    AutoTokenizer,
    PreTrainedConfig,
    PreTrainedModel,
)
from transformers import PreTrainedTokenizerBase as Tokenizer
from transformers.utils import logging as transformers_logging

from ..paths import full_path, given_path, is_file, is_folder, is_there
from ..settings import PRESET_NAMES
from ..tensor_files import TensorFileError, read_header, shard_names
from .failures import EngineError
from .placement import ProgressFunction, Reporter, parameter_bytes, replace_tensors

TOKENIZER_FILES = ("tokenizer.json", "tokenizer.model", "tokenizer_config.json", "vocab.json", "spiece.model")
PRESETS_HINT = f"The presets need no files: {', '.join(PRESET_NAMES)}."
CAUSAL_LM = ("ForCausalLM", "LMHeadModel", "ForConditionalGeneration")


class Checkpoint(NamedTuple):
    """A checkpoint whose configuration has been read, and nothing else."""

    source: str
    """The folder, or the hub id."""
    name: str
    """For the screen: the folder's own name, or the hub id."""
    config: PreTrainedConfig
    tokenizer: Tokenizer | None
    trust_remote_code: bool


def describe(source: str, *, trust_remote_code: bool) -> Checkpoint:
    """Read a checkpoint's configuration and tokenizer; a folder's weight files are checked, not read.

    Raises `EngineError` of kind "checkpoint" for one that is missing, half-written, quantised or of no use here, and of
    kind "remote_code" for one that needs code of its own without leave to run it.
    """
    folder = given_path(source)
    in_folder = is_folder(folder)
    if in_folder:
        source = str(folder)
        check_folder(folder)
    elif is_there(folder) or _looks_like_a_path(source):
        state = "is a file, not a checkpoint folder" if is_there(folder) else "does not exist"
        raise _broken(f"The checkpoint folder {folder.name} {state}", f"Check the path. {PRESETS_HINT}")
    name = full_path(folder).name if in_folder else source
    with _explained(name, source):
        config = AutoConfig.from_pretrained(source, trust_remote_code=trust_remote_code)
    if getattr(config, "quantization_config", None) is not None:
        raise _broken(f"{name} has quantised weights", "cgtop measures bf16, fp16 and fp32 weights: use those.")
    _check_class(name, config)
    tokenizer = None
    if not in_folder or any(is_file(folder / file) for file in TOKENIZER_FILES):
        tokenizer = _tokenizer(source, trust_remote_code)
    return Checkpoint(source, name, config, tokenizer, trust_remote_code)


def skeleton(checkpoint: Checkpoint, *, dtype: torch.dtype, attention: str) -> PreTrainedModel:
    """The model without memory (meta tensors), to count what loading will need.

    Raises `EngineError` for a configuration that makes no model, or an attention that the model does not have.
    """
    with _explained(checkpoint.name, checkpoint.source), torch.device("meta"):
        model: PreTrainedModel = AutoModelForCausalLM.from_config(  # type: ignore[no-untyped-call]
            checkpoint.config,
            dtype=dtype,
            attn_implementation=attention,
            trust_remote_code=checkpoint.trust_remote_code,
        )
    return model


def load_weights(
    checkpoint: Checkpoint, *, dtype: torch.dtype, attention: str, device: torch.device, progress: ProgressFunction
) -> PreTrainedModel:
    """The model with its weights on `device`.

    Weights are read into host memory and then moved one by one: transformers' own loading onto a device needs a further
    package, and works from threads of its own. Raises `EngineError` as `describe` does, and for missing weights.
    """
    total = parameter_bytes(skeleton(checkpoint, dtype=dtype, attention=attention))
    counting = _counting(Reporter(progress, total, "reading weights"), total)
    with _explained(checkpoint.name, checkpoint.source), counting:
        loaded = AutoModelForCausalLM.from_pretrained(
            checkpoint.source,
            config=checkpoint.config,
            dtype=dtype,
            attn_implementation=attention,
            trust_remote_code=checkpoint.trust_remote_code,
            output_loading_info=True,
        )
    model, info = cast("tuple[PreTrainedModel, dict[str, set[str]]]", loaded)
    missing = sorted(info["missing_keys"])
    if missing:
        raise _broken(
            f"{checkpoint.name} is incomplete: {len(missing)} weights are missing, such as {missing[0]}",
            "Download or save the checkpoint again.",
        )
    if device.type != "cpu":
        reporter = Reporter(progress, total, "moving weights to the device")
        with torch.no_grad():
            replace_tensors(model, lambda tensor: tensor.to(device), lambda _, size: reporter.add(size))
    return model


def check_folder(folder: Path) -> None:
    """Raises `EngineError` for a folder without configuration or weights, or with weight files that are cut short."""
    again = "Download or save the checkpoint again."
    if not (folder / "config.json").is_file():
        raise _broken(f"{folder.name} has no config.json", f"Is it a checkpoint folder? {again}")
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        files = _shards(index)
        missing = [name for name in files if not is_file(folder / name)]
        if missing:
            raise _broken(
                f"{folder.name} is half-written: {len(missing)} of {len(files)} weight files missing ({missing[0]})",
                again,
            )
    else:
        files = sorted(path.name for path in folder.glob("*.safetensors"))
    for name in files:
        problem = _safetensors_problem(folder / name)
        if problem:
            raise _broken(f"{folder.name} is half-written: {name} {problem}", again)
    if not files and not any(folder.glob("*.bin")):
        raise _broken(f"{folder.name} has no weights (*.safetensors)", again)


def _check_class(name: str, config: PreTrainedConfig) -> None:
    only = "cgtop decodes causal language models only."
    if getattr(config, "is_encoder_decoder", False):
        raise _broken(f"{name} is an encoder-decoder model", only)
    if "AutoModelForCausalLM" in (getattr(config, "auto_map", None) or {}):
        return
    if type(config) not in MODEL_FOR_CAUSAL_LM_MAPPING:
        raise _broken(f"{name} is no causal language model ({config.model_type})", only)
    written_as = list(config.architectures or ())
    if written_as and not any(architecture.endswith(CAUSAL_LM) for architecture in written_as):
        raise _broken(f"{name} holds a {written_as[0]}, which is no causal language model", only)


def _shards(index: Path) -> list[str]:
    try:
        return shard_names(index)
    except TensorFileError as error:
        raise _broken(
            f"{index.parent.name} is half-written: {index.name} cannot be read",
            "Download or save the checkpoint again.",
        ) from error


def _safetensors_problem(path: Path) -> str | None:
    """What is wrong with a file by its header."""
    try:
        read_header(path)
    except TensorFileError as error:
        return str(error).removeprefix(f"{path.name} ")
    return None


def _tokenizer(source: str, trust_remote_code: bool) -> Tokenizer | None:
    """The tokenizer, or None: a model can be measured without one."""
    try:
        tokenizer: Tokenizer = AutoTokenizer.from_pretrained(source, trust_remote_code=trust_remote_code)
    except Exception:
        return None
    return tokenizer


def _looks_like_a_path(source: str) -> bool:
    return source.startswith(("/", "./", "../", "~")) or source in (".", "..") or source.count("/") > 1


def _broken(headline: str, hint: str) -> EngineError:
    return EngineError("checkpoint", headline, hint)


@contextlib.contextmanager
def _counting(reporter: Reporter, total: int) -> Iterator[None]:
    """Report transformers' own progress bar over the weights, as a share of `total` bytes."""

    def hook(factory: object, args: tuple[object, ...], kwargs: dict[str, object]) -> object:
        items = args[0] if args else None
        if kwargs.get("desc") != "Loading weights" or not isinstance(items, Iterable) or not callable(factory):
            return factory(*args, **kwargs) if callable(factory) else None
        return _each(list(items), reporter, total)

    previous = transformers_logging.set_tqdm_hook(hook)
    try:
        yield
    finally:
        transformers_logging.set_tqdm_hook(previous)


def _each(items: list[object], reporter: Reporter, total: int) -> Iterator[object]:
    for number, item in enumerate(items):
        yield item
        reporter.add((number + 1) * total // len(items) - number * total // len(items))


@contextlib.contextmanager
def _explained(name: str, source: str) -> Iterator[None]:
    """Turn what the libraries raise over a checkpoint into an `EngineError`; running out of memory passes through.

    A folder's path in their messages becomes its name: recordings carry no paths.
    """
    try:
        yield
    except (EngineError, torch.OutOfMemoryError, MemoryError):
        raise
    except Exception as error:
        raise _explanation(name, error, str(error).replace(source, name)) from error


def _explanation(name: str, error: Exception, text: str) -> EngineError:
    first = next((line.strip() for line in text.splitlines() if line.strip()), type(error).__name__)[:200]
    if "trust_remote_code" in text:
        return EngineError(
            "remote_code",
            f"{name} brings Python code of its own, which has not been run",
            "Read that code first; --trust-remote-code then runs it.",
        )
    if isinstance(error, ImportError):
        return EngineError("missing_package", f"{name} needs a package that is not installed", first)
    if re.search(r"couldn't connect|offline mode|LocalEntryNotFound|Connection|timed out", text):
        return _broken(f"The hub could not be reached for {name}", f"Give a checkpoint folder instead. {PRESETS_HINT}")
    if "gated repo" in text or "401 Client" in text or "403 Client" in text:
        return _broken(f"The hub does not give {name} without a login", "Log in with `hf auth login`, or use a folder.")
    if "valid model identifier" in text or "Repo id must" in text or "404 Client" in text:
        return _broken(f"There is no checkpoint {name}", f"Neither a folder nor a hub id. {PRESETS_HINT}")
    if "does not recognize this architecture" in text or "Unrecognized model" in text:
        return _broken(f"{name} is of a class that this transformers does not know", "Update transformers. " + first)
    if "attn_implementation" in text or "does not support an attention" in text or "scaled_dot_product" in text:
        return EngineError("settings", f"{name} does not have the attention asked for", first)
    return _broken(f"{name} cannot be loaded: {first}", "Download or save the checkpoint again.")
