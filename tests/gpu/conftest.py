"""Real runs on this machine's GPU, each in a worker of its own; all of this skips where there is none."""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import msgspec
import pytest

from cgtop.core.client import EngineClient
from cgtop.core.commands import Command, RunAll
from cgtop.core.events import Event, Hello, ModelInfo
from cgtop.core.settings import RunSettings

E = TypeVar("E", bound=Event)
GPU_FOLDER = Path(__file__).parent
SMALL = RunSettings(model="qwen3-0.6b", device="cuda")
UNVERIFIED: dict[str, int] = {"verify_steps": 0, "tokens": 64}
"""Changes for a run whose replays prove nothing in its test: eager steps take most of the time of all these tests."""


@functools.cache
def has_gpu() -> bool:
    import torch

    return torch.cuda.is_available()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if GPU_FOLDER in item.path.parents:
            item.add_marker(pytest.mark.gpu)
            item.add_marker(pytest.mark.timeout(300))
            if not has_gpu():
                item.add_marker(pytest.mark.skip(reason="needs an NVIDIA GPU"))


class Run:
    """All events of a finished run."""

    def __init__(self, settings: RunSettings, commands: tuple[Command, ...], session: str | None = None) -> None:
        client = EngineClient(settings, session=session)
        try:
            for command in commands:
                client.send(command)
            self.events = list(client.events())
        finally:
            client.close()

    def of(self, kind: type[E]) -> list[E]:
        return [event for event in self.events if isinstance(event, kind)]

    def one(self, kind: type[E]) -> E:
        return self.of(kind)[-1]

    @property
    def model(self) -> ModelInfo:
        model = self.one(Hello).model
        assert model is not None
        return model


Runner = Callable[..., Run]


@pytest.fixture(scope="session")
def run_all() -> Runner:
    """Runs all phases with changed settings, once for each change."""
    done: dict[str, Run] = {}

    def run(**changes: object) -> Run:
        settings = msgspec.structs.replace(SMALL, **changes)
        key = repr(settings)
        if key not in done:
            done[key] = Run(settings, (RunAll(release=True),))
        return done[key]

    return run
