"""Pictures of every view at three sizes in two themes, from the bundled recording; `--snapshot-update` draws them anew.

A picture depends on the version of Textual: under another than the pinned one nothing is compared, and none is drawn.
"""

from importlib.metadata import version
from pathlib import Path

import pytest
from pytest_textual_snapshot import SVGImageExtension  # type: ignore[import-untyped]
from syrupy.assertion import SnapshotAssertion

from cgtop.core.playback import Player
from cgtop.core.recording import Recording, open_recording
from cgtop.core.sources import RecordedSource, bundled_recording
from cgtop.tui.app import CgtopApp
from cgtop.tui.themes import theme_named
from tests.make_screenshots import moments, recorded_experiment, settled

SIZES = [(60, 20), (80, 24), (120, 36)]
MOMENTS = {"caches": "attempted", "addresses": "broken"}
EXPERIMENTS = {"cache_lens": "scaling", "batches": "batches", "compare": "bench", "checks": "check"}
"""View -> the bundled recording that fills it."""
CONSTRAINTS = Path(__file__).parents[2] / "constraints.txt"


def pinned() -> str:
    lines = CONSTRAINTS.read_text().splitlines()
    return next(line.partition("==")[2] for line in lines if line.startswith("textual=="))


@pytest.fixture(autouse=True)
def _the_pinned_textual_only(request: pytest.FixtureRequest) -> None:
    present = version("textual")
    if present == pinned():
        return
    why = f"pictures are of textual {pinned()}, this is {present}"
    if request.config.getoption("update_snapshots"):
        pytest.fail(f"refusing to draw them anew: {why}")
    pytest.skip(why)


@pytest.fixture(scope="module")
def replayed() -> tuple[Recording, dict[str, float]]:
    """The bundled recording, and places in it."""
    path = bundled_recording()
    assert path is not None
    recording = open_recording(path)
    return recording, moments(recording)


@pytest.mark.parametrize("theme", ["dark", "light"])
async def test_every_view_looks_as_it_did(
    theme: str, replayed: tuple[Recording, dict[str, float]], snapshot: SnapshotAssertion
) -> None:
    recording, places = replayed
    source = RecordedSource(Player(recording, clock=lambda: 0.0, playing=False))
    app = CgtopApp(source, theme=theme_named(theme))
    pictures = snapshot.use_extension(SVGImageExtension)
    async with app.run_test(size=SIZES[-1]) as pilot:
        for width, height in SIZES:
            await pilot.resize_terminal(width, height)
            for view in app.main.panes:
                source.player.seek(places[MOMENTS.get(view, "graph")])
                app.main.show_view(view)
                app.tick()
                picture = await settled(app, pilot, (width, height))
                assert picture == pictures(name=f"{view}-{width}x{height}")


@pytest.mark.parametrize("theme", ["dark", "light"])
@pytest.mark.parametrize("view", EXPERIMENTS)
async def test_every_experiment_looks_as_it_did(view: str, theme: str, snapshot: SnapshotAssertion) -> None:
    whole = bundled_recording()
    assert whole is not None
    player = Player(open_recording(recorded_experiment(whole, EXPERIMENTS[view])), clock=lambda: 0.0, playing=False)
    player.seek(player.duration)
    app = CgtopApp(RecordedSource(player), theme=theme_named(theme))
    pictures = snapshot.use_extension(SVGImageExtension)
    async with app.run_test(size=SIZES[-1]) as pilot:
        assert app.main.shown == view
        for width, height in SIZES:
            await pilot.resize_terminal(width, height)
            assert await settled(app, pilot, (width, height)) == pictures(name=f"{width}x{height}")
