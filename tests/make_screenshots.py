"""`make screenshots`: draws screenshots/*.svg from the bundled recordings; the same recordings, the same pictures."""

import asyncio
import os
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
from textual.pilot import Pilot

from cgtop.core.playback import Player
from cgtop.core.recording import Recording, open_recording
from cgtop.core.sources import RecordedSource, bundled_recording
from cgtop.core.state import RunState
from cgtop.tui.app import CgtopApp
from cgtop.tui.themes import theme_named

FOLDER = Path(__file__).parents[1] / "screenshots"


class Shot(msgspec.Struct, frozen=True):
    """A picture: where in the recording, at which size, after which keys. `at` is a moment of `moments`, or `end`.

    `experiment`: of the recording of this experiment, not of the run of all phases.
    """

    name: str
    at: str
    size: tuple[int, int] = (120, 36)
    keys: tuple[str, ...] = ()
    theme: str = "dark"
    experiment: str | None = None


SHOTS: tuple[Shot, ...] = (
    Shot("phases", "graph"),
    Shot("capture-opened", "capture", keys=("enter",)),
    Shot("caches", "attempted", (120, 30), keys=("2",)),
    Shot("memory-map", "graph", keys=("3",)),
    Shot("addresses", "broken", (120, 30), keys=("4",)),
    Shot("lengths", "end", (120, 30), keys=("5",), experiment="scaling"),
    Shot("batches", "end", (120, 50), keys=("6",), experiment="batches"),
    Shot("compare", "end", (120, 30), keys=("7",), experiment="bench"),
    Shot("checks", "end", (120, 32), keys=("8",), experiment="check"),
    Shot("guide", "broken", (120, 36), keys=("9", *["down"] * 10)),
    Shot("narrow", "graph", size=(80, 24)),
    Shot("light", "graph", theme="light"),
)


def moments(recording: Recording) -> dict[str, float]:
    """Places in seconds, by name; where a recording has no such place, that of `graph`.

    `capture`: it has ended. `graph`: replay goes on after every mode was seen. `attempted`: a capture on the
    DynamicCache was attempted. `broken`: the input is rebound.
    """
    reached: dict[str, Callable[[RunState], bool]] = {
        "capture": lambda state: "capture" in state.boundary_memory,
        "graph": _replays_after_all_modes,
        "attempted": lambda state: state.dynamic_capture is not None,
        "broken": lambda state: (
            state.demonstration is not None
            and state.demonstration.stage == "broken"
            and state.addresses is not None
            and state.addresses.moved > 0
        ),
    }
    found: dict[str, float] = {}
    for index, t in enumerate(recording.times, start=1):
        state = recording.state_after(index)
        found |= {name: t for name, is_there in reached.items() if name not in found and is_there(state)}
    return {name: found.get(name, found["graph"]) for name in reached}


def _replays_after_all_modes(state: RunState) -> bool:
    decode = state.decode
    return decode is not None and decode.mode == "graph" and len(state.decode_by_mode) == 3 and decode.tokens > 200


async def drawn(shot: Shot, recording: Recording, places: dict[str, float]) -> str:
    """The picture as SVG."""
    source = RecordedSource(Player(recording, clock=lambda: 0.0, playing=True))
    source.player.seek(places[shot.at])
    app = CgtopApp(source, theme=theme_named(shot.theme))
    async with app.run_test(size=shot.size) as pilot:
        await pilot.pause()
        await pilot.press(*shot.keys)
        return await settled(app, pilot, shot.size)


async def settled(app: CgtopApp, pilot: Pilot[None], size: tuple[int, int]) -> str:
    """The picture as SVG, once the screen has this size and looks the same twice."""
    before = ""
    for _ in range(200):
        await pilot.pause()
        picture = app.export_screenshot(title="cgtop")
        if picture == before and app.screen.size == size:
            return picture
        before = picture
    raise TimeoutError(f"the screen does not come to rest at {size}")


async def main() -> int:
    """Draw them all; those that are no longer drawn go."""
    path = bundled_recording()
    if path is None:
        sys.stderr.write("no recording is bundled: there is nothing to draw\n")
        return 1
    for name in ("NO_COLOR", "TEXTUAL_THEME", "TEXTUAL_COLOR_SYSTEM"):
        os.environ.pop(name, None)
    FOLDER.mkdir(exist_ok=True)
    for old in FOLDER.glob("*.svg"):
        old.unlink()
    whole = open_recording(path)
    for shot in SHOTS:
        recording = whole if shot.experiment is None else open_recording(recorded_experiment(path, shot.experiment))
        places = {"end": recording.times[-1]} | (moments(recording) if shot.experiment is None else {})
        svg = await drawn(shot, recording, places)
        (FOLDER / f"{shot.name}.svg").write_text(svg, encoding="utf-8")
        sys.stdout.write(f"screenshots/{shot.name}.svg\n")
    return 0


def recorded_experiment(run: Path, experiment: str) -> Path:
    """The recording of an experiment that lies beside that of the run of all phases."""
    return run.with_name(run.name.replace(".jsonl", f"-{experiment}.jsonl"))


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
