"""What a student is told of each phase of a real run: sentences with that run's figures, and why the guide's differ."""

import msgspec
import pytest

from cgtop.core.events import Decode, Demonstration, DeviceInfo, Hello, PhaseId, Status, Tokens
from cgtop.core.phases import PHASE_BY_ID, PHASE_IDS
from cgtop.core.recording import open_recording
from cgtop.core.settings import Mode
from cgtop.core.sources import bundled_recording
from cgtop.core.state import RunState, fold
from cgtop.tui.format import size
from cgtop.tui.screens.pane import Surroundings
from cgtop.tui.screens.phases_pane import PhasesPane
from cgtop.tui.screens.texts import phase_lines
from cgtop.tui.widgets.explanation import render_explanation
from cgtop.tui.widgets.lesson import against_guide, lesson
from cgtop.tui.widgets.phase_facts import ExplanationView
from tests.sample import decode as sample_decode
from tests.sample import sample_run
from tests.tui.fakes import folded, until


def facts(state: RunState, phase: PhaseId) -> ExplanationView:
    pane = PhasesPane()
    pane.selected = phase
    pane.show_state(state, Surroundings())
    return pane.explanation()


@pytest.fixture(scope="module")
def real_run() -> RunState:
    path = bundled_recording()
    assert path is not None
    recording = open_recording(path)
    return recording.state_at(recording.duration)


def test_the_figures_in_the_sentences_are_those_of_the_run(real_run: RunState) -> None:
    told = {phase: lesson(facts(real_run, phase)) for phase in PHASE_IDS}
    ends = {row.id: row.end for row in real_run.phases if row.end is not None}
    hello, graph, replay = real_run.hello, real_run.graph, real_run.decode_by_mode["graph"]
    assert hello is not None and hello.model is not None and graph is not None and graph.nodes is not None
    assert size(ends["context"].after.driver) in told["context"]
    assert f"{hello.model.parameters:,} parameters" in told["load"]
    assert size(ends["load"].after.requested) in told["load"]
    assert f"The prompt of {hello.settings.prompt_len} tokens" in told["prefill"]
    assert f"= {size(hello.model.static_cache_bytes)}" in told["static_cache"]
    assert "0 B" in told["copy_kv"]
    assert told["warmup"].startswith(f"{hello.settings.warmup} eager decode steps")
    assert f"{graph.nodes:,} nodes" in told["capture"]
    assert size(graph.instantiate_driver_bytes) in told["capture"]
    assert f"{replay.replays:,} replays made 0 allocations" in told["replay"]
    assert all(2 <= text.count(". ") + 1 <= 4 for text in told.values())


@pytest.mark.parametrize("phase", PHASE_IDS)
def test_the_sentence_with_the_figures_comes_first_and_fits_a_terminal_of_120_by_36(
    real_run: RunState, phase: PhaseId
) -> None:
    view = facts(real_run, phase)
    first = lesson(view).split(". ")[0]
    assert any(character.isdecimal() for character in first)
    drawn = " ".join(" ".join(line.plain for line in render_explanation(view, 76, 4)).split())
    assert first in drawn


def test_what_decodes_is_explained_until_a_phase_is_chosen() -> None:
    events = sample_run()
    last = max(i for i, event in enumerate(events) if isinstance(event, Decode) and event.mode == "dynamic")
    pane, state = PhasesPane(), folded(events[: last + 1])
    pane.show_state(state, Surroundings())
    shown = pane.explanation().decoding
    assert shown is not None and shown.mode == "dynamic"
    pane.selected = "capture"
    assert pane.explanation().decoding is None


def test_an_input_that_is_rebound_is_explained_until_it_is_put_right() -> None:
    broken = Demonstration(
        t=99.0, stage="broken", fed_ids=(1, 2), expected_ids=(3, 4), replay_ids=(5, 6), captured_address=1,
        present_address=2,
    )  # fmt: skip
    pane, state = PhasesPane(), fold(until("replay", decoding=True), broken)
    pane.show_state(state, Surroundings())
    lines = render_explanation(pane.explanation(), 76, 6)
    drawn = " ".join(" ".join(line.plain for line in lines).split())
    assert drawn.startswith("The input is rebound. ") and "2 replays went on reading the old one" in drawn
    mended = msgspec.structs.replace(broken, stage="mended", replay_ids=(3, 4))
    pane.show_state(fold(state, mended), Surroundings())
    assert pane.explanation().demonstration is None


