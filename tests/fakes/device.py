"""A CPU that pretends to capture: the recorded step is run again by each replay. For what needs no GPU to be proven."""

from collections.abc import Callable

import torch

from cgtop.core.engine.devices import AllocatorCounters, CpuDevice, StepFunction
from cgtop.core.engine.graphs import CapturedStep, PoolHandle
from cgtop.core.engine.steps import DecodeStep


class PretendCapture(CapturedStep):
    """Writes each replay's logits to one tensor, as a graph does. Capturing runs nothing that lasts."""

    def __init__(self, step: StepFunction, state: Callable[[], list[torch.Tensor]]) -> None:
        kept = [(tensor, tensor.clone()) for tensor in state()]
        self.logits = step().clone()
        for tensor, before in kept:
            tensor.copy_(before)
        self._step = step
        self._input_ids = step.input_ids if isinstance(step, DecodeStep) else None
        self.pool_id = "0.1"
        self.replays = 0
        self.instantiated = False

    def instantiate(self) -> None:
        self.instantiated = True

    def replay(self) -> None:
        assert self.instantiated
        self.replays += 1
        if not isinstance(self._step, DecodeStep) or self._input_ids is None:
            self.logits.copy_(self._step())
            return
        bound, self._step.input_ids = self._step.input_ids, self._input_ids  # a graph reads where it was captured
        try:
            self.logits.copy_(self._step())
        finally:
            self._step.input_ids = bound

    def release(self) -> None:
        del self._step

    def nodes_by_kind(self) -> dict[str, int] | None:
        return {"kernel": 3, "memcpy": 1}


class PretendDevice(CpuDevice):
    """`state` lists every tensor that a step changes; `fail` makes the next capture raise."""

    capture_refusal = None

    def __init__(self) -> None:
        super().__init__()
        self.state: Callable[[], list[torch.Tensor]] = list
        self.fail: Exception | None = None
        self.readings: Callable[[], AllocatorCounters] = AllocatorCounters
        self.threads: list[int] = []

    def counters(self) -> AllocatorCounters:
        return self.readings()

    def capture(
        self, step: StepFunction, stream: torch.cuda.Stream | None, pool: PoolHandle | None = None
    ) -> CapturedStep:
        if self.fail is not None:
            raise self.fail
        return PretendCapture(step, self.state)
