"""The real session on the real tiny model, on a CPU that pretends to capture: for what a GPU alone has otherwise."""

from collections.abc import Callable

import msgspec
import torch

from cgtop.core.engine.inbox import CommandQueue
from cgtop.core.engine.opening import Opening, open_run
from cgtop.core.engine.session import Session
from cgtop.core.events import DeviceInfo, Event
from cgtop.core.settings import RunSettings
from tests.fakes.device import PretendDevice

Emit = Callable[[Event], None]


def pretending(opening: Opening, commands: CommandQueue, emit: Emit) -> tuple[Session, PretendDevice]:
    """A session as `opening` says, on a device that captures."""
    device = PretendDevice()
    session = Session(opening._replace(device=device), commands, emit)

    def state() -> list[torch.Tensor]:
        static = session.workflow.static
        assert static is not None
        return [static.step.input_ids, *(fixed.tensor for fixed in static.kv.fixed())]

    device.state = state
    return session, device


def captures(settings: RunSettings, commands: CommandQueue, emit: Emit) -> int:
    """For a worker: says that its device is a GPU, so that the screen offers what one can do."""
    opening = open_run(settings)
    hello = msgspec.structs.replace(opening.hello, device=DeviceInfo(kind="cuda", name="Pretended GPU"))
    emit(hello)
    with torch.no_grad():
        return pretending(opening._replace(hello=hello), commands, emit)[0].serve()
