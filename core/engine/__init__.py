"""What runs in the worker process: the only part of cgtop that imports torch or transformers.

`Recorder` records a program of one's own; it is imported at first use, with torch.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .recorder import Recorder as Recorder

__all__ = ["Recorder"]


def __getattr__(name: str) -> object:
    if name != "Recorder":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from .recorder import Recorder

    return Recorder
