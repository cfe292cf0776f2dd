"""After out of memory: the one setting to turn, and to what value."""

from typing import Final

import msgspec

from ..events import PhaseId
from ..settings import RunSettings

_BY_SIZE: Final = ("qwen3-8b", "qwen3-4b", "qwen3-1.7b", "qwen3-0.6b", "tiny")


def oom_hint(phase: PhaseId | None, free: int | None, needed: int | None, settings: RunSettings | None) -> str:
    """One sentence that names one flag with a value.

    Weights (`load`): a smaller preset; half the batch where there is none, whose prompt is made then. Prompt
    (`prefill`): half the batch or the prompt. From the StaticCache on, whose size is proportional to both: half the
    batch, else half the cache. "Half" is repeated until `needed` fits `free`.
    """
    if phase == "context" or settings is None:
        return "End other processes on the GPU, or choose another one with --device cuda:N."
    if settings.model is None and settings.device == "cpu":
        settings = msgspec.structs.replace(settings, model="tiny")  # what null means there
    if phase == "load" and not (settings.model == "tiny" and settings.batch_size > 1):
        return _smaller_model(settings)
    parts = _parts(free, needed)
    if settings.batch_size > 1:
        return f"Try --batch-size {max(1, settings.batch_size // parts)} (now {settings.batch_size})."
    if phase == "prefill":
        if settings.prompt is not None:
            return "Try a shorter --prompt."
        if settings.prompt_len > 1:
            return f"Try --prompt-len {max(1, settings.prompt_len // parts)} (now {settings.prompt_len})."
        return _smaller_model(settings)
    least = settings.prompt_len + 1 if settings.prompt is None else 2
    smaller = max(least, settings.max_cache_len // parts)
    if smaller < settings.max_cache_len:
        return f"Try --max-cache-len {smaller} (now {settings.max_cache_len})."
    return _smaller_model(settings)


def smaller_presets(model: str) -> tuple[str, ...]:
    """Presets smaller than this one, the largest first; all of them where it is none."""
    return _BY_SIZE[_BY_SIZE.index(model) + 1 :] if model in _BY_SIZE else _BY_SIZE


def _parts(free: int | None, needed: int | None) -> int:
    """A power of two, 2 or more: into how many parts `needed` goes before one of them fits."""
    parts = 2
    while free and needed and needed > free * parts and parts < 1 << 20:
        parts *= 2
    return parts


def _smaller_model(settings: RunSettings) -> str:
    if settings.model not in _BY_SIZE:
        if settings.model is not None and settings.dtype == "float32":
            return "Try --dtype bfloat16, which halves the weights."
        return "Try a smaller model, such as --model qwen3-0.6b."
    rest = smaller_presets(settings.model)
    if not rest:
        return "End other processes on the device: there is no smaller preset."
    return f"Try --model {rest[0]} (now {settings.model})."
