"""A preset's model with random weights, built on its device without a copy anywhere else."""

import torch
from transformers import AutoModelForCausalLM, PreTrainedModel, Qwen3Config

from ..presets import Qwen3Shape
from .placement import ProgressFunction, Reporter, parameter_bytes, replace_tensors


def qwen3_config(shape: Qwen3Shape) -> Qwen3Config:
    """The transformers configuration of a shape."""
    return Qwen3Config(
        vocab_size=shape.vocab_size,
        hidden_size=shape.hidden_size,
        intermediate_size=shape.intermediate_size,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.kv_heads,
        head_dim=shape.head_dim,
        max_position_embeddings=shape.max_positions,
        initializer_range=shape.initializer_range,
        rms_norm_eps=shape.rms_norm_eps,
        tie_word_embeddings=shape.tied_embeddings,
        rope_parameters={"rope_type": "default", "rope_theta": shape.rope_theta},
        use_cache=True,
    )


def build(
    shape: Qwen3Shape,
    *,
    dtype: torch.dtype,
    attention: str,
    device: torch.device,
    seed: int,
    progress: ProgressFunction,
) -> PreTrainedModel:
    """A Qwen3 of this shape on `device`; the same seed gives the same weights on the same kind of device.

    The modules are made without memory first, and tied: built directly on the device, a tied output layer would have a
    table of its own for a moment (742 MiB for qwen3-4b), which the allocator then keeps. The random state of torch is
    left as it was.
    """
    with torch.device("meta"):
        model: PreTrainedModel = AutoModelForCausalLM.from_config(  # type: ignore[no-untyped-call]
            qwen3_config(shape), dtype=dtype, attn_implementation=attention
        )
    reporter = Reporter(progress, parameter_bytes(model), "random weights")

    def fill(module: torch.nn.Module, size: int) -> None:
        model._init_weights(module)  # type: ignore[no-untyped-call]
        reporter.add(size)

    cuda_devices = [device.index or 0] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=cuda_devices), torch.no_grad():
        torch.manual_seed(seed)
        replace_tensors(model, lambda tensor: torch.empty_like(tensor, device=device), fill)
    return model
