"""Turns an exception into what a person needs: an `Error` event with a headline, a hint and whether to go on.

Exceptions of torch are told apart by class name and text, so this module needs no torch.
"""

import traceback
from collections.abc import Iterator
from typing import Final

import msgspec

from ..events import ERROR_KINDS, Error, PhaseId
from ..live import to_install
from ..memory_map import size_words
from ..phases import PHASE_BY_ID
from ..settings import RunSettings, SettingsError
from . import cuda_errors
from .knobs import oom_hint

EXIT_FAILED: Final = 1
EXIT_USAGE: Final = 2
EXIT_NO_DEVICE: Final = 3

NO_DEVICE_KINDS: Final = frozenset({"no_cuda", "driver_too_old", "no_device", "wrong_architecture", "missing_package"})
DETAIL_MAX: Final = 64 * 1024
"""Characters of a traceback that are kept: its end, which names the error."""


class EngineError(Exception):
    """A failure whose meaning is known where it is raised.

    `kind` is one of `events.ERROR_KINDS`; `recoverable`: whether this worker can go on.
    """

    def __init__(self, kind: str, headline: str, hint: str = "", *, recoverable: bool = False) -> None:
        super().__init__(headline)
        self.kind = kind
        self.headline = headline
        self.hint = hint
        self.recoverable = recoverable


def exit_code(kind: str) -> int:
    """What a headless command returns after an error of this kind."""
    if kind in NO_DEVICE_KINDS:
        return EXIT_NO_DEVICE
    return EXIT_USAGE if kind == "settings" else EXIT_FAILED


def error_from(
    exception: BaseException,
    phase: PhaseId | None,
    *,
    free: int | None = None,
    reserved: int | None = None,
    needed: int | None = None,
    settings: RunSettings | None = None,
) -> Error:
    """The `Error` event for an exception that a phase raised (`phase` null: outside of all phases).

    `free`, `reserved` and `needed` are bytes as the caller measured them; where it could not, torch's message is read.
    `detail` is the traceback. An exception behind another one counts: a capture that ended because memory ran out is
    "out_of_memory", and nothing hides an error after which the context is lost.
    """
    chain = tuple(_chain(exception))
    text = "\n".join(f"{type(link).__name__}: {link}" for link in chain).lower()
    known = next((link for link in chain if isinstance(link, EngineError)), None)
    lost = cuda_errors.sticky(text)
    if lost is not None:
        error = Error(kind=lost.kind, headline=lost.headline, hint=lost.hint)
    elif known is not None:
        error = Error(kind=known.kind, headline=known.headline, hint=known.hint, recoverable=known.recoverable)
    elif _is_out_of_memory(chain, text):
        needed = cuda_errors.needed_bytes(text) if needed is None else needed
        free = cuda_errors.free_bytes(text) if free is None else free
        error = _out_of_memory(phase, free, needed, settings)
    else:
        error = _by_text(exception, text, phase, settings)
    return msgspec.structs.replace(
        error,
        kind=error.kind if error.kind in ERROR_KINDS else "internal",
        phase=phase,
        detail="".join(traceback.format_exception(exception))[-DETAIL_MAX:],
        free_bytes=free,
        reserved_bytes=reserved,
        needed_bytes=needed,
    )


def _chain(exception: BaseException) -> Iterator[BaseException]:
    """The exception, then what it was raised from or while handling."""
    seen: set[int] = set()
    current: BaseException | None = exception
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        yield current
        current = current.__cause__ or (None if current.__suppress_context__ else current.__context__)


def _is_out_of_memory(chain: tuple[BaseException, ...], text: str) -> bool:
    named = any(cls.__name__ == "OutOfMemoryError" for link in chain for cls in type(link).__mro__)
    return named or isinstance(chain[0], MemoryError) or cuda_errors.out_of_memory(text)


def _out_of_memory(phase: PhaseId | None, free: int | None, needed: int | None, settings: RunSettings | None) -> Error:
    where = f" in {PHASE_BY_ID[phase].title}" if phase is not None else ""
    figures = [f"{size_words(needed)} needed"] if needed is not None else []
    figures += [f"{size_words(free)} free"] if free is not None else []
    return Error(
        kind="out_of_memory",
        headline=f"Out of memory{where}" + (f": {', '.join(figures)}" if figures else ""),
        hint=oom_hint(phase, free, needed, settings),
        recoverable=True,
    )


def _by_text(exception: BaseException, text: str, phase: PhaseId | None, settings: RunSettings | None) -> Error:
    if isinstance(exception, SettingsError):
        return Error(kind="settings", headline=str(exception), hint="Change the setting and start again.")
    unusable = cuda_errors.unusable_device(text)
    if unusable is not None:
        return Error(kind=unusable.kind, headline=unusable.headline, hint=unusable.hint)
    if cuda_errors.capture(text):
        return _capture(settings)
    if isinstance(exception, IndexError) and "out of bounds" in text and "index_" in text:
        return Error(
            kind="cache_too_small",
            headline="A token was to be written past the end of the cache",
            hint="Choose a larger --max-cache-len, then press R.",
        )
    if isinstance(exception, ImportError):
        return missing_package(exception.name or str(exception))
    if "trust_remote_code" in text:
        return Error(
            kind="remote_code",
            headline="This checkpoint brings Python code of its own",
            hint="Read that code first; --trust-remote-code then runs it.",
        )
    if phase == "load" and (isinstance(exception, OSError) or type(exception).__name__ == "SafetensorError"):
        return Error(
            kind="checkpoint",
            headline=f"The checkpoint cannot be read: {_first_line(exception)}",
            hint="Check that its folder is complete (config.json and the weights), or name a preset with --model.",
        )
    return Error(
        kind="internal",
        headline=f"{type(exception).__name__}: {_first_line(exception)}",
        hint="An error in cgtop or in a library below it. Press R to start anew; the traceback says where it happened.",
    )


def missing_package(name: str) -> Error:
    """A Python package that a live run needs and that cannot be imported."""
    package = name.split(".")[0]
    return Error(
        kind="missing_package",
        headline=f"The Python package {package} cannot be imported",
        hint=f"{to_install(package)} `cgtop doctor` lists what a live run needs.",
    )


def _capture(settings: RunSettings | None) -> Error:
    if settings is not None and settings.attention == "eager":
        hint = 'Attention "eager" copies a CPU scalar to the GPU in each step: use --attention sdpa.'
    else:
        hint = (
            "The decode step does something that cannot be recorded, such as waiting for the GPU or copying from the "
            "CPU: the traceback shows where. Eager decoding still works; R starts anew."
        )
    return Error(kind="capture", headline="The decode step cannot be captured", hint=hint, recoverable=True)


def _first_line(exception: BaseException) -> str:
    return (str(exception).strip().splitlines() or ["no message"])[0][:300]
