"""What is known of one phase: its row, and what else its figures come from."""

import msgspec

from ...core.events import CounterName, Decode, Demonstration, DeviceInfo, Graph, ModelInfo
from ...core.settings import RunSettings
from ...core.state import PhaseState
from .phase_list import counter_delta


class ExplanationView(msgspec.Struct, frozen=True):
    """What explains a phase."""

    row: PhaseState
    model: ModelInfo | None = None
    settings: RunSettings | None = None
    device: DeviceInfo | None = None
    graph: Graph | None = None
    decode: Decode | None = None
    """The last figures of graph decoding."""
    pool_bytes: int | None = None
    decoding: Decode | None = None
    """Figures of the mode that decodes, while it does and no phase is chosen: it is explained then, not the phase."""
    demonstration: Demonstration | None = None
    """The input that is rebound, while it is and no phase is chosen."""

    @property
    def on_the_cpu(self) -> bool:
        """Whether this run has no GPU."""
        return self.device is not None and self.device.kind == "cpu"

    def change(self, counter: CounterName) -> int | None:
        """Δ of a counter over the phase, in bytes, or null where it is not known."""
        return counter_delta(self.row.end, counter)

    def item(self, counter: CounterName, words: str) -> int | None:
        """Bytes of the items of a Δ whose names hold these words; null where there is none."""
        end = self.row.end
        found = [item.bytes for item in end.explained.get(counter, ()) if words in item.name] if end is not None else []
        return sum(found) if found else None
