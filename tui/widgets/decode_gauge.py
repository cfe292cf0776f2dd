"""The decode speed: mode, tokens a second, its history, and the modes side by side."""

from collections.abc import Sequence
from itertools import groupby
from operator import itemgetter

import msgspec
from textual.content import Content
from textual.events import Resize

from ...core.events import Decode, RunStateName
from ...core.settings import MODES, Mode
from ...core.state import SpeedPoint
from ..format import bandwidth, count, milliseconds, percent, rough_ratio, tok_s
from .lines import LinesWidget, spread

BLOCKS = "▁▂▃▄▅▆▇█"
MODE_STYLES: dict[Mode, str] = {"eager": "$text-warning", "dynamic": "$text-secondary", "graph": "$text-success"}
FULL_BAR_HEIGHT = 5
"""From this height on each mode has a bar of its own."""
INTERVAL = "7 compares, with an interval"


class DecodeView(msgspec.Struct, frozen=True):
    """What the gauge shows. `peak_bandwidth`: theoretical, in bytes a second."""

    decode: Decode | None = None
    by_mode: dict[Mode, Decode] = {}
    longest: dict[Mode, Decode] = {}
    """Of each mode the stretch of most steps, whose mean it is shown by."""
    speeds: tuple[SpeedPoint, ...] = ()
    speed_up: float | None = None
    state: RunStateName | None = None
    peak_bandwidth: float | None = None
    can_graph: bool = True
    recorded: bool = False
    """Of a recording, in which no key decodes."""
    experiment: str = ""
    """The key of a view whose experiment has decoded, if one has."""


class DecodeGauge(LinesWidget[DecodeView]):
    """The decode panel."""

    BORDER_TITLE = "Decode"

    def draw(self, view: DecodeView, width: int, height: int) -> list[Content]:
        """As `render_decode` says."""
        return render_decode(view, width, height)

    def show(self, view: DecodeView) -> None:
        """As ever; title and subtitle tell how well the ratio is known."""
        super().show(view)
        self._entitle()

    def on_resize(self, event: Resize) -> None:
        """As much of the title as there is room for."""
        super().on_resize(event)
        self._entitle()

    def _entitle(self) -> None:
        title = decode_title(self.view, self.size.width - 2)
        subtitle = INTERVAL if self.view.speed_up is not None else ""
        if title != self.border_title:
            self.border_title = title
        if subtitle != self.border_subtitle:
            self.border_subtitle = subtitle


def decode_title(view: DecodeView, width: int) -> str:
    """The ratio and the steps behind eager's and graph's means; the fewer of them where there is no room for both."""
    eager, graph = view.longest.get("eager"), view.longest.get("graph")
    if view.speed_up is None or eager is None or graph is None:
        return "Decode"
    factor, steps = rough_ratio(view.speed_up), f"{_about(eager.tokens)} and {_about(graph.tokens)} steps"
    forms = (
        f"Decode: {factor} of means over {steps} ({INTERVAL})",
        f"Decode: {factor} of means over {steps}",
        f"Decode: {factor}, {steps}",
        f"Decode: {factor}, {_about(min(eager.tokens, graph.tokens))} steps",
    )
    return next((form for form in forms if len(form) <= width), "Decode")


