"""How much of the host's memory there is, for a model on the CPU and for logits that are compared.

Asked before it is taken: Linux ends who takes too much without a word.
"""

from pathlib import Path

from .. import sizing
from ..events import ModelInfo
from ..memory_map import size_words
from ..presets import PRESETS
from ..settings import RunSettings
from .failures import EngineError
from .knobs import oom_hint, smaller_presets

MEMINFO = Path("/proc/meminfo")
CGROUP = Path("/sys/fs/cgroup")


def available_bytes(meminfo: Path = MEMINFO, cgroup: Path = CGROUP) -> int | None:
    """The least of what Linux calls available and what the control group (version 2) leaves; null where unknown.

    Pages of files that the group has cached count as available: they are given up first.
    """
    found = [value for value in (_meminfo(meminfo), _left_in_group(cgroup)) if value is not None]
    return min(found, default=None)


def require_host_memory(info: ModelInfo, settings: RunSettings, available: int | None) -> None:
    """Raise `EngineError` (kind "out_of_memory") where the host has less than weights and StaticCache need."""
    needed = info.parameter_bytes + info.static_cache_bytes
    if available is None or needed <= available:
        return
    raise EngineError(
        "out_of_memory",
        f"Not enough memory for this model: {size_words(needed)} needed by weights and StaticCache, "
        f"{size_words(available)} available on this machine",
        _hint(info, settings, available, needed),
        recoverable=True,
    )


def _hint(info: ModelInfo, settings: RunSettings, available: int, needed: int) -> str:
    """The largest smaller preset that fits with the same cache; where none does, a smaller cache."""
    for name in smaller_presets(info.name):
        shape = PRESETS[name]
        cache = sizing.static_cache_bytes(
            sizing.kv_shape(shape),
            batch_size=settings.batch_size,
            max_cache_len=settings.max_cache_len,
            dtype=info.dtype,
        )
        if sizing.parameter_bytes(shape, info.dtype) + cache <= available:
            return f"Try --model {name} (now {info.name})."
    return oom_hint("static_cache", available, needed, settings)


def _meminfo(path: Path) -> int | None:
    try:
        for line in path.read_text().splitlines():
            name, _, value = line.partition(":")
            if name == "MemAvailable":
                return int(value.split()[0]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    return None


def _left_in_group(folder: Path) -> int | None:
    try:
        limit = int((folder / "memory.max").read_text())  # "max" where there is none
        used = int((folder / "memory.current").read_text())
        cached = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines()).get("file", "0")
        return max(0, limit - used + int(cached))
    except (OSError, ValueError):
        return None
