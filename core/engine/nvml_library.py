"""Calls into NVML that never raise: each gives a value, or the reason why there is none.

Calls are documented in NVIDIA's NVML API reference; their Python names are those of the package nvidia-ml-py.
"""

from typing import Final, Generic, TypeVar

import msgspec

T = TypeVar("T")

NOT_SUPPORTED: Final = 3
NO_PERMISSION: Final = 4
FUNCTION_NOT_FOUND: Final = 13
ARGUMENT_VERSION_MISMATCH: Final = 25


class Reading(msgspec.Struct, Generic[T], frozen=True):
    """A value, or None with the reason and, where there is one, NVML's error code."""

    value: T | None = None
    reason: str = ""
    code: int | None = None

    @property
    def missing(self) -> bool:
        """Whether the interface itself is not there, so that an older one may serve."""
        return self.value is None and self.code in (NOT_SUPPORTED, FUNCTION_NOT_FOUND, ARGUMENT_VERSION_MISMATCH)


class Library:
    """The module `pynvml`, or a fake of it."""

    def __init__(self, module: object) -> None:
        self._module = module

    def call(self, name: str, *arguments: object) -> Reading[object]:
        """What the function of this name returns."""
        function = getattr(self._module, name, None)
        if function is None:
            return Reading(reason=f"this nvidia-ml-py has no {name}", code=FUNCTION_NOT_FOUND)
        try:
            return Reading(function(*arguments))
        except Exception as error:
            return Reading(reason=_reason(error), code=_code(error))

    def constant(self, name: str) -> int | None:
        """A number that the module defines, or None if it is too old to have it."""
        value = getattr(self._module, name, None)
        return value if isinstance(value, int) else None


def as_int(reading: Reading[object]) -> Reading[int]:
    """The reading, if it is a number."""
    return Reading(reading.value) if isinstance(reading.value, int) else unreadable(reading)


def as_text(reading: Reading[object]) -> Reading[str]:
    """The reading, if it is a text or bytes of one."""
    value = reading.value.decode(errors="replace") if isinstance(reading.value, bytes) else reading.value
    return Reading(value) if isinstance(value, str) else unreadable(reading)


def field(reading: Reading[object], name: str) -> Reading[int]:
    """A number in a structure."""
    return unreadable(reading) if reading.value is None else as_int(Reading(getattr(reading.value, name, None)))


def unreadable(reading: Reading[object]) -> Reading[T]:
    """No value, with the reading's reason, or that its form is not known."""
    return Reading(reason=reading.reason or "NVML's answer has an unknown form", code=reading.code)


_REASONS: Final = {
    NOT_SUPPORTED: "not supported on this GPU",
    NO_PERMISSION: "no permission",
    9: "the NVIDIA driver is not loaded: install it or load its kernel module (nvidia-smi tells more)",
    12: "libnvidia-ml.so.1 was not found: install the NVIDIA driver, or give the container access to the GPU",
    FUNCTION_NOT_FOUND: "this driver's NVML has no such function",
    15: "the GPU is lost: it needs a reset or a reboot",
    16: "the GPU needs a reset",
    18: "NVML and the loaded kernel module are of different driver versions: reboot, or reload the NVIDIA module",
    999: "NVML reports an unknown error",
}


def _reason(error: Exception) -> str:
    code = _code(error)
    if code in _REASONS:
        return _REASONS[code]
    return f"NVML: {str(error) or type(error).__name__}"


def _code(error: Exception) -> int | None:
    code = getattr(error, "value", None)
    return code if isinstance(code, int) else None
