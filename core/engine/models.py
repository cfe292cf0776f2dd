"""Which model a run decodes, and the model itself on the device: a preset with random weights, or a checkpoint."""

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import msgspec
import torch
from torch import nn
from transformers import Cache, PreTrainedConfig, PreTrainedModel, StaticCache
from transformers import PreTrainedTokenizerBase as Tokenizer
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from .. import sizing
from ..events import DeviceInfo, ModelInfo
from ..presets import PRESETS, Qwen3Shape
from ..settings import RunSettings, SettingsError
from ..sizing import KvShape
from . import checkpoints, random_weights, text
from .checkpoints import Checkpoint
from .failures import EngineError
from .placement import ProgressFunction, parameter_bytes
from .text import Detokenizer

__all__ = [
    "Detokenizer",
    "LoadedModel",
    "ModelPlan",
    "ProgressFunction",
    "check_model_state",
    "forward_kwargs",
    "graph_refusal",
    "load",
    "prompt_ids",
    "resolve",
]

BF16_CAPABILITY = 80
"""bf16 arithmetic exists from compute capability 8.0 on."""
UNBOUNDED = 1 << 60
KV_LAYERS = ("StaticLayer", "StaticSlidingWindowLayer")
"""Layers of a StaticCache that keep keys and values and nothing else."""
HOST_ROPE = ("dynamic", "longrope")
"""Rotary embeddings that choose their frequencies on the host, by the position."""


@dataclass(frozen=True)
class ModelPlan:
    """What `load` will build; no device has been touched yet."""

    info: ModelInfo
    kv: KvShape
    settings: RunSettings
    shape: Qwen3Shape | None = None
    """Of a preset."""
    checkpoint: Checkpoint | None = None


@dataclass(frozen=True)
class LoadedModel:
    """A model on its device: in eval mode, no parameter requires grad."""

    model: PreTrainedModel
    tokenizer: Tokenizer | None
    info: ModelInfo
    kv: KvShape


def resolve(settings: RunSettings, device: DeviceInfo) -> ModelPlan:
    """Choose model, dtype and attention without touching the device.

    Without a model in the settings: `tiny` on a CPU, else the largest preset up to 4b that fits into the free memory
    (qwen3-0.6b where that is unknown). Raises `SettingsError`, or `EngineError` for a checkpoint that cannot be used.
    """
    _check_attention(settings.attention)
    name = settings.model or _default_preset(settings, device)
    if name in PRESETS:
        return _preset_plan(name, settings, device)
    return _checkpoint_plan(name, settings, device)


def load(plan: ModelPlan, device: torch.device, progress: ProgressFunction) -> LoadedModel:
    """Build the planned model on `device`. Its memory is that of its weights; no second copy exists on the device.

    Raises `EngineError` for a broken checkpoint or a model that cannot decode; running out of memory passes through.
    """
    dtype = _torch_dtype(plan.info.dtype)
    tokenizer = None
    if plan.shape is not None:
        model = random_weights.build(
            plan.shape,
            dtype=dtype,
            attention=plan.info.attention,
            device=device,
            seed=plan.settings.seed,
            progress=progress,
        )
    else:
        assert plan.checkpoint is not None
        tokenizer = plan.checkpoint.tokenizer
        model = checkpoints.load_weights(
            plan.checkpoint, dtype=dtype, attention=plan.info.attention, device=device, progress=progress
        )
    model.train(mode=False)
    model.requires_grad_(False)
    check_model_state(model)
    info = msgspec.structs.replace(
        plan.info,
        parameters=sum(parameter.numel() for parameter in model.parameters()),
        parameter_bytes=parameter_bytes(model),
    )
    return LoadedModel(model, tokenizer, info, plan.kv)


def prompt_ids(loaded: LoadedModel, settings: RunSettings, device: torch.device) -> torch.Tensor:
    """The prompt as int64 ids `[batch_size, prompt_len]` on `device`; see `text.prompt_ids`."""
    return text.prompt_ids(loaded.tokenizer, loaded.info.vocab_size, settings, device)


