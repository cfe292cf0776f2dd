"""What all rows of a sweep share: model, stream and workspace, prompts, eager references, and the graphs that stand.

A sweep has a stream of its own. Some versions of torch free a stream's cuBLAS workspaces when a graph captured on it is
dropped; on the run's stream that would take the workspace from under the run's own graph.
"""

import gc
import weakref
from typing import NamedTuple

import torch

from .. import sizing
from ..memory_map import MIB
from .devices import Device
from .graphs import CapturedStep
from .lab import Lab
from .models import LoadedModel
from .prompts import Prompt, prefill
from .steps import StaticDecode
from .strategies import Caches
from .sweep_costs import difference
from .sweep_verify import Agreement, Reference

KV = ("kv_static", "caches of a sweep")
IO = ("graph_io", "inputs and logits of a sweep's graphs")


class Lane:
    """The stream of a device's sweeps, and its cuBLAS workspace as far as it has been seen allocated."""

    def __init__(self, stream: torch.cuda.Stream | None) -> None:
        self.stream = stream
        self.workspace_bytes = 0


_lanes: "weakref.WeakKeyDictionary[Device, Lane]" = weakref.WeakKeyDictionary()
"""One for all sweeps on a device: each stream has a workspace of its own, which may outlive a sweep."""


class Served(NamedTuple):
    """A graph that stands, and what it decodes."""

    decode: StaticDecode
    captured: CapturedStep
    prompt: Prompt
    reference: Reference | None


class Rig:
    """What all rows of a sweep share: model, stream, prompts, eager references, and the graphs that stand."""

    def __init__(self, lab: Lab, loaded: LoadedModel, *, max_cache_len: int) -> None:
        """`max_cache_len`: of the longest cache, for which the prompt leaves room."""
        self.lab = lab
        self.device = lab.device
        self.loaded = loaded
        self.max_cache_len = max_cache_len
        if lab.device not in _lanes:
            _lanes[lab.device] = Lane(lab.device.new_stream())
        self._lane = _lanes[lab.device]
        self.stream = self._lane.stream
        self.served: list[Served] = []
        self.modules_bytes: int | None = None
        """What the driver loaded while rows were warmed up, in all."""
        self.agreements: list[Agreement] = []
        """Of attentions other than the model's own with that one, for each row that could be compared."""
        self._prompts: dict[int, Prompt] = {}
        self._references: dict[tuple[str, int, int], Reference] = {}
        lab.ledger.own(*KV, self._caches_held)
        lab.ledger.own(*IO, self._io_held)

    @property
    def workspace_bytes(self) -> int:
        """Of the sweep's stream, whether this sweep had it allocated or one before."""
        return self._lane.workspace_bytes

    @property
    def pools(self) -> set[str]:
        """Private pools of the graphs that stand."""
        return {served.captured.pool_id for served in self.served if served.captured.pool_id is not None}

    def prompt(self, batch_size: int) -> Prompt:
        """The prompt of a batch size, prefilled at first use."""
        if batch_size not in self._prompts:
            self.provoke_workspace()  # or the prefill's first product would, and nobody would know what it is
            self._prompts[batch_size] = prefill(
                self.lab, self.loaded, self.stream, batch_size=batch_size, max_cache_len=self.max_cache_len
            )
        return self._prompts[batch_size]

    def reference(self, attention: str, batch_size: int, max_cache_len: int) -> Reference:
        """Eager runs of one computation. Another attention is fed the tokens of the model's own, to be compared."""
        key = (attention, batch_size, max_cache_len)
        if key not in self._references:
            own = self._references.get((Caches.attention, batch_size, max_cache_len))
            self._references[key] = Reference(own.fed if own is not None and own.first is not None else None)
        return self._references[key]

    def forget_references(self, attention: str) -> None:
        """Drop the logits of an attention that no later row has: gigabytes on the host, for large batches."""
        for key in [key for key in self._references if key[0] == attention]:
            del self._references[key]

    def provoke_workspace(self) -> int:
        """Have the stream's workspace allocated, if it is not there; returns what that took."""
        model = self.loaded.model
        taken = self.lab.ledger.provoke_workspace(self.stream, model.dtype, "the sweep's stream")
        self._lane.workspace_bytes = taken or self._lane.workspace_bytes
        return taken

    def count_modules(self, cold: int | None, warm: int | None) -> None:
        """Add what the driver grew by in a warmup."""
        grown = difference(warm, cold)
        if grown is not None:
            self.modules_bytes = (self.modules_bytes or 0) + grown

    def tidy(self) -> None:
        """Collect what nothing holds and give unused segments back, so that counters show what is held."""
        gc.collect()
        self.device.synchronize()
        self.device.empty_cache()

    def drop(self) -> None:
        """Drop all graphs together, once none of them can be running, and their caches."""
        self.device.synchronize()
        while self.served:  # no name may hold one of them while garbage is collected
            self.served.pop().captured.release()
        self.tidy()

    def close(self) -> None:
        """Drop what still stands, as after an error that ends the sweep; nothing where the device is lost."""
        try:
            self.drop()
        except RuntimeError:
            self.served.clear()

    def tell_memory(self) -> None:
        """Emit where every byte is now."""
        self.lab.emit(self.lab.ledger.sample().event(None))

    def token_bytes(self) -> int:
        """Keys and values of one token of each sequence of the run's batch, over all layers, by the closed form."""
        return sizing.kv_bytes(
            self.loaded.kv, batch_size=self.lab.settings.batch_size, tokens=1, dtype=self.loaded.info.dtype
        )

    def notes(self) -> tuple[str, ...]:
        """What holds for all rows."""
        found = []
        if self.workspace_bytes:
            found.append(
                f"one cuBLAS workspace of {self.workspace_bytes / MIB:,.1f} MiB serves all graphs of the sweep: they "
                "are captured on one stream, which is not the run's"
            )
        if self.modules_bytes:
            found.append(
                f"the driver grew by {self.modules_bytes / MIB:,.1f} MiB while rows were warmed up (modules loaded "
                "lazily, once in a process): in no row"
            )
        if not self.lab.settings.verify_steps:
            found.append("not verified, as asked: nothing proves the replayed tokens")
        if self.device.kind == "cuda" and self.lab.ledger.driver_bytes() is None:
            found.append("NVML does not tell this process's memory: executable graphs are in no total")
        return tuple(found)

    def _caches_held(self) -> list[tuple[str, torch.Tensor]]:
        return [(fixed.name, fixed.tensor) for served in self.served for fixed in served.decode.kv.fixed()]

    def _io_held(self) -> list[tuple[str, torch.Tensor]]:
        return [
            (name, tensor)
            for served in self.served
            for name, tensor in (
                ("first token", served.decode.first_ids),
                ("static input_ids", served.decode.step.input_ids),
                ("graph logits", served.captured.logits),
            )
        ]
