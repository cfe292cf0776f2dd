"""What is known of the fixed tensors of a run, grouped by what they are, and of the demonstration that breaks one."""

import re
from collections.abc import Sequence
from itertools import groupby

import msgspec

from ...core.events import Addresses, Demonstration, FixedTensor
from ...core.state import RunState
from ..refusals import why_no_capture

_NUMBERED = re.compile(r"(?P<kind>.+) (?P<number>\d+)")


class AddressCursor(msgspec.Struct, frozen=True, kw_only=True):
    """What a person chose: every layer by itself or condensed, and the first line that is shown."""

    opened: bool = False
    top: int = 0


class AddressSlice(msgspec.Struct, frozen=True, kw_only=True):
    """What the view of the addresses shows."""

    addresses: Addresses | None = None
    demonstration: Demonstration | None = None
    replays: int | None = None
    can_break: bool = False
    """Whether there is a graph to replay now."""
    no_capture: str = ""
    """Why nothing can be captured here, if so."""
    on_cpu: bool = False
    recorded: bool = False
    over: bool = False
    """Whether the run has ended, so that nothing more comes."""
    cursor: AddressCursor = AddressCursor()

    @classmethod
    def of(cls, state: RunState, *, recorded: bool = False) -> "AddressSlice":
        """The slice of a run."""
        capture, graph = state.phase("capture"), state.decode_by_mode.get("graph")
        return cls(
            addresses=state.addresses,
            demonstration=state.demonstration,
            replays=graph.replays if graph is not None else None,
            can_break=capture.status == "done" and state.phase("release").status == "pending",
            no_capture=why_no_capture(state),
            on_cpu=state.hello is not None and state.hello.device.kind == "cpu",
            recorded=recorded,
            over=state.end is not None,
        )


class Like(msgspec.Struct, frozen=True):
    """Tensors of one kind, one a layer: `keys 0`, `keys 1`, … A tensor without a number is alone."""

    kind: str
    tensors: tuple[FixedTensor, ...]

    @property
    def title(self) -> str:
        """`input_ids`, `keys 0–35`."""
        if len(self.tensors) == 1:
            return self.tensors[0].name
        return f"{self.kind} {self.numbers[0]}–{self.numbers[-1]}"

    @property
    def numbers(self) -> tuple[int, ...]:
        """The layers' numbers."""
        return tuple(int(tensor.name[len(self.kind) + 1 :]) for tensor in self.tensors)

    @property
    def bytes(self) -> int:
        """Of all together."""
        return sum(tensor.bytes for tensor in self.tensors)

    @property
    def moved(self) -> tuple[FixedTensor, ...]:
        """Those that are not where the capture found them."""
        return tuple(tensor for tensor in self.tensors if tensor.moved)


def grouped(fixed: Sequence[FixedTensor]) -> tuple[Like, ...]:
    """Tensors by kind, in the order in which the kinds come first; layers by number."""
    order: dict[str, int] = {}
    keyed: list[tuple[int, int, FixedTensor, str]] = []
    for tensor in fixed:
        match = _NUMBERED.fullmatch(tensor.name)
        kind = match["kind"] if match else tensor.name
        place = order.setdefault(f"{kind} #" if match else kind, len(order))
        keyed.append((place, int(match["number"]) if match else -1, tensor, kind))
    keyed.sort(key=lambda entry: entry[:2])
    found = []
    for _, members in groupby(keyed, key=lambda entry: entry[0]):
        run = list(members)
        found.append(Like(run[0][3], tuple(entry[2] for entry in run)))
    return tuple(found)
