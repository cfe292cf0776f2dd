"""The title line, the banner of a recording, and the one line of a very small terminal."""

import math

import msgspec
from textual.content import Content

from ...core.events import Decode, DeviceInfo, Hello
from ...core.live import on_the_cpu
from ...core.playback import Player
from ...core.state import RunState
from ..format import clean, count, tok_s
from .lines import LinesWidget, spread
from .phase_list import PhasesView, row_figure, shown_row
from .seek_bar import place_time

SHORT_STEPS = 20
"""Steps in which the place moves through a recording of less than as many seconds."""


GO_LIVE = on_the_cpu()


class Playback(msgspec.Struct, frozen=True):
    """Where a recording is. Seconds."""

    position: float
    duration: float
    playing: bool
    speed: float = 1.0
    stops: tuple[float, ...] = ()
    """Where a step stops."""


def playback_of(player: Player) -> Playback:
    """The player's place now."""
    return Playback(
        position=_shown_position(player),
        duration=player.duration,
        playing=player.playing,
        speed=player.speed,
        stops=player.stop_times,
    )


def _shown_position(player: Player) -> float:
    """In steps of a second, or finer in a short recording: what is shown changes no more often. The end is exact."""
    if player.at_end:
        return player.duration
    grain = min(1.0, player.duration / SHORT_STEPS)
    return math.floor(player.position / grain) * grain if grain > 0 else 0.0


class TitleView(msgspec.Struct, frozen=True):
    """What the title line and the banner show."""

    hello: Hello | None = None
    expected: DeviceInfo | None = None
    recorded: bool = False
    playback: Playback | None = None
    alive: bool = True


class TitleBar(LinesWidget[TitleView]):
    """The first line."""

    def draw(self, view: TitleView, width: int, height: int) -> list[Content]:
        """As `render_title` says."""
        return render_title(view, width)


class Banner(LinesWidget[TitleView]):
    """The line that says that all of this was recorded."""

    def draw(self, view: TitleView, width: int, height: int) -> list[Content]:
        """As `render_banner` says."""
        return render_banner(view, width)


class Essentials(LinesWidget[tuple[RunState, bool]]):
    """All that a terminal below 40×10 has room for."""

    def draw(self, view: tuple[RunState, bool], width: int, height: int) -> list[Content]:
        """As `render_essentials` says."""
        return render_essentials(*view, width)


def model_name(hello: Hello) -> str:
    """`qwen3-4b`."""
    return clean(hello.model.name if hello.model is not None else hello.settings.model or "model not chosen yet")


def model_text(hello: Hello) -> str:
    """`qwen3-4b bf16, random weights`."""
    if hello.model is None:
        return model_name(hello)
    dtype = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}.get(hello.model.dtype, hello.model.dtype)
    source = "random weights" if hello.model.source == "random" else "checkpoint"
    return f"{model_name(hello)} {clean(dtype)}, {source}"


def capability_text(capability: str | None) -> str:
    """`sm_90` of `9.0`, or nothing."""
    digits = (capability or "").replace(".", "")
    return f"sm_{digits}" if digits.isalnum() else ""


def render_title(view: TitleView, width: int) -> list[Content]:
    """`cgtop  NVIDIA H200 · sm_90 · torch 2.11 · model   ● LIVE`; what is of least use goes first as it narrows."""
    if view.recorded:
        badge = Content.styled(" ▶ RECORDED ", "bold reverse $text-warning")
    elif not view.alive:
        badge = Content.styled(" ✗ ENDED ", "bold reverse $text-error")
    else:
        badge = Content.styled("● LIVE ", "bold $text-success")
    name = (" cgtop ", "bold")
    if view.hello is None:
        waiting = "opening the recording …" if view.recorded else "starting the worker …"
        if view.expected is not None:
            known = (clean(view.expected.name), capability_text(view.expected.capability), waiting)
            waiting = " · ".join(fact for fact in known if fact)
        return [spread(Content.assemble(name, (waiting, "$muted")), badge, width)]
    hello = view.hello
    torch = hello.versions.get("torch", "")
    facts = [
        clean(hello.device.name),
        capability_text(hello.device.capability),
        f"torch {clean(torch)}" if torch else "",
        model_text(hello),
        "alloc conf " + clean(hello.allocator_config) if hello.allocator_config else "",
    ]
    room = width - badge.cell_length - len(name[0]) - 1
    shorter = ((0, facts[0]), (4, ""), (1, ""), (2, ""), (3, model_name(hello)), (3, ""))
    for index, replacement in shorter:
        facts[index] = replacement
        text = " · ".join(fact for fact in facts if fact)
        if len(text) <= room:
            break
    return [spread(Content.assemble(name, text), badge, width)]


def render_banner(view: TitleView, width: int) -> list[Content]:
    """`RECORDED on NVIDIA H200, 2026-11-30: not live. Live: cgtop --device cpu   ▶ 0:12 / 3:20`."""
    place = Content("")
    if view.playback is not None:
        playback = view.playback
        glyph = "▶" if playback.playing else "‖"
        speed = f" ×{playback.speed:g}" if playback.speed != 1 else ""
        here, whole = (place_time(t, playback.duration) for t in (playback.position, playback.duration))
        place = Content(f"{glyph} {here}/{whole}{speed} ")
    if view.hello is None:
        return [spread(Content(" a recording: not live"), place, width)]
    device, day = clean(view.hello.device.name), clean(view.hello.started_at[:10]) or "date unknown"
    candidates = (
        f" RECORDED on {device}, {day}, {model_text(view.hello)}: not live. Live: {GO_LIVE}",
        f" RECORDED on {device}, {day}, {model_name(view.hello)}: not live. Live: {GO_LIVE}",
        f" RECORDED on {device}, {day}: not live. Live: {GO_LIVE}",
        f" RECORDED on {device}, {day}: not live",
        f" RECORDED on {device}, {day}",
        f" On {device}, {day}: not live",
        f" On {device}, {day}",
        f" On {device}",
        " not live",
    )
    room = width - place.cell_length - 1
    text = next((text for text in candidates if len(text) <= room), candidates[-1])
    return [spread(Content.styled(text, "bold"), place, width)]


def render_essentials(state: RunState, recorded: bool, width: int) -> list[Content]:
    """One line: live or recorded, what runs, how fast, and the allocations of replay."""
    row = shown_row(PhasesView(phases=state.phases))
    parts: list[tuple[str, str]] = [("REC ", "bold $text-warning") if recorded else ("LIVE ", "bold $text-success")]
    decode: Decode | None = state.decode
    if decode is not None and decode.tok_s is not None:
        parts.append((f"{decode.mode} {tok_s(decode.tok_s)} tok/s", "bold"))
        if decode.mode == "graph" and decode.replay_allocations is not None:
            parts.append((f" {count(decode.replay_allocations)} alloc", ""))
    else:
        parts.append((f"{row.id} {row_figure(row, state.t)}", "bold"))
    return [Content.assemble(*parts).truncate(width)]
