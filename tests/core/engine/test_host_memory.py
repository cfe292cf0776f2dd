"""What a run on the CPU may take, and that one that needs more is refused before the system ends it."""

from pathlib import Path

import msgspec
import pytest

from cgtop.core.commands import RunPhase
from cgtop.core.engine import workflow
from cgtop.core.engine.failures import EngineError
from cgtop.core.engine.host_memory import available_bytes, require_host_memory
from cgtop.core.engine.models import resolve
from cgtop.core.events import DeviceInfo, Error, ModelInfo, PhaseEnd
from cgtop.core.memory_map import GIB
from cgtop.core.settings import RunSettings
from tests.core.engine.driving import Driven, last


def machine(folder: Path, available_kib: int, group: tuple[str, int, int] | None = None) -> tuple[Path, Path]:
    meminfo = folder / "meminfo"
    meminfo.write_text(f"MemTotal:  99999999 kB\nMemAvailable:   {available_kib} kB\nBuffers: 1 kB\n")
    if group is not None:
        limit, current, cached = group
        (folder / "memory.max").write_text(f"{limit}\n")
        (folder / "memory.current").write_text(f"{current}\n")
        (folder / "memory.stat").write_text(f"anon 5\nfile {cached}\n")
    return meminfo, folder


def test_the_least_of_machine_and_control_group_counts(tmp_path: Path) -> None:
    assert available_bytes(*machine(tmp_path, 4096)) == 4096 * 1024
    assert available_bytes(*machine(tmp_path, 4096, ("max", 10, 5))) == 4096 * 1024
    assert available_bytes(*machine(tmp_path, 4096, ("1000", 800, 300))) == 500
    assert available_bytes(*machine(tmp_path, 4096, ("1000", 2000, 0))) == 0
    assert available_bytes(*machine(tmp_path, 1, ("1000000", 0, 0))) == 1024


def test_where_nothing_tells_it_is_unknown_and_nothing_is_refused(tmp_path: Path) -> None:
    assert available_bytes(tmp_path / "none", tmp_path) is None
    (tmp_path / "meminfo").write_text("MemAvailable: many kB\n")
    assert available_bytes(tmp_path / "meminfo", tmp_path) is None
    require_host_memory(*planned("qwen3-8b"), None)


def test_this_machine_has_some() -> None:
    available = available_bytes()
    assert available is None or 0 < available < 1 << 50


def planned(model: str, **changes: object) -> tuple[ModelInfo, RunSettings]:
    settings = msgspec.structs.replace(RunSettings(device="cpu", model=model), **changes)
    return resolve(settings, DeviceInfo(kind="cpu", name="a CPU")).info, settings


@pytest.mark.parametrize(
    ("available", "hint"),
    [
        (20 * GIB, "Try --model qwen3-4b (now qwen3-8b)."),
        (10 * GIB, "Try --model qwen3-1.7b (now qwen3-8b)."),
        (1 * GIB, "Try --model tiny (now qwen3-8b)."),
    ],
)
def test_too_large_a_model_is_refused_with_both_figures_and_one_that_fits(available: int, hint: str) -> None:
    info, settings = planned("qwen3-8b")
    needed = info.parameter_bytes + info.static_cache_bytes
    require_host_memory(info, settings, needed)
    with pytest.raises(EngineError) as refused:
        require_host_memory(info, settings, available)
    assert (refused.value.kind, refused.value.recoverable) == ("out_of_memory", True)
    assert f"GiB needed by weights and StaticCache, {available / GIB:.2f} GiB available" in refused.value.headline
    assert refused.value.hint == hint


def test_where_no_preset_fits_the_cache_is_what_to_turn() -> None:
    info, settings = planned("tiny", max_cache_len=40_000)
    with pytest.raises(EngineError) as refused:
        require_host_memory(info, settings, 1 << 20)
    assert "--max-cache-len" in refused.value.hint


def test_a_run_on_the_cpu_asks_before_it_loads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workflow, "available_bytes", lambda: 1000)
    driven = Driven()
    driven.run(RunPhase(), RunPhase())
    error = last(driven.of(Error))
    assert (error.kind, error.phase, error.recoverable) == ("out_of_memory", "load", True)
    assert not [end for end in driven.of(PhaseEnd) if end.phase == "load"]
