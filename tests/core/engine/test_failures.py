"""Exceptions as torch, CUDA and the system raise them, and what a person is told."""

from pathlib import Path

import msgspec
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from cgtop.core.engine.failures import DETAIL_MAX, EngineError, error_from, exit_code
from cgtop.core.engine.knobs import oom_hint
from cgtop.core.events import ERROR_KINDS, PhaseId
from cgtop.core.memory_map import GIB, MIB
from cgtop.core.phases import PHASE_IDS
from cgtop.core.settings import RunSettings, SettingsError

OOM = (
    "CUDA out of memory. Tried to allocate 2.25 GiB. GPU 0 has a total capacity of 23.65 GiB of which 512.00 MiB is "
    "free. Including non-PyTorch memory, this process has 22.40 GiB memory in use. Of the allocated memory 20.13 GiB "
    "is allocated by PyTorch, with 34.00 MiB allocated in private pools (e.g., CUDA Graphs), and 8.94 MiB is reserved "
    "by PyTorch but unallocated."
)
DEBUG = "\nCUDA kernel errors might be asynchronously reported at some other API call.\n"
STICKY = (
    "device-side assert triggered",
    "an illegal memory access was encountered",
    "misaligned address",
    "an illegal instruction was encountered",
    "invalid program counter",
    "operation not supported on global/shared address space",
    "hardware stack error",
    "unspecified launch failure",
    "the launch timed out and was terminated",
    "uncorrectable ECC error encountered",
    "uncorrectable NVLink error detected during the execution",
    "Invalid access of peer GPU memory over nvlink or a hardware error",
    "context is destroyed",
    "unknown error",
)


def test_a_torch_oom_names_phase_figures_and_one_knob() -> None:
    settings = RunSettings(max_cache_len=8192)
    error = error_from(torch.OutOfMemoryError(OOM), "static_cache", reserved=20 * GIB, settings=settings)
    assert error.kind == "out_of_memory"
    assert error.recoverable
    assert (error.needed_bytes, error.free_bytes, error.reserved_bytes) == (2.25 * GIB, 512 * MIB, 20 * GIB)
    assert error.headline == "Out of memory in StaticCache allocation: 2.25 GiB needed, 512.0 MiB free"
    assert error.hint == "Try --max-cache-len 1024 (now 8192)."
    assert "Of the allocated memory" in error.detail


def test_what_the_caller_measured_beats_what_the_message_rounds() -> None:
    error = error_from(torch.OutOfMemoryError(OOM), "load", free=7, needed=11)
    assert (error.needed_bytes, error.free_bytes) == (11, 7)


def test_an_oom_in_the_form_of_older_torch_is_read_too() -> None:
    text = "CUDA out of memory. Tried to allocate 264.00 MiB (GPU 0; 2.00 GiB total capacity; 145.50 MiB free)"
    error = error_from(RuntimeError(text), "prefill")
    assert (error.kind, error.needed_bytes, error.free_bytes) == ("out_of_memory", 264 * MIB, 145.5 * MIB)


def test_a_real_cpu_allocation_that_is_too_large_is_out_of_memory_with_its_exact_size() -> None:
    with pytest.raises(RuntimeError) as caught:
        torch.empty(1 << 50)
    error = error_from(caught.value, "static_cache")
    assert (error.kind, error.needed_bytes) == ("out_of_memory", 1 << 52)


@pytest.mark.parametrize("text", ["CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`", "out of memory"])
def test_memory_that_ran_out_in_a_library_is_out_of_memory(text: str) -> None:
    assert error_from(torch.AcceleratorError(f"CUDA error: {text}{DEBUG}"), "warmup").kind == "out_of_memory"


@pytest.mark.parametrize("text", STICKY)
def test_sticky_errors_lose_the_device_and_name_the_way_out(text: str) -> None:
    error = error_from(torch.AcceleratorError(f"CUDA error: {text}{DEBUG}"), "replay")
    assert (error.kind, error.recoverable) == ("device_lost", False)
    assert "R" in error.hint


def test_a_sticky_error_is_not_hidden_by_what_followed_it() -> None:
    try:
        try:
            raise torch.AcceleratorError("CUDA error: device-side assert triggered")
        finally:
            raise EngineError("capture", "could not be captured", recoverable=True)
    except EngineError as caught:
        error = error_from(caught, "capture")
    assert (error.kind, error.recoverable) == ("device_lost", False)


def test_memory_that_ran_out_inside_a_capture_is_not_called_a_capture_error() -> None:
    try:
        try:
            raise torch.OutOfMemoryError(OOM)
        finally:
            raise torch.AcceleratorError("CUDA error: operation failed due to a previous error during capture")
    except torch.AcceleratorError as caught:
        assert error_from(caught, "capture").kind == "out_of_memory"


