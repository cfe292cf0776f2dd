"""Whether this machine has an NVIDIA GPU that a run could use, found out without torch."""

import importlib.util
import os

import msgspec


class Presence(msgspec.Struct, frozen=True):
    """`found`, or `why` not, as the rest of a sentence."""

    found: bool
    why: str = ""


def nvidia_gpu() -> Presence:
    """Ask NVML. A card that CUDA_VISIBLE_DEVICES hides does not count."""
    if os.environ.get("CUDA_VISIBLE_DEVICES", "0").strip() in ("", "-1"):
        return Presence(False, "CUDA_VISIBLE_DEVICES hides every GPU")
    import pynvml

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        return Presence(False, f"the NVIDIA driver does not answer ({error})")
    try:
        cards = int(pynvml.nvmlDeviceGetCount())
    except pynvml.NVMLError as error:
        return Presence(False, f"the NVIDIA driver does not answer ({error})")
    finally:
        pynvml.nvmlShutdown()
    return Presence(True) if cards else Presence(False, "the NVIDIA driver lists no GPU")


def torch_installed() -> bool:
    """Whether a worker could import torch; looks for the package only."""
    return importlib.util.find_spec("torch") is not None
