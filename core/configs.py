"""Models as their files describe them, without torch: a preset, a `config.json`, or a checkpoint folder.

A configuration gives the shape of the KV cache, and the weights by a closed form where the architecture has one here;
a folder's safetensors headers give the weights exactly, whatever the architecture.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import msgspec

from .paths import full_path, given_path, is_file, is_folder, is_there
from .presets import PRESETS
from .settings import PRESET_NAMES, SettingsError
from .sizing import DTYPE_BYTES, KvShape, buffer_bytes, kv_shape, parameter_count
from .tensor_files import read_parameter_count

Fields = Mapping[str, object]
CONFIG_BYTES_MAX = 16 << 20
INTEGER_MAX = 1 << 32
"""Of a size in a configuration, and more than any model has."""
LAYERS_MAX = 10_000


class ConfigError(SettingsError):
    """A model that cannot be planned for; the message says why, and what could be."""


class ModelFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What a plan needs of a model. Nothing here was allocated or measured."""

    name: str
    source: Literal["preset", "config", "checkpoint"]
    dtype: str
    parameters: int
    """Tied ones once."""
    weight_bytes: int
    """All parameters in `dtype`."""
    weights_from: str
    """How the weights are known, for the reader."""
    buffer_bytes: int | None = None
    """Null where only the loaded model could tell."""
    kv: KvShape
    heads: int
    vocab_size: int
    max_positions: int | None = None


class _Family(msgspec.Struct, frozen=True):
    """An architecture of transformers whose layers keep plain keys and values.

    `window`: which layers slide where `layer_types` does not say. `weights`: whether `_parameters` knows it.
    """

    window: Literal["all", "upper", "pattern"] = "all"
    weights: Literal["llama", "qwen2", "qwen3"] | None = None
    pattern: int = 2
    """Of "pattern": every so-manieth layer attends to everything."""
    head_dim: int | None = None
    """Where the file names none; null: hidden size over heads."""


FAMILIES: dict[str, _Family] = {
    "cohere2": _Family("pattern", pattern=4),
    "gemma": _Family(head_dim=256),
    "gemma2": _Family("pattern", head_dim=256),
    "gemma3_text": _Family("pattern", pattern=6, head_dim=256),
    "gpt_oss": _Family("pattern", head_dim=64),
    "llama": _Family(weights="llama"),
    "ministral": _Family(),
    "mistral": _Family(weights="llama"),
    "mixtral": _Family(),
    "olmo2": _Family(),
    "phi3": _Family(),
    "qwen2": _Family("upper", weights="qwen2"),
    "qwen3": _Family("upper", weights="qwen3", head_dim=128),
    "qwen3_moe": _Family(),
}
"""`model_type` -> what its configuration means; source: `configuration_*.py` of transformers."""


def model_facts(model: str, dtype: str = "auto") -> ModelFacts:
    """Facts of a preset, a `config.json` or a checkpoint folder, in `dtype` ("auto": the model's own, else bfloat16).

    Raises `ConfigError` for what is none of these, cannot be read, or is an architecture that is not supported.
    """
    if model in PRESETS:
        return _preset_facts(model, "bfloat16" if dtype == "auto" else dtype)
    path = given_path(model)
    if is_folder(path):
        return _folder_facts(path, dtype)
    if is_file(path):
        return _config_facts(full_path(path).parent.name or path.name, _read(path), dtype)
    raise ConfigError(
        f"{path.name or model} is neither a preset ({', '.join(PRESET_NAMES)}), a config.json nor a checkpoint folder; "
        "a plan downloads nothing"
    )