@pytest.mark.parametrize(
    "text",
    [
        "operation not permitted when stream is capturing",
        "operation failed due to a previous error during capture",
        "capturing stream has unjoined work",
        "dependency created on uncaptured work in another stream",
        "operation would result in a merge of separate capture sequences",
    ],
)
def test_capture_errors_leave_the_worker_usable(text: str) -> None:
    error = error_from(torch.AcceleratorError(f"CUDA error: {text}{DEBUG}"), "capture")
    assert (error.kind, error.recoverable) == ("capture", True)
    eager = error_from(
        torch.AcceleratorError(f"CUDA error: {text}"), "capture", settings=RunSettings(attention="eager")
    )
    assert "--attention sdpa" in eager.hint


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("CUDA error: no kernel image is available for execution on the device", "wrong_architecture"),
        ("The NVIDIA driver on your system is too old (found version 11040).", "driver_too_old"),
        ("CUDA driver version is insufficient for CUDA runtime version", "driver_too_old"),
        ("Found no NVIDIA driver on your system.", "no_device"),
        ("No CUDA GPUs are available", "no_device"),
        ("CUDA error: invalid device ordinal", "no_device"),
        ("CUDA error: CUDA-capable device(s) is/are busy or unavailable", "no_device"),
    ],
)
def test_unusable_devices_lead_to_exit_code_3(text: str, kind: str) -> None:
    assert error_from(RuntimeError(text), "context").kind == kind
    assert exit_code(kind) == 3


@pytest.mark.skipif(torch.version.cuda is not None, reason="needs a torch without CUDA")
def test_what_a_cpu_torch_raises_for_cuda_is_no_cuda() -> None:
    with pytest.raises(AssertionError) as caught:
        torch.zeros(1, device="cuda")
    assert error_from(caught.value, "context").kind == "no_cuda"


def test_a_write_past_the_end_of_a_cache_on_cpu_is_cache_too_small() -> None:
    cache = torch.zeros(1, 1, 4, 2)
    with pytest.raises(IndexError) as caught:
        cache.index_copy_(2, torch.tensor([4]), torch.ones(1, 1, 1, 2))
    assert error_from(caught.value, "replay").kind == "cache_too_small"


def test_other_known_failures() -> None:
    with pytest.raises(ImportError) as missing:
        __import__("a_package_that_is_not_there.sub")
    error = error_from(missing.value, None)
    assert error.kind == "missing_package"
    assert "pip install 'a_package_that_is_not_there'" in error.hint
    assert error_from(SettingsError("no"), None).kind == "settings"
    assert exit_code("settings") == 2
    assert error_from(FileNotFoundError("config.json"), "load").kind == "checkpoint"
    assert error_from(ValueError("Please pass the argument `trust_remote_code=True`"), "load").kind == "remote_code"
    internal = error_from(KeyError("x"), "replay")
    assert (internal.kind, internal.headline) == ("internal", "KeyError: 'x'")
    assert exit_code("internal") == 1


def test_an_engine_error_says_what_it_was_given() -> None:
    error = error_from(EngineError("stale_graph", "keys moved", "capture again", recoverable=True), "replay", free=5)
    assert (error.kind, error.headline, error.hint) == ("stale_graph", "keys moved", "capture again")
    assert (error.recoverable, error.phase, error.free_bytes) == (True, "replay", 5)
    assert error_from(EngineError("no such kind", "x"), None).kind == "internal"


@given(
    text=st.text(max_size=200) | st.sampled_from([OOM, *STICKY]),
    cls=st.sampled_from([RuntimeError, ValueError, OSError, IndexError, MemoryError, KeyError, torch.AcceleratorError]),
    phase=st.sampled_from([None, *PHASE_IDS]),
)
def test_every_exception_becomes_a_known_kind_with_headline_and_hint(
    text: str, cls: type[Exception], phase: PhaseId | None
) -> None:
    error = error_from(cls(text), phase, settings=RunSettings())
    assert error.kind in ERROR_KINDS
    assert error.headline
    assert error.hint
    assert len(error.detail) <= DETAIL_MAX


@pytest.mark.parametrize(
    ("phase", "settings", "hint"),
    [
        ("load", RunSettings(model="qwen3-8b"), "Try --model qwen3-4b (now qwen3-8b)."),
        ("load", RunSettings(model=str(Path("m")), dtype="float32"), "Try --dtype bfloat16, which halves the weights."),
        ("load", RunSettings(model="tiny"), "End other processes on the device: there is no smaller preset."),
        ("context", RunSettings(), "End other processes on the GPU, or choose another one with --device cuda:N."),
        ("prefill", RunSettings(prompt_len=512), "Try --prompt-len 256 (now 512)."),
        ("prefill", RunSettings(model="m", prompt="hello"), "Try a shorter --prompt."),
        ("capture", RunSettings(batch_size=8), "Try --batch-size 4 (now 8)."),
        ("replay", RunSettings(max_cache_len=40, prompt_len=32), "Try --max-cache-len 33 (now 40)."),
        ("static_cache", RunSettings(max_cache_len=33, model="qwen3-4b"), "Try --model qwen3-1.7b (now qwen3-4b)."),
    ],
)
def test_the_knob_fits_the_phase(phase: PhaseId, settings: RunSettings, hint: str) -> None:
    assert oom_hint(phase, None, None, settings) == hint


def test_the_knob_goes_as_far_as_the_figures_ask() -> None:
    assert oom_hint("static_cache", GIB, 4 * GIB, RunSettings(batch_size=16)) == "Try --batch-size 4 (now 16)."


def test_the_smallest_model_is_not_told_to_be_a_larger_one() -> None:
    for model in (None, "tiny"):
        run = RunSettings(model=model, device="cpu", batch_size=1 << 30)
        assert oom_hint("load", 1 << 30, 1 << 33, run) == "Try --batch-size 134217728 (now 1073741824)."
        alone = msgspec.structs.replace(run, batch_size=1)
        assert "no smaller preset" in oom_hint("load", 1 << 30, 1 << 33, alone)
