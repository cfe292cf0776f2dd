"""Settings that cannot work are refused before anything starts, with what would work."""

import pytest

from cgtop.core.settings import RunSettings, SettingsError


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (RunSettings(batch_size=0), "batch size must be 1 or more"),
        (RunSettings(prompt_len=0), "prompt length must be 1 or more"),
        (RunSettings(prompt_len=32, max_cache_len=32), "choose --max-cache-len 33 or more"),
        (RunSettings(warmup=-1), "warmup must be 0 to 100"),
        (RunSettings(verify_steps=63), "at least 64 steps"),
        (RunSettings(verify_steps=10**9), "at most 4096 steps"),
        (RunSettings(seed=-1), "seed must be 0 to"),
        (RunSettings(seed=1 << 64), "seed must be 0 to"),
        (RunSettings(device="gpu"), "device must be auto, cpu, cuda or cuda:N"),
        (RunSettings(device="cuda:x"), "device must be auto, cpu, cuda or cuda:N"),
        (RunSettings(prompt="hello"), "presets have random weights and none"),
        (RunSettings(model="folder", prompt="\x01" * 25_000), "at most 100,000"),
        (RunSettings(model="folder", prompt="a\udcff"), "not UTF-8"),
    ],
)
def test_what_cannot_work_is_refused_with_a_reason(settings: RunSettings, message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        settings.validated()


@pytest.mark.parametrize(
    "settings",
    [
        RunSettings(),
        RunSettings(warmup=0, verify_steps=0, tokens=1),
        RunSettings(device="cuda:3", seed=(1 << 63) - 1),
        RunSettings(model="a folder", prompt="grüß dich " * 1000),
    ],
)
def test_what_can_work_is_taken_as_it_is(settings: RunSettings) -> None:
    assert settings.validated() == settings
