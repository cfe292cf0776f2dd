"""What a run holds on the device, listed for the ledger, and told as events.

Each listing is asked at every sample and gives (name, tensor) of what is there then.
"""

from collections.abc import Callable, Iterable

import torch

from ..events import Addresses, Caches, FixedTensor
from .caches import AddressGuard, StaticKV, dynamic_tensors
from .graphs import CapturedStep
from .models import LoadedModel
from .steps import DynamicDecode, StaticDecode


class Holdings:
    """What one run holds on the device, none of it at first."""

    def __init__(self) -> None:
        self.loaded: LoadedModel | None = None
        self.kv: StaticKV | None = None
        self.static: StaticDecode | None = None
        self.dynamic: DynamicDecode | None = None
        self.captured: CapturedStep | None = None
        self.guard: AddressGuard | None = None
        self.kept: list[CapturedStep] = []
        """Graphs of demonstrations: dropped with the run's own, since graphs of one stream share its workspace."""
        self.rebound: torch.Tensor | None = None
        """The captured input, while a demonstration has bound the step to another one."""


Named = Iterable[tuple[str, torch.Tensor]]
Listing = Callable[[Holdings], Named]


def parameters(run: Holdings) -> Named:
    """Of the model."""
    return [] if run.loaded is None else run.loaded.model.named_parameters()


def buffers(run: Holdings) -> Named:
    """Of the model."""
    return [] if run.loaded is None else run.loaded.model.named_buffers()


def dynamic_cache(run: Holdings) -> Named:
    """Keys and values of the DynamicCache."""
    return _keys_and_values("DynamicCache", [] if run.dynamic is None else dynamic_tensors(run.dynamic.cache))


def dynamic_inputs(run: Holdings) -> Named:
    """What the dynamic step reads beside its cache."""
    if run.dynamic is None:
        return []
    return [("first token", run.dynamic.first_ids), ("dynamic input_ids", run.dynamic.step.input_ids)]


def static_cache(run: Holdings) -> Named:
    """Keys and values of the StaticCache."""
    return _keys_and_values("StaticCache", [] if run.kv is None else run.kv.keys_and_values())


def static_counters(run: Holdings) -> Named:
    """Length counters of the StaticCache."""
    counters = [] if run.kv is None else run.kv.counters()
    return [(f"StaticCache length {number}", counter) for number, counter in enumerate(counters)]


def static_inputs(run: Holdings) -> Named:
    """The input that the step reads; while it is rebound, the captured one as well."""
    found = [] if run.static is None else [("static input_ids", run.static.step.input_ids)]
    return found if run.rebound is None else [*found, ("captured input_ids", run.rebound)]


def graph_logits(run: Holdings) -> Named:
    """What the graph leaves in its pool."""
    return [] if run.captured is None else [("graph logits", run.captured.logits)]


def kept_logits(run: Holdings) -> Named:
    """What the graphs of demonstrations leave in theirs."""
    return [("demonstration logits", captured.logits) for captured in run.kept]


def addresses(guard: AddressGuard) -> Addresses:
    """Where everything fixed was at capture, and what moved."""
    found = guard.addresses()
    return Addresses(
        fixed=tuple(
            FixedTensor(name=fixed.name, address=address, bytes=fixed.tensor.nbytes, update=fixed.update, moved=moved)
            for fixed, address, moved in found
        ),
        moved=sum(moved for _, _, moved in found),
        checked=guard.checked,
    )


def caches(run: Holdings) -> Caches:
    """Both caches side by side, as far as they exist."""
    static, dynamic = run.static, run.dynamic
    return Caches(
        static_bytes=None if static is None else sum(fixed.tensor.nbytes for fixed in static.kv.fixed()),
        static_position=None if static is None else static.cursor.position,
        static_moves=None if run.guard is None else len(run.guard.moved()),
        dynamic_bytes=None if dynamic is None else _storage_bytes(dynamic_tensors(dynamic.cache)),
        dynamic_position=None if dynamic is None else dynamic.cursor.position,
        dynamic_steps=0 if dynamic is None else dynamic.watched,
        dynamic_moves=0 if dynamic is None else dynamic.moves,
    )


def _keys_and_values(cache: str, tensors: Iterable[torch.Tensor]) -> Named:
    return [(f"{cache} {('keys', 'values')[i % 2]} {i // 2}", tensor) for i, tensor in enumerate(tensors)]


def _storage_bytes(tensors: Iterable[torch.Tensor]) -> int:
    storages = {tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes() for tensor in tensors}
    return sum(storages.values())
