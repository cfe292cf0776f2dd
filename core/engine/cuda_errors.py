"""Which kind of failure a CUDA error text is, by the texts of `cudaGetErrorString` and of torch.

Texts are compared in lower case. Torch wraps CUDA's own text as "CUDA error: <text>".
"""

import re
from typing import Final, NamedTuple

from ..memory_map import GIB, MIB


class Known(NamedTuple):
    """What is known of a failure: a kind of `events.ERROR_KINDS`, and what to say."""

    kind: str
    headline: str
    hint: str


def sticky(text: str) -> Known | None:
    """An error after which every later CUDA call of the process fails, or None."""
    if not any(word in text for word in ("cuda", "cublas", "cudnn", "gpu")):
        return None
    for needle, meaning in _STICKY:
        if needle in text:
            hint = "Press R (or run again): a new worker gets a new CUDA context. What was measured so far stays."
            if needle in _HARDWARE:
                hint += " If it comes back, the GPU needs a reset or a repair: look for Xid lines in `dmesg`."
            return Known("device_lost", f"The CUDA context is lost: {meaning} ({needle})", hint)
    return None


def out_of_memory(text: str) -> bool:
    """Whether device (or, on CPU, host) memory ran out."""
    return any(needle in text for needle in _OUT_OF_MEMORY)


def unusable_device(text: str) -> Known | None:
    """An error of a device that cannot be used at all, or None."""
    return next((known for needle, known in _DEVICE if needle in text), None)


def capture(text: str) -> bool:
    """Whether something could not be recorded into a graph."""
    return any(needle in text for needle in _CAPTURE)


def needed_bytes(text: str) -> int | None:
    """What an out-of-memory message says was asked for; torch prints it rounded."""
    exact = re.search(r"you tried to allocate (\d+) bytes", text)
    return int(exact[1]) if exact else _bytes(re.search(rf"tried to allocate {_SIZE}", text))


def free_bytes(text: str) -> int | None:
    """What an out-of-memory message says was free; torch prints it rounded."""
    return _bytes(re.search(rf"{_SIZE} (?:is )?free", text))


_UNITS: Final = {"bytes": 1, "kib": 1 << 10, "mib": MIB, "gib": GIB, "tib": 1 << 40}
_SIZE: Final = r"([0-9]+(?:\.[0-9]+)?) (bytes|[kmgt]ib)"

_HARDWARE: Final = frozenset(
    {
        "uncorrectable ecc error",
        "uncorrectable nvlink",
        "over nvlink",
        "gpu is lost",
        "fallen off the bus",
        "external device failure",
    }
)
_STICKY: Final = (
    ("device-side assert triggered", "a kernel's assertion failed, such as an index past the end of a tensor"),
    ("uncorrectable nvlink", "a link between GPUs failed"),
    ("over nvlink", "a link between GPUs failed"),
    ("illegal memory access", "a kernel read or wrote memory that is not its own"),
    ("misaligned address", "a kernel used an address that is not aligned"),
    ("illegal instruction", "a kernel ran an instruction that the GPU does not know"),
    ("invalid program counter", "a kernel jumped to an invalid address"),
    ("operation not supported on global/shared address space", "a kernel used the wrong address space"),
    ("hardware stack error", "a kernel's call stack was corrupted"),
    ("unspecified launch failure", "a kernel failed while it ran"),
    ("launch timed out", "a kernel ran longer than the driver allows on a GPU with a display"),
    ("uncorrectable ecc error", "the GPU's memory has an error that ECC could not correct"),
    ("gpu is lost", "the GPU does not answer any more"),
    ("fallen off the bus", "the GPU does not answer any more"),
    ("external device failure", "the GPU does not answer any more"),
    ("context is destroyed", "the context was destroyed"),
    ("cublas_status_execution_failed", "a matrix multiplication failed on the GPU"),
    ("cuda error: unknown error", "the driver gives no reason"),
)
_OUT_OF_MEMORY: Final = (
    "cuda out of memory",
    "cuda error: out of memory",
    "cuda driver error: out of memory",
    "cublas_status_alloc_failed",
    "cudnn_status_alloc_failed",
    "defaultcpuallocator: can't allocate memory",
    "defaultcpuallocator: not enough memory",
)
_CAPTURE: Final = (
    "stream is capturing",
    "during capture",
    "stream capture",
    "streamcapture",
    "capture sequence",
    "capturing stream",
    "uncaptured work",
    "capture was not ended",
    "graph capture",
    "capture_begin",
    "capture_end",
)
_SEE_DOCTOR: Final = "`cgtop doctor` shows what is there; --device cpu works without a GPU."
_TOO_OLD: Final = Known(
    "driver_too_old",
    "The NVIDIA driver is too old for this torch",
    "Update the driver, or install a torch built for an older CUDA; `cgtop doctor` shows both.",
)
_NO_GPU: Final = Known("no_device", "CUDA sees no GPU", _SEE_DOCTOR)
_DEVICE: Final = (
    (
        "no kernel image is available",
        Known(
            "wrong_architecture",
            "This torch has no kernels for this GPU",
            "Install a torch built for this GPU's architecture; `cgtop doctor` shows both.",
        ),
    ),
    ("driver on your system is too old", _TOO_OLD),
    ("driver version is insufficient", _TOO_OLD),
    ("not compiled with cuda", Known("no_cuda", "This torch is built without CUDA", "Install a CUDA build of torch.")),
    ("found no nvidia driver", Known("no_device", "No NVIDIA driver is loaded", _SEE_DOCTOR)),
    ("no cuda gpus are available", _NO_GPU),
    ("no cuda-capable device", _NO_GPU),
    ("driver initialization failed", Known("no_device", "The NVIDIA driver cannot be initialised", _SEE_DOCTOR)),
    ("invalid device ordinal", Known("no_device", "CUDA has no GPU of this index", _SEE_DOCTOR)),
    (
        "busy or unavailable",
        Known(
            "no_device",
            "The GPU is taken: another process holds it in exclusive mode",
            "End that process, or choose another GPU with --device cuda:N.",
        ),
    ),
)


def _bytes(match: re.Match[str] | None) -> int | None:
    return round(float(match[1]) * _UNITS[match[2]]) if match else None
