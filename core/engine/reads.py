"""How many bytes a decode step must read: the lower bound that its speed is compared with.

Weights once each, with one row a sequence of a lookup table that nothing multiplies by; and the cache: all of a
StaticCache, since a masked step reads every slot, or the tokens that a DynamicCache holds. An upper bound for mixtures
of experts, which read only some of their weights.
"""

from collections.abc import Callable

from torch import nn

from .. import sizing
from .models import LoadedModel
from .placement import parameter_bytes

ReadBytes = Callable[[int], int]
"""Position in tokens -> bytes."""


def static_reads(loaded: LoadedModel, batch_size: int, max_cache_len: int) -> ReadBytes:
    """A step on the StaticCache: the same at every position."""
    total = _step_bytes(loaded, weight_read_bytes(loaded.model, batch_size), batch_size, max_cache_len)
    return lambda position: total


def dynamic_reads(loaded: LoadedModel, batch_size: int) -> ReadBytes:
    """A step on the DynamicCache: grows with the position."""
    weights = weight_read_bytes(loaded.model, batch_size)
    return lambda position: _step_bytes(loaded, weights, batch_size, position)


def weight_read_bytes(model: nn.Module, batch_size: int) -> int:
    """Weight bytes that a decode step must read, each once."""
    tables = [module for module in model.modules() if isinstance(module, nn.Embedding)]
    multiplied = {
        id(parameter)
        for module in model.modules()
        if not isinstance(module, nn.Embedding)
        for parameter in module.parameters(recurse=False)
    }
    unread = 0
    for weight in {id(table.weight): table.weight for table in tables if id(table.weight) not in multiplied}.values():
        rows, width = weight.shape
        unread += max(0, rows - batch_size) * width * weight.element_size()
    return parameter_bytes(model) - unread


def _step_bytes(loaded: LoadedModel, weights: int, batch_size: int, tokens: int) -> int:
    return sizing.decode_read_bytes(weights, loaded.kv, batch_size=batch_size, tokens=tokens, dtype=loaded.info.dtype)
