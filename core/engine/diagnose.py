"""Why a CUDA device cannot be used, said before any model is loaded.

`look` gathers facts without making a context: torch is asked for its build and for the number of devices, NVML for the
rest. `judge` is pure and names the first thing that stands in the way.
"""

import os
import traceback
import warnings
from collections.abc import Mapping

import msgspec

from ..events import Error
from ..live import to_install
from . import cuda_errors
from .architectures import supported
from .failures import missing_package
from .nvml import Match, Nvml, hush_pynvml_warning, shared_nvml
from .requirements import LIVE, installed, release
from .telemetry import device_index


class CudaFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of torch, the driver and the device; None is unknown."""

    versions: dict[str, str | None] = {}
    """Installed version of each package that a live run needs."""
    torch_error: str | None = None
    """Traceback of an import of torch that failed."""
    torch_cuda: str | None = None
    """The CUDA that torch was built with; None for a build without."""
    torch_hip: str | None = None
    architectures: tuple[str, ...] = ()
    devices: int | None = None
    """CUDA devices that torch can open."""
    cuda_says: str = ""
    """What torch warned of while it counted them."""
    driver: str | None = None
    driver_cuda: tuple[int, int] | None = None
    nvml_reason: str = ""
    cards: int | None = None
    """Cards that NVML sees, whatever is visible to CUDA."""
    name: str | None = None
    capabilities: tuple[tuple[int, int] | None, ...] = ()
    """Of each card that the device may be."""
    visible_devices: str | None = None
    """CUDA_VISIBLE_DEVICES."""
    match_reason: str = ""


def cuda_problem(device: str) -> Error | None:
    """The error that keeps a run from this device ("auto", "cuda", "cuda:N"), or None. "cpu" needs packages only.

    Imports torch. Never raises.
    """
    try:
        index = device_index(device)
        return package_problem(look(index)) if index is None else judge(look(index), index)
    except Exception as error:
        return Error(
            kind="internal",
            headline=f"The device could not be examined: {type(error).__name__}: {error}",
            hint="`cgtop doctor` shows what could be found out.",
            detail=traceback.format_exc(),
        )


def judge(facts: CudaFacts, index: int) -> Error | None:
    """The first thing in the way of CUDA device `index`, or None."""
    problem = package_problem(facts) or _build_problem(facts) or _driver_problem(facts)
    return problem or _device_problem(facts, index) or _architecture_problem(facts)


def package_problem(facts: CudaFacts) -> Error | None:
    """A package that is missing, cannot be imported or has a version that does not work."""
    for requirement in LIVE:
        version = facts.versions.get(requirement.package)
        problem = requirement.problem(version)
        if problem is not None:
            headline = f"{problem}: a live run needs {requirement.text}"
            return Error(kind="missing_package", headline=headline, hint=to_install(requirement.text))
    if facts.torch_error is not None:
        return msgspec.structs.replace(missing_package("torch"), detail=facts.torch_error)
    return None


def look(index: int | None, nvml: Nvml | None = None, environ: Mapping[str, str] | None = None) -> CudaFacts:
    """Gather the facts of CUDA device `index` (None: of the packages only)."""
    environ = os.environ if environ is None else environ
    facts = CudaFacts(versions={requirement.package: installed(requirement.package) for requirement in LIVE})
    if facts.versions["torch"] is None:
        return facts
    facts = _with_torch(facts, count=index is not None)
    if index is None:
        return facts
    nvml = nvml if nvml is not None else shared_nvml()
    match = nvml.match(index)
    return msgspec.structs.replace(
        facts,
        driver=nvml.driver_version(),
        driver_cuda=nvml.cuda_version(),
        nvml_reason=nvml.reason,
        cards=None if nvml.reason else len(nvml.cards),
        name=_name(match),
        capabilities=tuple(card.capability().value for card in match.candidates),
        visible_devices=environ.get("CUDA_VISIBLE_DEVICES"),
        match_reason="" if match.card is not None else match.reason,
    )


def _with_torch(facts: CudaFacts, *, count: bool) -> CudaFacts:
    hush_pynvml_warning()
    try:
        import torch
    except Exception:
        return msgspec.structs.replace(facts, torch_error=traceback.format_exc())
    facts = msgspec.structs.replace(facts, torch_cuda=torch.version.cuda, torch_hip=getattr(torch.version, "hip", None))
    if not count or facts.torch_cuda is None:
        return facts
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        # cudaGetDeviceCount: it starts the driver and says why it cannot, but makes no context.
        devices = torch.cuda.device_count() if torch.cuda.is_available() else 0
    return msgspec.structs.replace(
        facts,
        architectures=tuple(torch.cuda.get_arch_list()),
        devices=devices,
        cuda_says="\n".join(str(warning.message) for warning in said),
    )


def _name(match: Match) -> str | None:
    names = {card.name().value for card in match.candidates}
    return names.pop() if len(names) == 1 else None


def _build_problem(facts: CudaFacts) -> Error | None:
    version = facts.versions.get("torch")
    if facts.torch_hip is not None:
        return Error(
            kind="no_cuda",
            headline=f"torch {version} is built for ROCm: cgtop measures CUDA graphs on NVIDIA GPUs",
            hint="Install a CUDA build of torch, or use --device cpu.",
        )
    if facts.torch_cuda is None:
        headline = f"torch {version} is built without CUDA"
        hint = "Install a CUDA build (pytorch.org, Get started), or use --device cpu."
        if facts.cards:
            headline += " though this machine has an NVIDIA GPU"
        elif facts.cards == 0 or facts.nvml_reason:
            # Another torch alone would not help, and is gigabytes.
            headline += ", and NVML finds no NVIDIA GPU here"
            hint = "Use --device cpu; a CUDA build (pytorch.org, Get started) helps only where there is a GPU."
        return Error(kind="no_cuda", headline=headline, hint=hint, detail=facts.nvml_reason)
    return None


def _driver_problem(facts: CudaFacts) -> Error | None:
    """A driver of an older CUDA major; within one major any minor will do (CUDA minor version compatibility)."""
    built = release(facts.torch_cuda or "")
    said = cuda_errors.unusable_device(facts.cuda_says.lower())
    says_so = said is not None and said.kind == "driver_too_old"
    older = built is not None and facts.driver_cuda is not None and facts.driver_cuda[0] < built[0]
    if not says_so and not (older and not facts.devices):
        return None
    cuda = f" (up to CUDA {facts.driver_cuda[0]}.{facts.driver_cuda[1]})" if facts.driver_cuda else ""
    return Error(
        kind="driver_too_old",
        headline=f"The NVIDIA driver {facts.driver or 'here'}{cuda} is too old for torch built for CUDA "
        f"{facts.torch_cuda}",
        hint="Update the driver, or install a torch built for an older CUDA.",
        detail=facts.cuda_says,
    )


def _device_problem(facts: CudaFacts, index: int) -> Error | None:
    if facts.devices is None or index < facts.devices:
        return None
    hidden = facts.visible_devices is not None and facts.cards
    if facts.devices > 0:
        headline = f"There is no device cuda:{index}: CUDA sees {facts.devices} (cuda:0 to cuda:{facts.devices - 1})"
        if facts.devices == 1:
            headline = f"There is no device cuda:{index}: CUDA sees one, cuda:0"
        hint = "Choose one of them with --device"
        hint += f", or change CUDA_VISIBLE_DEVICES={facts.visible_devices!r}." if hidden else "."
    elif hidden:
        headline = f"CUDA_VISIBLE_DEVICES={facts.visible_devices!r} hides the GPU{'s' if facts.cards != 1 else ''} here"
        hint = "Unset it, or name a GPU that `nvidia-smi -L` lists. --device cpu works without a GPU."
    elif facts.cards:
        headline = "NVML sees a GPU, but CUDA cannot open it"
        hint = (
            "Compare the driver's libcuda with its kernel module (nvidia-smi), and the container's access to the GPU."
        )
    else:
        headline = "No NVIDIA GPU was found" + (f": {facts.nvml_reason}" if facts.nvml_reason else "")
        hint = "--device cpu runs the phases that a CPU has; `cgtop` alone plays a recording of a real GPU."
    return Error(kind="no_device", headline=headline, hint=hint, detail=facts.cuda_says or facts.match_reason)


def _architecture_problem(facts: CudaFacts) -> Error | None:
    """Only where it is certain: every card that the device may be is known, and none has code in the wheel."""
    known = [capability for capability in facts.capabilities if capability is not None]
    if not known or len(known) < len(facts.capabilities) or not facts.architectures:
        return None
    if any(supported(capability, facts.architectures) for capability in known):
        return None
    major, minor = known[0]
    return Error(
        kind="wrong_architecture",
        headline=f"torch {facts.versions.get('torch')} has no code for {facts.name or 'this GPU'} (sm_{major}{minor}): "
        f"it was built for {' '.join(facts.architectures)}",
        hint="Install a torch built for this GPU (pytorch.org, Get started, lists the builds), or use --device cpu.",
    )