def check_model_state(model: nn.Module) -> None:
    """Raises `EngineError` ("model_state") for a model that does not give the same logits for the same tokens twice."""
    for name, module in model.named_modules():
        if module.training:
            what = "dropout is active" if _drops(module) else "is in train mode"
            raise EngineError(
                "model_state",
                f"The model cannot be captured: {name or type(model).__name__} {what}",
                "Call model.eval() first: a graph would replay the random choices of training.",
            )
    if getattr(getattr(model, "config", None), "is_encoder_decoder", False):
        raise EngineError(
            "model_state", "The model is an encoder-decoder model", "cgtop decodes causal language models only."
        )


def graph_refusal(model: PreTrainedModel) -> str | None:
    """Why this model's decode step must not be captured, or None.

    These decide something on the host at each step, and a graph would repeat the decision of the step it was captured
    at: the replay would be fast and wrong.
    """
    config = model.config.get_text_config(decoder=True)
    sliding = [index for index, layer in enumerate(_cache_layers(config)) if layer.window is not None]
    if sliding:
        return (
            f"{len(sliding)} layers (the first is {sliding[0]}) keep a sliding window: their cache branches on a count "
            "that the host keeps, and a graph would freeze it"
        )
    rope = getattr(config, "rope_parameters", None) or {}
    kinds = {rope.get("rope_type")} | {value.get("rope_type") for value in rope.values() if isinstance(value, dict)}
    host = sorted(kind for kind in kinds if kind in HOST_ROPE)
    if host:
        return f"its rotary embedding ({host[0]}) looks at the position on the host in each step"
    return None


def forward_kwargs(model: PreTrainedModel, cache: Cache) -> dict[str, Cache]:
    """The cache as this model's forward wants it: `cache` in newer transformers, `past_key_values` before."""
    return {_cache_argument(type(model).forward): cache}


@functools.cache
def _cache_argument(forward: Callable[..., object]) -> str:
    return "cache" if "cache" in inspect.signature(forward).parameters else "past_key_values"


def _check_attention(name: str) -> None:
    """What transformers has; a name with a slash is a kernel of the hub's."""
    known = sorted({"eager", *ALL_ATTENTION_FUNCTIONS.valid_keys()})
    if name not in known and "/" not in name:
        raise SettingsError(f"attention must be one of {', '.join(known)}, not {name!r}")


def _default_preset(settings: RunSettings, device: DeviceInfo) -> str:
    if device.kind == "cpu":
        return "tiny"
    free_bytes = device.free_bytes
    if free_bytes is None:
        return "qwen3-0.6b"
    return sizing.largest_fitting_preset(
        free_bytes,
        capability=device.capability,
        batch_size=settings.batch_size,
        max_cache_len=settings.max_cache_len,
        dtype=_dtype(settings, device, None),
    )


def _dtype(settings: RunSettings, device: DeviceInfo, own: str | None) -> str:
    """The dtype's name; `own` is the checkpoint's."""
    if settings.dtype != "auto":
        return settings.dtype
    if device.kind == "cpu":
        return "float32"
    wanted = own if own in sizing.DTYPE_BYTES else "bfloat16"
    old = device.capability is not None and sizing.capability_number(device.capability) < BF16_CAPABILITY
    return "float16" if wanted == "bfloat16" and old else wanted


def _preset_plan(name: str, settings: RunSettings, device: DeviceInfo) -> ModelPlan:
    shape, dtype = PRESETS[name], _dtype(settings, device, None)
    _check_positions(name, shape.max_positions, settings)
    kv = sizing.kv_shape(shape)
    info = ModelInfo(
        name=name,
        source="random",
        parameters=sizing.parameter_count(shape),
        parameter_bytes=sizing.parameter_bytes(shape, dtype),
        dtype=dtype,
        attention=settings.attention,
        layers=kv.layers,
        kv_heads=kv.kv_heads,
        head_dim=kv.head_dim,
        vocab_size=shape.vocab_size,
        static_cache_bytes=_static_cache_bytes(kv, settings, dtype),
    )
    return ModelPlan(info, kv, settings, shape=shape)


