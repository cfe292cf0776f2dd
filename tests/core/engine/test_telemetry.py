"""The telemetry loop: events at its pace, reasons for what is missing, an end where there is nothing to read."""

import os
import threading
import time
from collections.abc import Callable

import pytest

from cgtop.core.engine.nvml import Nvml, open_nvml
from cgtop.core.engine.telemetry import HZ_MIN, device_index, telemetry_loop
from cgtop.core.events import Event, Telemetry, decode_event, encode_event
from cgtop.core.memory_map import GIB
from tests.fakes.nvml import CARD_CALLS, ERRORS, NOT_SUPPORTED, FakeCard, FakeNvml
from tests.fakes.processes import PATIENCE_S, takes_less

A = FakeCard("GPU-aaaa", (0, 1, 0), compute=[(os.getpid(), 5), (7, 3)], throttle=4)
B = FakeCard("GPU-bbbb", (0, 2, 0))


def collect(
    nvml: Nvml, device: str = "cuda", *, events: int = 1, after_the_first: Callable[[], None] = lambda: None
) -> list[Telemetry]:
    """What the loop emits until it ended by itself or has emitted so many."""
    stop, seen = threading.Event(), list[Telemetry]()

    def emit(event: Event) -> None:
        assert isinstance(event, Telemetry)
        seen.append(event)
        if len(seen) >= events:
            stop.set()
        elif len(seen) == 1:
            after_the_first()

    thread = threading.Thread(target=telemetry_loop, args=(device, emit, stop), kwargs={"hz": 2.0, "nvml": nvml})
    thread.start()
    thread.join(PATIENCE_S)
    assert not thread.is_alive()
    return seen


def test_everything_that_nvml_tells_is_in_the_event() -> None:
    [event] = collect(open_nvml(FakeNvml(A), {}))
    assert (event.used_bytes, event.total_bytes, event.memory_api) == (3 * GIB, 140 * GIB, "v2")
    assert (event.gpu_percent, event.memory_percent, event.sm_mhz, event.memory_mhz) == (97, 31, 1980, 3201)
    assert (event.power_w, event.power_limit_w, event.temperature_c, event.throttle) == (
        350.5,
        700.0,
        40,
        ("power cap",),
    )
    assert (event.pcie_gen, event.pcie_width, event.pcie_gen_max, event.pcie_width_max) == (5, 16, 5, 16)
    assert event.processes is not None
    assert [(process.bytes, process.own) for process in sorted(event.processes, key=lambda one: one.own)] == [
        (3, False),
        (5, True),
    ]
    assert (event.matched_by, event.reasons) == ("only card", {})


def test_without_nvml_there_is_one_event_with_the_reason_and_an_end() -> None:
    [event] = collect(open_nvml(FakeNvml(A, fail={"nvmlInit": 12}), {}), events=99)
    assert "libnvidia-ml" in event.reasons["nvml"]
    assert event.total_bytes is None


def test_on_the_cpu_there_is_one_event_and_an_end() -> None:
    [event] = collect(open_nvml(FakeNvml(A), {}), "cpu", events=99)
    assert "CPU" in event.reasons["nvml"]


def test_an_unmatched_card_is_said_once_and_matched_when_a_context_is_announced() -> None:
    nvml = open_nvml(FakeNvml(A, B), {})
    threads: list[threading.Timer] = []

    def announce_when_it_has_looked_again() -> None:
        threads.append(threading.Timer(1.2, nvml.announce, (0,), {"uuid": "bbbb"}))
        threads[0].start()

    first, second = collect(nvml, events=2, after_the_first=announce_when_it_has_looked_again)
    threads[0].join()
    assert first.reasons["card"].startswith("unmatched")
    assert first.used_bytes is None
    assert second.matched_by == "uuid"


def test_a_hidden_pid_is_only_said_of_a_process_with_a_context() -> None:
    nvml = open_nvml(FakeNvml(B), {})
    assert not collect(nvml)[0].pid_hidden
    nvml.announce(0, uuid="bbbb")
    [event] = collect(nvml)
    assert event.pid_hidden
    assert "pid" in event.reasons["processes"]


@pytest.mark.parametrize("code", ERRORS)
@pytest.mark.parametrize("name", CARD_CALLS)
def test_a_field_that_fails_is_none_with_a_reason_and_the_event_is_still_an_event(name: str, code: int) -> None:
    [event] = collect(open_nvml(FakeNvml(A, fail={name: code}), {}))
    for field in Telemetry.__struct_fields__:
        if field not in ("t", "reasons", "pid_hidden", "matched_by", "memory_api") and getattr(event, field) is None:
            assert field in event.reasons or "card" in event.reasons, field
    assert decode_event(encode_event(event)) == event


def test_memory_that_is_not_supported_is_none_and_the_rest_goes_on() -> None:
    [event] = collect(open_nvml(FakeNvml(A, fail={"nvmlDeviceGetMemoryInfo": NOT_SUPPORTED}), {}))
    assert (event.used_bytes, event.total_bytes, event.memory_api, event.gpu_percent) == (None, None, None, 97)
    assert event.reasons["used_bytes"] == "not supported on this GPU"


def test_a_sink_that_is_gone_ends_the_loop_quietly() -> None:
    def emit(event: Event) -> None:
        raise BrokenPipeError

    telemetry_loop("cuda", emit, threading.Event(), nvml=open_nvml(FakeNvml(A), {}))


@pytest.mark.timed
def test_stop_ends_the_loop_at_once() -> None:
    def stopped() -> float:
        stop, told = threading.Event(), threading.Event()
        nvml = open_nvml(FakeNvml(A), {})
        thread = threading.Thread(
            target=telemetry_loop, args=("cuda", lambda event: told.set(), stop), kwargs={"hz": HZ_MIN, "nvml": nvml}
        )
        thread.start()
        assert told.wait(PATIENCE_S)
        begun = time.monotonic()
        stop.set()
        thread.join(PATIENCE_S)
        return time.monotonic() - begun

    assert takes_less(0.5, stopped)


def test_device_settings_as_cuda_indices() -> None:
    assert [device_index(device) for device in ("auto", "cuda", "cuda:0", "cuda:3", "cpu")] == [0, 0, 0, 3, None]
