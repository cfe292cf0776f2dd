"""Prompts that a sweep decodes from: prefilled once for each batch size, kept on the host, filled into any cache."""

from typing import NamedTuple

import msgspec
import torch
from transformers import DynamicCache

from .caches import StaticKV, cache_too_small, dynamic_layers
from .lab import Lab
from .models import LoadedModel, forward_kwargs, prompt_ids


class Prompt(NamedTuple):
    """A prefilled prompt on the host. All rows differ where the prompt is not a text."""

    keys_and_values: tuple[tuple[torch.Tensor, torch.Tensor], ...]
    """For each layer, [batch, KV heads, length, head_dim] each."""
    first_ids: torch.Tensor
    """[batch, 1], the token that each row leads to."""
    length: int


def prefill(
    lab: Lab, loaded: LoadedModel, stream: torch.cuda.Stream | None, *, batch_size: int, max_cache_len: int
) -> Prompt:
    """Run the prompt of `batch_size` rows through the model. Nothing of it stays on the device.

    On the host, so that it is the same to the bit for every cache it goes into, whatever a prefill's kernels repeat.
    """
    settings = msgspec.structs.replace(lab.settings, batch_size=batch_size, max_cache_len=max_cache_len)
    with lab.device.on(stream):
        ids = prompt_ids(loaded, settings, lab.device.torch_device)
        cache = DynamicCache(config=loaded.model.config)
        logits = loaded.model(
            input_ids=ids, use_cache=True, logits_to_keep=1, **forward_kwargs(loaded.model, cache)
        ).logits[:, -1]
        first_ids = logits.argmax(dim=-1, keepdim=True).cpu()
        layers = tuple((layer.keys.cpu(), layer.values.cpu()) for layer in dynamic_layers(cache))
    return Prompt(layers, first_ids, int(ids.shape[1]))


def fill(kv: StaticKV, prompt: Prompt) -> None:
    """Write a prompt's KV to the cache's fixed addresses and set its length."""
    if prompt.length >= kv.capacity:
        raise cache_too_small(prompt.length, kv.capacity)
    kv.check_batch(prompt.first_ids.shape[0])
    kv.set_length(0)
    for layer, (keys, values) in zip(kv.layers, prompt.keys_and_values, strict=True):
        layer.update(keys.to(layer.keys.device), values.to(layer.values.device))
