"""A surface starts without torch, and the core without a surface."""

import subprocess
import sys

import pytest

LIST_MODULES = """
import importlib, pkgutil, sys
import cgtop.core, cgtop.tui
def every(package):
    yield package.__name__
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        if ".engine" not in module.name:
            yield module.name
"""


def imported_after(code: str) -> set[str]:
    result = subprocess.run(
        [sys.executable, "-P", "-c", f"{LIST_MODULES}\n{code}\nprint(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
        timeout=240,
    )
    return set(result.stdout.split())


def test_core_imports_neither_torch_nor_a_screen() -> None:
    modules = imported_after("for name in every(cgtop.core): importlib.import_module(name)")
    assert "cgtop.core.client" in modules
    assert not modules & {"torch", "transformers", "textual", "rich", "numpy"}


def test_tui_imports_no_torch() -> None:
    modules = imported_after("for name in every(cgtop.tui): importlib.import_module(name)")
    assert "cgtop.tui.widgets" in modules
    assert not modules & {"torch", "transformers"}


@pytest.mark.parametrize("module", ["worker", "sink", "inbox"])
def test_the_worker_sets_itself_up_before_torch_is_imported(module: str) -> None:
    assert not imported_after(f"import cgtop.core.engine.{module}") & {"torch", "transformers", "textual", "rich"}
