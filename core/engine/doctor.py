"""`python -m cgtop.core.engine.doctor`: one line of JSON (`DoctorReport`) on standard output, on any machine."""

import os
import platform
import sys
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from ..doctor_report import Check, CheckName, DoctorDevice, DoctorReport
from ..events import Error
from ..plurals import counted
from .diagnose import CudaFacts, judge, look, package_problem
from .nvml import Nvml, shared_nvml
from .nvml_card import Card
from .requirements import distribution, importable

VARIABLES: Final = (
    "CUDA_VISIBLE_DEVICES",
    "CUDA_DEVICE_ORDER",
    "CUDA_LAUNCH_BLOCKING",
    "CUBLAS_WORKSPACE_CONFIG",
    "PYTORCH_ALLOC_CONF",
    "PYTORCH_CUDA_ALLOC_CONF",
    "PYTORCH_NO_CUDA_MEMORY_CACHING",
)


def examine(nvml: Nvml | None = None, environ: Mapping[str, str] | None = None) -> DoctorReport:
    """Look at everything that a live run needs, on the first device. Imports torch if there is one. Never raises."""
    environ = os.environ if environ is None else environ
    nvml = nvml if nvml is not None else shared_nvml()
    try:
        facts, failed = look(0, nvml, environ), ""
    except Exception as error:
        facts, failed = CudaFacts(), f"{type(error).__name__}: {error}"
    makers: dict[CheckName, Callable[[], Check]] = {
        "packages": lambda: _packages(facts, failed),
        "cuda": lambda: _cuda(facts),
        "architecture": lambda: _architecture(facts),
        "nvml": lambda: _nvml(nvml),
        "card": lambda: _card(nvml, facts),
        "own pid": lambda: _own_pid(nvml),
        "cuda.bindings": lambda: _bindings(facts),
        "pynvml package": _pynvml_package,
        "environment": lambda: _environment(environ),
    }
    return DoctorReport(
        versions=_versions(facts, nvml),
        devices=tuple(_device(card) for card in (*nvml.cards, *nvml.mig_cards)),
        architectures=facts.architectures,
        environment={name: environ[name] for name in VARIABLES if name in environ},
        checks=tuple(_guarded(name, make) for name, make in makers.items()),
    )


def main() -> int:
    """Write the report. What libraries print on the way goes to standard error."""
    sys.stdout.flush()
    out = os.dup(1)
    os.dup2(2, 1)
    report = examine()
    with os.fdopen(out, "wb") as stream:
        stream.write(msgspec.json.encode(report) + b"\n")
    return 0


def _guarded(name: CheckName, make: Callable[[], Check]) -> Check:
    try:
        return make()
    except Exception as error:
        return Check(name=name, status="n/a", why=f"the check itself failed: {type(error).__name__}: {error}")


def _versions(facts: CudaFacts, nvml: Nvml) -> dict[str, str | None]:
    cuda = facts.driver_cuda or nvml.cuda_version()
    return {
        "cgtop": distribution("cgtop"),
        "python": platform.python_version(),
        "torch": facts.versions.get("torch"),
        "torch CUDA": facts.torch_cuda,
        "transformers": facts.versions.get("transformers"),
        "nvidia-ml-py": distribution("nvidia-ml-py"),
        "cuda-bindings": distribution("cuda-bindings"),
        "driver": nvml.driver_version(),
        "driver CUDA": f"{cuda[0]}.{cuda[1]}" if cuda else None,
    }


def _device(card: Card) -> DoctorDevice:
    memory = card.memory()
    capability = card.capability().value
    return DoctorDevice(
        name=card.name().value,
        uuid=card.uuid,
        capability=f"{capability[0]}.{capability[1]}" if capability else None,
        total_bytes=memory.value.total_bytes if memory.value else None,
        free_bytes=memory.value.free_bytes if memory.value else None,
        memory_reason=memory.reason,
        memory_bandwidth_bytes_s=card.bandwidth().value,
    )


def _packages(facts: CudaFacts, failed: str) -> Check:
    if failed:
        return Check(
            name="packages", status="FAIL", why=f"torch could not be examined: {failed}", todo="Reinstall torch."
        )
    value = ", ".join(f"{package} {version or 'missing'}" for package, version in facts.versions.items())
    return _from_error("packages", package_problem(facts), value)


def _cuda(facts: CudaFacts) -> Check:
    if package_problem(facts) is not None:
        return Check(name="cuda", status="n/a", why="needs the packages first")
    problem = judge(facts, 0)
    if problem is not None and problem.kind == "wrong_architecture":
        problem = None
    value = counted(facts.devices, "device") if facts.devices is not None else "no CUDA"
    return _from_error("cuda", problem, value)