def kv_shape_of(config: Fields) -> KvShape:
    """The KV shape that a configuration describes. Raises `ConfigError` for an architecture that is not supported."""
    kind, family = _family(config)
    if config.get("kv_lora_rank") is not None:
        raise ConfigError(f"{kind} keeps compressed keys and values (multi-head latent attention): not supported")
    layers, heads = _integer(config, "num_hidden_layers", most=LAYERS_MAX), _integer(config, "num_attention_heads")
    default_dim = family.head_dim or max(1, _integer(config, "hidden_size") // heads)
    return KvShape(
        layers=layers,
        kv_heads=_integer(config, "num_key_value_heads", heads),
        head_dim=_integer(config, "head_dim", default_dim),
        sliding_windows=_windows(config, family, layers),
    )


def _preset_facts(name: str, dtype: str) -> ModelFacts:
    shape = PRESETS[name]
    parameters = parameter_count(shape)
    return ModelFacts(
        name=name,
        source="preset",
        dtype=dtype,
        parameters=parameters,
        weight_bytes=parameters * DTYPE_BYTES[dtype],
        weights_from="closed form of the architecture",
        buffer_bytes=buffer_bytes(shape),
        kv=kv_shape(shape),
        heads=shape.heads,
        vocab_size=shape.vocab_size,
        max_positions=shape.max_positions,
    )


def _config_facts(name: str, config: Fields, dtype: str) -> ModelFacts:
    kind, family = _family(config)
    if family.weights is None:
        raise ConfigError(
            f"the configuration of a {kind} gives its cache but not its weights here: "
            "name the checkpoint folder, whose safetensors headers do"
        )
    parameters = _parameters(config, family)
    return _facts(name, "config", config, dtype, parameters, "closed form of the architecture")


def _folder_facts(folder: Path, dtype: str) -> ModelFacts:
    name = full_path(folder).name
    config = _read(folder / "config.json")
    tied = config.get("tie_word_embeddings") is True
    parameters = read_parameter_count(folder, tied=tied)
    if parameters is None:
        return _config_facts(name, config, dtype)
    return _facts(name, "checkpoint", config, dtype, parameters, "safetensors headers")


def _facts(
    name: str,
    source: Literal["config", "checkpoint"],
    config: Fields,
    dtype: str,
    parameters: int,
    weights_from: str,
) -> ModelFacts:
    if config.get("quantization_config") is not None:
        raise ConfigError(f"{name} has quantised weights: a plan is for bf16, fp16 and fp32 weights")
    kv = kv_shape_of(config)
    chosen = dtype if dtype != "auto" else _own_dtype(config)
    positions = config.get("max_position_embeddings")
    return ModelFacts(
        name=name,
        source=source,
        dtype=chosen,
        parameters=parameters,
        weight_bytes=parameters * DTYPE_BYTES[chosen],
        weights_from=weights_from,
        kv=kv,
        heads=_integer(config, "num_attention_heads"),
        vocab_size=_integer(config, "vocab_size"),
        max_positions=positions if isinstance(positions, int) and positions > 0 else None,
    )


def _read(path: Path) -> Fields:
    if is_there(path) and not is_file(path):  # a pipe could be waited for without end
        raise ConfigError(f"{path.name} is no file")
    try:
        with path.open("rb") as file:
            config = json.loads(file.read(CONFIG_BYTES_MAX))
    except FileNotFoundError as error:
        raise ConfigError(f"{full_path(path.parent).name} has no config.json: is it a checkpoint folder?") from error
    except OSError as error:
        raise ConfigError(f"{path.name} cannot be read: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path.name} is not JSON") from error
    if not isinstance(config, dict):
        raise ConfigError(f"{path.name} is no model configuration")
    return config


def _family(config: Fields) -> tuple[str, _Family]:
    kind = config.get("model_type")
    if not isinstance(kind, str):
        raise ConfigError("no model_type in the configuration: it is none of a transformers model")
    family = FAMILIES.get(kind)
    if family is None:
        raise ConfigError(f"architecture {kind[:60]} is not supported by plan; these are: {', '.join(FAMILIES)}")
    return kind, family


def _windows(config: Fields, family: _Family, layers: int) -> tuple[int, ...]:
    """Tokens that each sliding layer keeps."""
    window = config.get("sliding_window")
    if not isinstance(window, int) or window <= 0:
        return ()
    if config.get("use_sliding_window", family.window != "upper") is False:
        return ()
    kinds = config.get("layer_types")
    if isinstance(kinds, list):
        return (window,) * _counted_kinds(kinds, layers)
    match family.window:
        case "all":
            return (window,) * layers
        case "upper":
            return (window,) * max(0, layers - _integer(config, "max_window_layers", 28))
        case "pattern":
            pattern = _integer(config, "sliding_window_pattern", family.pattern)
            return (window,) * (layers - layers // pattern)


def _counted_kinds(kinds: list[object], layers: int) -> int:
    """How many of the named layers slide."""
    if len(kinds) != layers:
        raise ConfigError(f"layer_types names {len(kinds)} layers, num_hidden_layers {layers}")
    other = sorted({str(kind)[:40] for kind in kinds} - {"full_attention", "sliding_attention"})
    if other:
        raise ConfigError(f"layers of kind {other[0]} keep something other than keys and values: not supported")
    return kinds.count("sliding_attention")


def _parameters(config: Fields, family: _Family) -> int:
    """Parameters by closed form. Source: `modeling_llama.py`, `modeling_qwen2.py`, `modeling_qwen3.py`."""
    kv, heads = kv_shape_of(config), _integer(config, "num_attention_heads")
    hidden, inner = _integer(config, "hidden_size"), _integer(config, "intermediate_size")
    query, key = heads * kv.head_dim, kv.kv_heads * kv.head_dim
    attention = hidden * query + 2 * hidden * key + query * hidden
    if family.weights == "qwen2":
        attention += query + 2 * key
    elif config.get("attention_bias") is True:
        attention += query + 2 * key + hidden
    if family.weights == "qwen3":
        attention += 2 * kv.head_dim
    mlp = 3 * hidden * inner + (2 * inner + hidden if config.get("mlp_bias") is True else 0)
    tables = 1 if config.get("tie_word_embeddings") is True else 2
    vocabulary = _integer(config, "vocab_size") * hidden
    return kv.layers * (attention + mlp + 2 * hidden) + hidden + tables * vocabulary


def _own_dtype(config: Fields) -> str:
    own = config.get("dtype", config.get("torch_dtype"))
    return own if isinstance(own, str) and own in DTYPE_BYTES else "bfloat16"


def _integer(config: Fields, name: str, default: int | None = None, *, most: int = INTEGER_MAX) -> int:
    value = config.get(name)
    value = default if value is None else value
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ConfigError(f"{name} is missing from the configuration, or no positive whole number")
    if value > most:
        raise ConfigError(f"{name} in the configuration is more than {most:,}: no model has as much")
    return value
