"""A statement of the guide with the function that judges it."""

from collections.abc import Callable
from typing import NamedTuple

from .evidence import Evidence, Finding


class Statement(NamedTuple):
    """`text` is the guide's statement in English; `judge` is pure."""

    id: str
    text: str
    judge: Callable[[Evidence], Finding]
