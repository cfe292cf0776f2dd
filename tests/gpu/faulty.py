"""Sessions with a fault built in, run in a worker by `EngineClient(session=…)`."""

import torch

from cgtop.core.engine import session
from cgtop.core.engine.decode import DecodeLoop
from cgtop.core.engine.inbox import CommandQueue
from cgtop.core.engine.workflow import Outcome, Workflow
from cgtop.core.settings import RunSettings


def assert_in_warmup(settings: RunSettings, commands: CommandQueue, emit: session.Emit) -> int:
    """The warmup indexes past the end of a tensor on the device."""

    def warmup(self: Workflow) -> Outcome:
        torch.zeros(3, device="cuda")[torch.tensor([5], device="cuda")]
        torch.cuda.synchronize()
        raise AssertionError("the device did not notice")

    Workflow._warmup = warmup  # type: ignore[method-assign]
    return session.run_session(settings, commands, emit)


def no_hidden_synchronisation(settings: RunSettings, commands: CommandQueue, emit: session.Emit) -> int:
    """Every step of graph decoding runs with torch's synchronisation check set to raise."""
    original = DecodeLoop.step

    def step(self: DecodeLoop) -> None:
        if self.mode == "graph":
            torch.cuda.set_sync_debug_mode("error")
        try:
            original(self)
        finally:
            torch.cuda.set_sync_debug_mode("default")

    DecodeLoop.step = step  # type: ignore[method-assign]
    return session.run_session(settings, commands, emit)
