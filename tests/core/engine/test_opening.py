"""What a run says of itself before the device is touched, and a whole run without a deprecation."""

import subprocess
import sys

import pytest

from cgtop.core.engine.opening import open_run
from cgtop.core.settings import SettingsError
from tests.core.engine.driving import SMALL, with_

WHOLE_RUN = """
from cgtop.core.commands import RunAll
from tests.core.engine.driving import Driven
driven = Driven(pretend=True)
code = driven.run(RunAll(release=True), quit_after=False)
print("exit", code)
"""


@pytest.mark.parametrize("name", ["PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"])
def test_allocator_settings_are_told(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "expandable_segments:True")
    assert f"{name}=expandable_segments:True" in (open_run(SMALL).hello.allocator_config or "")


def test_without_allocator_settings_nothing_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "CUBLAS_WORKSPACE_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    assert open_run(SMALL).hello.allocator_config is None


def test_hello_names_versions_policies_and_the_closed_form() -> None:
    hello = open_run(SMALL).hello
    assert {"cgtop", "python", "torch", "transformers"} <= set(hello.versions)
    assert set(hello.policies) == {"synchronisation", "streams", "sampling"}
    assert hello.model is not None and hello.model.static_cache_bytes > 0
    assert hello.settings == SMALL


def test_impossible_settings_are_refused_before_anything_is_opened() -> None:
    with pytest.raises(SettingsError, match="choose --max-cache-len 41 or more"):
        open_run(with_(prompt_len=40))


def test_a_whole_run_raises_no_future_warning() -> None:
    command = [sys.executable, "-W", "error::FutureWarning", "-c", WHOLE_RUN]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[-2:] == ["exit", "0"]
    assert "FutureWarning" not in done.stderr