def _architecture(facts: CudaFacts) -> Check:
    if not facts.devices or not facts.architectures or None in facts.capabilities or not facts.capabilities:
        return Check(name="architecture", status="n/a", why="needs a torch with CUDA and a GPU that NVML knows")
    problem = judge(facts, 0)
    value = "the GPU is " + " or ".join(f"sm_{c[0]}{c[1]}" for c in sorted({c for c in facts.capabilities if c}))
    return _from_error("architecture", problem, value)


def _nvml(nvml: Nvml) -> Check:
    if nvml.reason:
        why = "without NVML there is no telemetry, and driver memory cannot be told from that of other processes"
        return Check(name="nvml", status="WARN", value="not usable", why=why, todo=nvml.reason)
    return Check(name="nvml", status="PASS", value=f"{len(nvml.cards)} cards, driver {nvml.driver_version() or 'n/a'}")


def _card(nvml: Nvml, facts: CudaFacts) -> Check:
    match = nvml.match(0)
    if match.card is not None:
        return Check(name="card", status="PASS", value=f"cuda:0 is {match.card.uuid or 'known'}, by {match.by}")
    if not match.candidates:
        return Check(name="card", status="n/a", why=match.reason)
    return Check(name="card", status="WARN", value=f"one of {len(match.candidates)}", why=match.reason)


def _own_pid(nvml: Nvml) -> Check:
    match = nvml.match(0)
    if not match.candidates:
        return Check(name="own pid", status="n/a", why=match.reason)
    reading = match.candidates[0].process_bytes(has_context=False)
    if reading.processes is None:
        why = "driver memory will be n/a: NVML does not list processes"
        return Check(name="own pid", status="WARN", value="processes not readable", why=why, todo=reading.reason)
    value = f"{len(reading.processes)} processes listed"
    return Check(name="own pid", status="n/a", value=value, why="known once a run has a CUDA context")


def _bindings(facts: CudaFacts) -> Check:
    if facts.torch_cuda is None:
        return Check(name="cuda.bindings", status="n/a", why="used with CUDA only")
    if importable("cuda.bindings.runtime"):
        return Check(name="cuda.bindings", status="PASS", value=distribution("cuda-bindings") or "found")
    major = facts.torch_cuda.split(".")[0]
    return Check(
        name="cuda.bindings",
        status="WARN",
        value="missing",
        why="the nodes of a graph cannot be counted: they are shown as n/a",
        todo=f"pip install 'cuda-bindings=={major}.*'",
    )


def _pynvml_package() -> Check:
    version = distribution("pynvml")
    if version is None:
        return Check(name="pynvml package", status="PASS", value="not installed")
    return Check(
        name="pynvml package",
        status="WARN",
        value=f"pynvml {version}",
        why="it is deprecated, takes the module name of nvidia-ml-py and makes torch warn",
        todo="pip uninstall pynvml && pip install --force-reinstall nvidia-ml-py",
    )


def _environment(environ: Mapping[str, str]) -> Check:
    found = [f"{name}={environ[name]}" for name in VARIABLES if name in environ]
    effects = _effects(environ)
    return Check(
        name="environment",
        status="WARN" if effects else "PASS",
        value=", ".join(found) or "nothing set that changes the figures",
        why="; ".join(effects),
        todo="Unset them for figures that compare with others'." if effects else "",
    )


def _effects(environ: Mapping[str, str]) -> list[str]:
    allocator = f"{environ.get('PYTORCH_ALLOC_CONF', '')},{environ.get('PYTORCH_CUDA_ALLOC_CONF', '')}".replace(" ", "")
    effects = {
        "every launch waits for the GPU: eager speeds are far too low": environ.get("CUDA_LAUNCH_BLOCKING", "0") != "0",
        "the size of cuBLAS workspaces is set by hand": "CUBLAS_WORKSPACE_CONFIG" in environ,
        "expandable segments: reserved memory grows in steps of 2 or 20 MiB": "expandable_segments:True" in allocator,
        "cudaMallocAsync: the allocator's map and private pools are not shown": "backend:cudaMallocAsync" in allocator,
        "the caching allocator is off: no capture": environ.get("PYTORCH_NO_CUDA_MEMORY_CACHING", "0") != "0",
    }
    return [effect for effect, there in effects.items() if there]


def _from_error(name: CheckName, problem: Error | None, value: str) -> Check:
    if problem is None:
        return Check(name=name, status="PASS", value=value)
    return Check(name=name, status="FAIL", value=value, why=problem.headline, todo=problem.hint)


if __name__ == "__main__":
    sys.exit(main())
