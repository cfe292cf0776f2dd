"""Whether this machine has an NVIDIA GPU that a run could use, found out without torch."""

import importlib.util

import msgspec

from ...core.engine.nvml import shared_nvml


class Presence(msgspec.Struct, frozen=True):
    """`found`, or `why` not, as the rest of a sentence."""

    found: bool
    why: str = ""


def nvidia_gpu() -> Presence:
    """Ask NVML. A card that CUDA_VISIBLE_DEVICES hides does not count."""
    nvml = shared_nvml()
    if nvml.reason:
        return Presence(False, nvml.reason)
    if not nvml.cards:
        return Presence(False, "the NVIDIA driver lists no GPU")
    match = nvml.match(0)
    return Presence(False, match.reason) if match.visible is False else Presence(True)


def torch_installed() -> bool:
    """Whether a worker could import torch; looks for the package only."""
    return importlib.util.find_spec("torch") is not None
