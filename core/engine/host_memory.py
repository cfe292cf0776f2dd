"""How much memory a run on the CPU may take, asked before it is taken: Linux ends who takes too much without a word."""

from pathlib import Path

from ..memory_map import size_words
from ..settings import RunSettings
from .failures import EngineError
from .knobs import oom_hint

MEMINFO = Path("/proc/meminfo")
CGROUP = Path("/sys/fs/cgroup")


def available_bytes(meminfo: Path = MEMINFO, cgroup: Path = CGROUP) -> int | None:
    """The least of what Linux calls available and what the control group (version 2) leaves; null where unknown.

    Pages of files that the group has cached count as available: they are given up first.
    """
    found = [value for value in (_meminfo(meminfo), _left_in_group(cgroup)) if value is not None]
    return min(found, default=None)


def require_host_memory(needed: int, settings: RunSettings, available: int | None) -> None:
    """Raise `EngineError` (kind "out_of_memory", phase load) where the host has less than `needed` bytes."""
    if available is None or needed <= available:
        return
    raise EngineError(
        "out_of_memory",
        f"Not enough memory for this model: {size_words(needed)} needed by weights and StaticCache, "
        f"{size_words(available)} available on this machine",
        oom_hint("load", available, needed, settings),
        recoverable=True,
    )


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
