"""The device as NVML sees it: load, clocks, power, temperature, each optional."""

import msgspec
from textual.content import Content

from ...core.events import Telemetry
from ...core.state import RunState
from ..format import NA, clean, duration, size
from .lines import LinesWidget, wrapped


class TelemetryView(msgspec.Struct, frozen=True):
    """What the device panel shows."""

    telemetry: Telemetry | None = None
    on_cpu: bool = False
    before_end: float | None = None
    """How many seconds before the end of the run it was sampled; null while the run goes on."""
    before_release: bool = False
    """It was sampled before all was released."""

    @classmethod
    def of(cls, state: RunState) -> "TelemetryView":
        """The slice of a run's state."""
        telemetry, released = state.telemetry, state.phase("release").end
        on_cpu = state.hello is not None and state.hello.device.kind == "cpu"
        if telemetry is None or state.end is None:
            return cls(telemetry=telemetry, on_cpu=on_cpu)
        return cls(
            telemetry=telemetry,
            on_cpu=on_cpu,
            before_end=max(0.0, state.end.t - telemetry.t),
            before_release=released is not None and telemetry.t < released.t,
        )


class TelemetryPane(LinesWidget[TelemetryView]):
    """The device panel."""

    BORDER_TITLE = "GPU (NVML)"

    def draw(self, view: TelemetryView, width: int, height: int) -> list[Content]:
        """As `render_telemetry` says."""
        return render_telemetry(view, width, height)


def render_telemetry(view: TelemetryView, width: int, height: int) -> list[Content]:
    """One fact a line; where NVML gives none of them, why."""
    telemetry = view.telemetry
    if telemetry is None:
        return [Content.styled("no GPU in this run" if view.on_cpu else "no reading yet", "$muted")]
    rows = [
        ("load", _with(telemetry.gpu_percent, " %")),
        ("SM clock", _with(telemetry.sm_mhz, " MHz")),
        ("mem clock", _with(telemetry.memory_mhz, " MHz")),
        ("power", _power(telemetry)),
        ("temperature", _with(telemetry.temperature_c, " °C")),
        ("used", f"{size(telemetry.used_bytes)}" + (f" ({telemetry.memory_api})" if telemetry.memory_api else "")),
        ("throttled", NA if telemetry.throttle is None else clean(", ".join(telemetry.throttle)) or "no"),
        ("PCIe", _pcie(telemetry)),
        ("processes", _processes(telemetry)),
    ]
    if all(value == NA for _, value in rows) and telemetry.reasons:
        reasons = dict.fromkeys(clean(reason) for reason in telemetry.reasons.values())
        return wrapped([Content.styled(f"{NA}: {reason}", "$muted") for reason in reasons], width, height)
    age = _age(view, width, height)
    return [*age, *(_row(name, value, width, past=bool(age)) for name, value in rows)][: max(0, height)]


def _age(view: TelemetryView, width: int, height: int) -> list[Content]:
    """When the last sample was, once there are no more."""
    if view.before_end is None:
        return []
    release = ", before all was released" if view.before_release else ""
    said = Content.styled(f"sampled {duration(view.before_end)} before the end{release}", "$text-warning")
    return wrapped([said], width, height)


def _row(name: str, value: str, width: int, *, past: bool) -> Content:
    style = (
        "$muted" if value == NA or past else "bold $text-warning" if name == "throttled" and value != "no" else "bold"
    )
    room = max(1, width - len(name) - 1)
    return Content.assemble((name, "$muted"), " ", (value.rjust(room), style))


def _with(value: int | None, unit: str) -> str:
    return NA if value is None else f"{value:,}{unit}"


def _power(telemetry: Telemetry) -> str:
    if telemetry.power_w is None:
        return NA
    limit = f" / {telemetry.power_limit_w:.0f}" if telemetry.power_limit_w is not None else ""
    return f"{telemetry.power_w:.0f}{limit} W"


def _pcie(telemetry: Telemetry) -> str:
    if telemetry.pcie_gen is None or telemetry.pcie_width is None:
        return NA
    return f"gen {telemetry.pcie_gen} ×{telemetry.pcie_width}"


def _processes(telemetry: Telemetry) -> str:
    if telemetry.processes is None:
        return NA
    hidden = ", own pid hidden" if telemetry.pid_hidden else ""
    return f"{len(telemetry.processes)}{hidden}"