def _checkpoint_plan(source: str, settings: RunSettings, device: DeviceInfo) -> ModelPlan:
    checkpoint = checkpoints.describe(source, trust_remote_code=settings.trust_remote_code)
    if settings.prompt is not None and checkpoint.tokenizer is None:
        raise EngineError(
            "checkpoint", f"{checkpoint.name} has no tokenizer, so it cannot take a prompt text", "Leave --prompt out."
        )
    own = getattr(checkpoint.config, "dtype", None)
    dtype = _dtype(settings, device, str(own).removeprefix("torch."))
    config = checkpoint.config.get_text_config(decoder=True)
    _check_positions(checkpoint.name, getattr(config, "max_position_embeddings", None), settings)
    kv = _kv_shape(checkpoint.name, config)
    skeleton = checkpoints.skeleton(checkpoint, dtype=_torch_dtype(dtype), attention=settings.attention)
    info = ModelInfo(
        name=checkpoint.name,
        source="checkpoint",
        parameters=sum(parameter.numel() for parameter in skeleton.parameters()),
        parameter_bytes=parameter_bytes(skeleton),
        dtype=dtype,
        attention=settings.attention,
        layers=kv.layers,
        kv_heads=kv.kv_heads,
        head_dim=kv.head_dim,
        vocab_size=int(config.vocab_size),
        static_cache_bytes=_static_cache_bytes(kv, settings, dtype),
        has_tokenizer=checkpoint.tokenizer is not None,
    )
    return ModelPlan(info, kv, settings, checkpoint=checkpoint)


def _check_positions(name: str, positions: int | None, settings: RunSettings) -> None:
    """Past its last position a model gives nonsense at best, and a device assertion where positions are a table."""
    if positions is not None and settings.max_cache_len > positions:
        raise SettingsError(f"{name} knows {positions} positions: choose --max-cache-len {positions} or less")


def _kv_shape(name: str, config: PreTrainedConfig) -> KvShape:
    layers = _cache_layers(config)
    other = sorted({layer.kind for layer in layers} - set(KV_LAYERS))
    if other or getattr(config, "kv_lora_rank", None) is not None:
        what = other[0] if other else "multi-head latent attention"
        raise EngineError(
            "checkpoint",
            f"{name} keeps a state other than plain keys and values ({what})",
            "Choose a model whose layers are all attention layers, such as Qwen3, Llama or Mistral.",
        )
    heads = int(config.num_attention_heads)
    return KvShape(
        layers=len(layers),
        kv_heads=int(getattr(config, "num_key_value_heads", None) or heads),
        head_dim=int(getattr(config, "head_dim", None) or config.hidden_size // heads),
        sliding_windows=tuple(layer.window for layer in layers if layer.window is not None),
    )


class _CacheLayer(NamedTuple):
    kind: str
    window: int | None
    """Tokens that a sliding layer keeps."""


def _cache_layers(config: PreTrainedConfig) -> list[_CacheLayer]:
    """The layers that transformers gives a StaticCache of this model; they allocate nothing before their first use."""
    layers = StaticCache(config=config, max_cache_len=UNBOUNDED).layers
    return [
        _CacheLayer(
            type(layer).__name__,
            int(getattr(layer, "max_cache_len", 0)) if getattr(layer, "is_sliding", False) else None,
        )
        for layer in layers
    ]


def _static_cache_bytes(kv: KvShape, settings: RunSettings, dtype: str) -> int:
    return sizing.static_cache_bytes(
        kv, batch_size=settings.batch_size, max_cache_len=settings.max_cache_len, dtype=dtype
    )


def _drops(module: nn.Module) -> bool:
    return isinstance(module, nn.modules.dropout._DropoutNd) and module.p > 0


def _torch_dtype(name: str) -> torch.dtype:
    return {"bfloat16": torch.bfloat16, "float16": torch.float16, "float32": torch.float32}[name]
