"""Whether this machine has an NVIDIA GPU that a run could use, found out without torch."""

import importlib.util

import msgspec

from ...core.bundled import play_command
from ...core.engine.nvml import shared_nvml
from ...core.events import DeviceInfo
from ...core.live import command, cpu_name
from ...core.settings import RunSettings


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


def instead_of_a_gpu(*experiments: str, first: str = "") -> str:
    """What to do where none is found: `first` if there is such a thing, what is missing, and what was recorded.

    `experiments`: those whose bundled recording answers the same question, the best first.
    """
    recorded = play_command(*experiments)
    plays = (
        f"{recorded} plays a recorded one" if recorded else f"{command()} without a command plays a recorded GPU run"
    )
    return "; ".join(text for text in (first, f"{command()} doctor says what is missing", plays) if text)


def expected_device(settings: RunSettings) -> DeviceInfo | None:
    """What a run's device will be, as far as that is known without a worker; null where it is not."""
    if settings.device == "cpu":
        return DeviceInfo(kind="cpu", name=cpu_name())
    index = settings.device.partition(":")[2]
    return shared_nvml().device_info(int(index) if index else 0)


def torch_installed() -> bool:
    """Whether a worker could import torch; looks for the package only."""
    return importlib.util.find_spec("torch") is not None
