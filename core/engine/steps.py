"""The decode step: one token for each sequence, sampling inside it.

A step reads its input ids, calls the model with a cache, takes the greedy token and writes it back to the input ids. So
a recorded step leads to the next one by itself, and a replay needs no host work but the launch.
"""

from collections.abc import Callable

import torch
from transformers import Cache, DynamicCache, PreTrainedModel

from .caches import Fixed, StaticKV, dynamic_layers, rewind_dynamic
from .models import forward_kwargs


class DecodeStep:
    """A callable step on one cache. `input_ids`: [batch, 1] int64, at a fixed address."""

    def __init__(self, model: PreTrainedModel, cache: Cache, first_ids: torch.Tensor) -> None:
        """`first_ids`: [batch, 1], the token that the prompt leads to."""
        self._model = model
        self._cache_kwargs = forward_kwargs(model, cache)
        self.input_ids = first_ids.clone()

    def __call__(self) -> torch.Tensor:
        """Enqueue one step; returns its logits, [batch, vocab]."""
        logits: torch.Tensor = self._model(input_ids=self.input_ids, use_cache=True, **self._cache_kwargs).logits[:, -1]
        self.input_ids.copy_(logits.argmax(dim=-1, keepdim=True))
        return logits


class Cursor:
    """Where decoding is, as the host counts it: a cache's length is never read back from the device."""

    def __init__(self, prompt_len: int, capacity: int, rewind: Callable[[], None]) -> None:
        """`rewind` sets cache and input back to the end of the prompt."""
        self.prompt_len = prompt_len
        self.capacity = capacity
        self.position = prompt_len
        self.laps = 0
        self._rewind = rewind

    @property
    def full(self) -> bool:
        """Whether another step would write past the end of the cache."""
        return self.position >= self.capacity

    def advance(self) -> None:
        """Count one step."""
        if self.full:
            raise IndexError(f"cache full: {self.position} of {self.capacity} tokens")
        self.position += 1

    def rewind(self) -> None:
        """Back to the end of the prompt."""
        self._rewind()
        self.position = self.prompt_len

    def make_room(self, steps: int = 1) -> None:
        """Where the cache has not room for so many steps, rewind and count a lap."""
        if self.position + steps > self.capacity:
            self.rewind()
            self.laps += 1


class StaticDecode:
    """Decoding on the StaticCache: the step that runs eagerly and that a graph records, and their common cursor."""

    def __init__(self, model: PreTrainedModel, kv: StaticKV, first_ids: torch.Tensor, prompt_len: int) -> None:
        kv.check_batch(first_ids.shape[0])
        self.kv = kv
        self.first_ids = first_ids
        self.step = DecodeStep(model, kv.cache, first_ids)
        self.cursor = Cursor(prompt_len, kv.capacity, self._rewind)
        self.logits: torch.Tensor | None = None
        """The graph's logits, once there is one."""

    def _rewind(self) -> None:
        self.kv.set_length(self.cursor.prompt_len)
        self.step.input_ids.copy_(self.first_ids)

    def fixed(self) -> list[Fixed]:
        """Everything that a graph of the step depends on, as it is now."""
        found = [Fixed("input_ids", self.step.input_ids, "in-graph"), *self.kv.fixed()]
        if self.logits is not None:
            found.append(Fixed("logits", self.logits, "in-graph"))
        return found


class DynamicDecode:
    """Decoding on the DynamicCache, which grows: its own input and its own cursor."""

    def __init__(
        self, model: PreTrainedModel, cache: DynamicCache, first_ids: torch.Tensor, prompt_len: int, capacity: int
    ) -> None:
        self.cache = cache
        self.first_ids = first_ids
        self.step = DecodeStep(model, cache, first_ids)
        self.cursor = Cursor(prompt_len, capacity, self._rewind)
        self.watched = 0
        """Steps made by `launch`."""
        self.moves = 0
        """In how many of them the first layer's keys came to another address."""

    def launch(self) -> torch.Tensor:
        """A step, watched for whether the cache stays where it is."""
        layer = dynamic_layers(self.cache)[0]
        before = layer.keys.data_ptr()
        logits = self.step()
        self.watched += 1
        self.moves += layer.keys.data_ptr() != before
        return logits

    def _rewind(self) -> None:
        rewind_dynamic(self.cache, self.cursor.prompt_len)
        self.step.input_ids.copy_(self.first_ids)
