"""Puts a model's tensors somewhere else one by one, so that no second copy of the whole is ever alive."""

from collections.abc import Callable

import torch
from torch import nn

ProgressFunction = Callable[[int, int | None, str], None]
"""Takes done and total (bytes, null when unknown) and what is being done."""
PROGRESS_STEPS = 50
"""Reports of a load in all, at most (and one more at its end)."""


class Reporter:
    """Passes progress on in about `PROGRESS_STEPS` reports, however many tensors there are."""

    def __init__(self, progress: ProgressFunction, total: int, what: str) -> None:
        self._progress, self._total, self._what = progress, total, what
        self._done = 0
        self._reported = -1
        self.add(0)

    def add(self, size: int) -> None:
        """`size` more bytes are done."""
        self._done += size
        step = self._done * PROGRESS_STEPS // max(1, self._total)
        if step > self._reported:
            self._reported = step
            self._progress(min(self._done, self._total), self._total, self._what)


def parameter_bytes(model: nn.Module) -> int:
    """Bytes of all parameters, a shared one once."""
    return sum(parameter.numel() * parameter.element_size() for parameter in model.parameters())


def replace_tensors(
    model: nn.Module,
    make: Callable[[torch.Tensor], torch.Tensor],
    done: Callable[[nn.Module, int], None],
) -> None:
    """Replace each parameter and buffer by `make(it)`, module by module; what was shared stays shared.

    `done(module, bytes)` is called after each module that got a new tensor, with the bytes of its new parameters.
    """
    replaced: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}  # the old one too: its id must not be reused
    for module in model.modules():
        size, changed = 0, False
        parameters = [(name, tensor, True) for name, tensor in module.named_parameters(recurse=False)]
        buffers = [(name, tensor, False) for name, tensor in module.named_buffers(recurse=False)]
        for name, old, is_parameter in parameters + buffers:
            if id(old) not in replaced:
                new = make(old.detach())
                new = nn.Parameter(new, requires_grad=False) if is_parameter else new
                # Drops the old one's memory, which is what keeps a second copy from building up.
                old.data = old.data.new_empty(0)
                replaced[id(old)] = (old, new)
                size += new.numel() * new.element_size() if is_parameter else 0
                changed = True
            setattr(module, name, replaced[id(old)][1])
        if changed:
            done(module, size)