def _about(steps: int) -> str:
    # Two digits, so that a title is drawn anew a few times and not with every step.
    unit = 10 ** max(0, len(str(steps)) - 2)
    return count(steps // unit * unit)


def render_decode(view: DecodeView, width: int, height: int) -> list[Content]:
    """Now, then the modes side by side, then the place in the cache and the bandwidth; as many as fit."""
    decode = view.decode
    if decode is None:
        only = f"decoded in view {view.experiment} only"
        lines = [Content.styled(only if view.experiment else "not decoding yet", "$muted")]
        if not view.recorded:
            lines.append(Content.styled(_how_to_start(view), "$muted"))
        return lines[:height]
    now = _now_line(view, decode, width)
    place = _place_line(view, decode, width)
    if height >= FULL_BAR_HEIGHT:
        lines = [now, *_bars(view, width), place, _steps_line(view, decode)]
    elif height == FULL_BAR_HEIGHT - 1:
        lines = [now, gauge(view, width), _modes_line(view, width), place]
    else:
        lines = [now, _modes_line(view, width), place, _steps_line(view, decode)]
    return lines[:height]


def _how_to_start(view: DecodeView) -> str:
    return "g decodes by replay after the capture, e eagerly" if view.can_graph else "e decodes eagerly"


def _now_line(view: DecodeView, decode: Decode, width: int) -> Content:
    active = view.state == "decoding"
    style = MODE_STYLES[decode.mode]
    label = (f" {decode.mode.upper()} ", f"bold reverse {style}" if active else f"reverse {style}")
    speed = f" {tok_s(decode.tok_s)} tok/s"
    parts: list[tuple[str, str]] = [label, (speed, "bold" if active else "$muted")]
    if not active:
        parts.append((f" {view.state or 'stopped'}", "$text-warning" if view.state == "paused" else "$muted"))
    if not decode.valid:
        parts.append((" wrong results", "bold $text-error"))
    left = Content.assemble(*parts, "  ")
    room = width - left.cell_length
    return Content.assemble(left, sparkline(view.speeds, room)) if room >= 4 else left


def sparkline(speeds: Sequence[SpeedPoint], width: int) -> Content:
    """The last `width` speeds as blocks of eight heights, coloured by mode; the highest of all `speeds` is full."""
    points = speeds[-width:] if width > 0 else ()
    top = max((point.tok_s for point in speeds), default=0.0)
    if top <= 0:
        return Content("")
    blocks = [(BLOCKS[min(7, int(8 * (max(0.0, point.tok_s) / top)))], point.mode) for point in points]
    # One span for each stretch of a mode, not for each block: fewer bytes to the terminal.
    stretches = groupby(blocks, key=itemgetter(1))
    return Content.assemble(
        *(("".join(block for block, _ in stretch), MODE_STYLES[mode]) for mode, stretch in stretches)
    )


def mean_speed(view: DecodeView, mode: Mode) -> float | None:
    """Mean tok/s of a mode over its longest stretch, else since it was last entered, else its last window, or null."""
    figures = view.by_mode.get(mode)
    if figures is None:
        return None
    if figures.valid:
        figures = view.longest.get(mode, figures)
    return figures.tok_s_mean if figures.tok_s_mean is not None else figures.tok_s


def shown_speed(view: DecodeView, mode: Mode) -> float | None:
    """Tok/s of a mode on the gauge: the last second's of the one that decodes, the mean of the others."""
    decode = view.decode
    if decode is not None and decode.mode == mode and decode.tok_s is not None:
        return decode.tok_s
    return mean_speed(view, mode)


def gauge(view: DecodeView, width: int) -> Content:
    """One bar from 0 to the fastest, filled up to the present mode's speed, those of the others marked by letter."""
    speeds = {mode: speed for mode in MODES if (speed := shown_speed(view, mode))}
    top = max(speeds.values(), default=0.0)
    if not top or view.decode is None or width < 1:
        return Content("")
    present = view.decode.mode
    filled = round(width * (speeds.get(present, 0.0) / top))
    cells = [("━", MODE_STYLES[present]) if at < filled else ("─", "$muted") for at in range(width)]
    for mode, speed in speeds.items():
        if mode != present:
            at = min(width - 1, max(0, round(width * (speed / top)) - 1))
            cells[at] = (mode[0], f"bold {MODE_STYLES[mode]}")
    stretches = groupby(cells, key=itemgetter(1))
    return Content.assemble(*(("".join(cell for cell, _ in stretch), style) for style, stretch in stretches))


def _modes_line(view: DecodeView, width: int) -> Content:
    parts: list[Content] = []
    for mode in MODES:
        known = mean_speed(view, mode) is not None
        if width < 40 and not known:
            continue
        name = mode if width >= 44 else mode[0]
        figure = tok_s(mean_speed(view, mode))
        parts.append(Content.assemble((name, MODE_STYLES[mode]), " ", (figure, "bold" if known else "$muted")))
    return spread(Content(" · " if width >= 44 else " ").join(parts), _speed_up(view), width)


def _speed_up(view: DecodeView) -> Content:
    return (
        Content.styled(rough_ratio(view.speed_up), "bold $text-success") if view.speed_up is not None else Content("")
    )


def _bars(view: DecodeView, width: int) -> list[Content]:
    """A bar for each mode on one scale, from 0 to the fastest; on the present one the others' speeds are marked."""
    room = max(0, width - 8 - 9 - 8)
    top = max((shown_speed(view, mode) or 0.0 for mode in MODES), default=0.0)
    lines = []
    for mode in MODES:
        speed = shown_speed(view, mode)
        if view.decode is not None and view.decode.mode == mode:
            bar = gauge(view, room)
        else:
            bar = Content.styled("━" * (round(room * speed / top) if speed and top else 0), MODE_STYLES[mode])
        extra = f" {rough_ratio(view.speed_up)}" if mode == "graph" and view.speed_up is not None else ""
        lines.append(
            Content.assemble(
                (mode.ljust(8), MODE_STYLES[mode]),
                (tok_s(speed).rjust(8) + " ", "bold" if speed is not None else "$muted"),
                bar,
                (extra, "bold $text-success"),
            )
        )
    return lines


def _place_line(view: DecodeView, decode: Decode, width: int) -> Content:
    place = f"position {count(decode.position)} / {count(decode.capacity)}"
    lap = f", lap {decode.laps + 1}" if decode.laps else ""
    if len(place) + len(lap) < width:
        place += lap
    readings = [bandwidth(decode.gb_s)] if decode.gb_s is not None else []
    if decode.gb_s is not None and view.peak_bandwidth:
        share = percent(decode.gb_s * 1e9, view.peak_bandwidth)
        readings = [f"{readings[0]}, {share} of {bandwidth(view.peak_bandwidth / 1e9)}", f"{share} of peak", share]
    reading = next((text for text in readings if len(place) + 2 + len(text) <= width), "")
    return spread(Content(place), Content(reading), width)


def _steps_line(view: DecodeView, decode: Decode) -> Content:
    return Content.styled(
        f"step p50 {milliseconds(decode.step_ms_p50)}, p99 {milliseconds(decode.step_ms_p99)}, "
        f"{count(decode.tokens)} steps",
        "$muted",
    )
