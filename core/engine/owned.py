"""What a program owns, listed anew whenever it is asked for, and kept alive by nothing here."""

import typing
import weakref
from collections.abc import Callable, Iterable

import torch

Tensors = Iterable[torch.Tensor | tuple[str, torch.Tensor]]
Owned = torch.nn.Module | torch.Tensor | Tensors | Callable[[], Tensors]
"""A module, a tensor, some tensors with or without names, or a function that lists those held now."""


def holdings(owned: Owned, name: str) -> Callable[[], list[tuple[str, torch.Tensor]]]:
    """Lists what is held now; no tensor or module is kept alive by it."""
    if isinstance(owned, torch.nn.Module):
        module = weakref.ref(owned)

        def of_module() -> list[tuple[str, torch.Tensor]]:
            alive = module()
            return [] if alive is None else [*alive.named_parameters(), *alive.named_buffers()]

        return of_module
    if callable(owned) and not isinstance(owned, torch.Tensor):
        return lambda: _named(owned(), name)
    pairs = _named([owned] if isinstance(owned, torch.Tensor) else typing.cast(Tensors, owned), name)
    references = [(label, weakref.ref(tensor)) for label, tensor in pairs]
    return lambda: [(label, tensor) for label, reference in references if (tensor := reference()) is not None]


def _named(tensors: Tensors, name: str) -> list[tuple[str, torch.Tensor]]:
    if not isinstance(tensors, Iterable):
        raise TypeError(f"{name}: a {type(tensors).__name__} is no module, no tensor, and no list of tensors")
    return [_pair(entry, f"{name} {number}") for number, entry in enumerate(tensors)]


def _pair(entry: object, name: str) -> tuple[str, torch.Tensor]:
    match entry:
        case torch.Tensor():
            return name, entry
        case (str(label), torch.Tensor() as tensor):
            return label, tensor
    raise TypeError(f"{name}: a {type(entry).__name__} is neither a tensor nor a pair of name and tensor")