def test_a_cpu_is_told_nothing_that_only_a_gpu_does() -> None:
    cpu = DeviceInfo(kind="cpu", name="a CPU")
    hello, *rest = sample_run()
    assert isinstance(hello, Hello)
    state = folded([msgspec.structs.replace(hello, device=cpu), *rest])
    assert lesson(facts(state, "context")).startswith("A CPU needs no context")
    assert "3 eager decode steps ran: " in lesson(facts(state, "warmup"))
    assert "3 eager decode steps ran on the capture stream: " in lesson(facts(folded([hello, *rest]), "warmup"))


def test_each_figure_of_the_guide_is_set_against_the_runs_own(real_run: RunState) -> None:
    against = {phase: against_guide(facts(real_run, phase)) for phase in PHASE_IDS}
    assert "rounding" in against["load"]
    assert against["static_cache"].startswith("Ours is the same")
    assert "workspace since prefill" in against["warmup"]
    assert "only the logits are new" in against["capture"]
    assert against["replay"] == "Ours is the same: 0 B."
    assert [phase for phase in PHASE_IDS if not against[phase]] == ["context", "prefill", "copy_kv", "release"]


def test_another_model_or_cache_is_named_as_the_reason(real_run: RunState) -> None:
    view = facts(real_run, "static_cache")
    assert view.settings is not None and view.model is not None
    longer = msgspec.structs.replace(view, settings=msgspec.structs.replace(view.settings, max_cache_len=2048))
    assert "a cache of 2,048 instead of its 1,024" in against_guide(longer)
    other = msgspec.structs.replace(view, model=msgspec.structs.replace(view.model, name="tiny"))
    assert "tiny instead of its qwen3-4b" in against_guide(other)


@pytest.mark.parametrize("phase", PHASE_IDS)
def test_what_is_not_known_is_never_told_as_a_number(phase: PhaseId) -> None:
    known = facts(folded(sample_run()), phase)
    assert known.row.end is not None
    end = msgspec.structs.replace(
        known.row.end, before=type(known.row.end.before)(), after=type(known.row.end.after)(), explained={}
    )
    bare = ExplanationView(row=msgspec.structs.replace(known.row, end=end))
    known_of_any_run = f"{PHASE_BY_ID[phase].what} {PHASE_BY_ID[phase].why} {PHASE_BY_ID[phase].look}"
    told = lesson(bare).replace(known_of_any_run, "").replace("slot 0", "")
    assert not any(character.isdecimal() for character in told)
    assert against_guide(bare) == ""


def test_a_phase_opened_tells_each_counter_its_source_its_parts_and_the_guides_figure(real_run: RunState) -> None:
    lines = "\n".join(line.plain for line in phase_lines(facts(real_run, "capture")))
    for wanted in (
        "memory_stats: requested_bytes.all.current",
        "torch.cuda.memory_allocated",
        "torch.cuda.memory_reserved",
        "NVML minus reserved",
        "logits kept by the graph",
        "private pool",
        "executable graph",
        "+8 MiB on its RTX 3090",
        "Ours is +0.3 MiB",
    ):
        assert wanted in lines, wanted


def test_while_it_decodes_sentences_and_tokens_follow_at_a_readers_pace() -> None:
    """Each painting costs, and nobody reads ten sentences a second; whatever else changes is shown at once."""
    first = folded(sample_run()[:-1])
    assert first.decode is not None and first.status is not None

    def later(seconds: float, mode: Mode = "graph", *, paused: bool = False) -> RunState:
        t = first.t + seconds
        decode = sample_decode(t, mode, 5000 + round(seconds * 100), 120.0, 700)
        status = Status(t=t, state="paused" if paused else "decoding", mode=mode)
        told = (status, decode, Tokens(t=t, mode=mode, ids=(round(seconds * 100),)))
        state = first
        for event in told:
            state = fold(state, event)
        return state

    def shown(pane: PhasesPane) -> tuple[int | None, int]:
        view = pane.explanation_pane.view.decoding
        return (None if view is None else view.tokens), pane.token_pane.view.ids[-1]

    pane = PhasesPane()
    pane.show_state(later(0.0), Surroundings())
    assert shown(pane) == (5000, 0)
    pane.show_state(later(0.1), Surroundings())
    assert shown(pane) == (5000, 0)
    pane.show_state(later(0.3), Surroundings())
    assert shown(pane) == (5000, 30)
    pane.show_state(later(0.6), Surroundings())
    assert shown(pane) == (5060, 60)
    pane.show_state(later(0.65, "eager"), Surroundings())
    assert shown(pane) == (5065, 65), "another mode"
    pane.show_state(later(0.7, "eager", paused=True), Surroundings())
    assert shown(pane) == (5070, 70), "it is read now"
    recorded = PhasesPane()
    for seconds in (0.0, 0.1):
        recorded.show_state(later(seconds), Surroundings(kind="recorded"))
    assert shown(recorded) == (5010, 10), "a recording is stepped event by event"
