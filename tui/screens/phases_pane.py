"""The view of the phases: all panels of a run, laid out by CSS, each shown its slice of the state."""

import time
from collections.abc import Callable

import msgspec
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical

from ...core.events import PhaseId
from ...core.phases import PHASE_BY_ID, PHASE_IDS
from ...core.state import RunState
from ..refusals import is_rebound, why_no_capture
from ..views import view_key
from ..widgets.decode_gauge import DecodeGauge, DecodeView
from ..widgets.error_panel import ErrorPanel, ErrorView
from ..widgets.explanation import Explanation, ExplanationView
from ..widgets.memory_bar import MemoryBar, MemoryView
from ..widgets.phase_list import PhaseList, PhasesView, shown_row
from ..widgets.phase_table import PhaseTable
from ..widgets.replay_counter import ReplayCounter, ReplayView
from ..widgets.telemetry import TelemetryPane, TelemetryView
from ..widgets.tokens import TokenPane, TokensView
from .pane import Opened, Pane, Surroundings
from .texts import phase_lines

SENTENCE_S, TOKENS_S = 0.5, 0.2
"""How long the explanation and the tokens stay while it decodes."""


class PhasesPane(Pane):
    """The first view."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__("phases")
        self._clock = clock
        self.selected: PhaseId | None = None
        self._state = RunState()
        self._around = Surroundings()
        self._shown: dict[str, tuple[float, object]] = {}
        """Panel -> the run's time of what it shows, and what that is but for the figures of decoding."""
        self._heard = (-1.0, 0.0)
        """The run's time of the last event, and when it came."""
        self.phase_list = PhaseList(PhasesView(), id="phases", classes="panel")
        self.telemetry = TelemetryPane(TelemetryView(), id="telemetry", classes="panel")
        self.memory_bar = MemoryBar(MemoryView(), id="memory", classes="panel")
        self.phase_table = PhaseTable(PhasesView(), id="table", classes="panel")
        self.decode_gauge = DecodeGauge(DecodeView(), id="decode", classes="panel")
        self.replay_counter = ReplayCounter(ReplayView(), id="replay", classes="panel")
        self.explanation_pane = Explanation(
            ExplanationView(row=RunState().phases[0]), id="explanation", classes="panel"
        )
        self.error_panel = ErrorPanel(ErrorView(), id="error", classes="panel")
        self.token_pane = TokenPane(TokensView(), id="tokens", classes="panel")

    def compose(self) -> ComposeResult:
        """Every panel exists at every size; CSS shows those that fit."""
        with Horizontal(id="upper"):
            with Vertical(id="left"):
                yield self.phase_list
                yield self.telemetry
            with Vertical(id="right"):
                yield self.memory_bar
                yield self.phase_table
                with Horizontal(id="speed"):
                    yield self.decode_gauge
                    yield self.replay_counter
        with Horizontal(id="lower"):
            yield self.explanation_pane
            yield self.error_panel
            yield self.token_pane

    def show_state(self, state: RunState, around: Surroundings) -> None:
        """Give every panel its slice; a panel whose slice is the same does nothing."""
        self._state, self._around = state, around
        on_cpu = state.hello is not None and state.hello.device.kind == "cpu"
        self._show_phases()
        self.telemetry.show(TelemetryView.of(state))
        self.memory_bar.show(MemoryView(memory=state.memory, letters=around.letters, on_cpu=on_cpu))
        self._show_speed(state)
        self._explain()
        decoded = any(figures.tokens for figures in state.decode_by_mode.values())
        if not self._is_held("tokens", TOKENS_S, state.decode.mode if state.decode is not None else None):
            self.token_pane.show(TokensView(ids=state.tokens, text=state.text, decoded=decoded))

    def show_error(self, view: ErrorView) -> None:
        """Show an error in the explanation's place; CSS does so while the screen has the class `-error`."""
        self.error_panel.show(view)

    def show_clock(self) -> None:
        """Move the clock of a phase that runs."""
        if not self._around.recorded and self._state.running_phase is not None:
            self._show_phases()

    def _show_phases(self) -> None:
        phases = PhasesView(phases=self._state.phases, selected=self.selected, t=self._phase_clock(self._state))
        self.phase_list.show(phases)
        self.phase_table.show(phases)

    def _phase_clock(self, state: RunState) -> float | None:
        """The run's time by whole seconds while a phase runs: the last event's, moved on by this machine's clock."""
        if state.running_phase is None:
            return None
        if self._around.recorded:
            return float(int(state.t))
        if state.t != self._heard[0]:
            self._heard = (state.t, self._clock())
        return float(int(state.t + self._clock() - self._heard[1]))

    def _show_speed(self, state: RunState) -> None:
        hello = state.hello
        self.decode_gauge.show(
            DecodeView(
                decode=state.decode,
                by_mode=state.decode_by_mode,
                longest=state.longest_by_mode,
                speeds=state.speeds,
                speed_up=state.speed_up,
                state=state.status.state if state.status is not None else None,
                peak_bandwidth=hello.device.memory_bandwidth_bytes_s if hello is not None else None,
                can_graph=not why_no_capture(state),
                recorded=self._around.recorded,
                experiment=_experiment_view(state),
            )
        )
        self.replay_counter.show(
            ReplayView(
                graph=state.decode_by_mode.get("graph"),
                eager_per_token=state.allocations_per_eager_token,
                verification=state.verification,
                addresses=state.addresses,
                no_capture=why_no_capture(state),
                experiment=_experiment_view(state),
            )
        )

    def _explain(self) -> None:
        view = self.explanation()
        mode = view.decoding.mode if view.decoding is not None else None
        if not self._is_held(
            "explanation", SENTENCE_S, (msgspec.structs.replace(view, decode=None, decoding=None), mode)
        ):
            self.explanation_pane.show(view)

    def _is_held(self, panel: str, seconds: float, key: object) -> bool:
        """Whether a panel stays as it is for now: shown a moment ago, with nothing new but figures of decoding.

        Nobody reads a sentence ten times a second, and each painting costs. A recording is held still and stepped.
        """
        t, status = self._state.t, self._state.status
        goes_on = not self._around.recorded and status is not None and status.state == "decoding"
        last, before = self._shown.get(panel, (0.0, None))
        if goes_on and before == key and 0 <= t - last < seconds:
            return True
        self._shown[panel] = t, key
        return False

    def explanation(self) -> ExplanationView:
        """The slice that explains the phase that matters now."""
        state = self._state
        row = shown_row(PhasesView(phases=state.phases, selected=self.selected))
        boundary = state.boundary_memory.get(row.id)
        decodes = state.status is not None and state.status.state in ("decoding", "paused")
        return ExplanationView(
            row=row,
            model=state.hello.model if state.hello is not None else None,
            settings=state.hello.settings if state.hello is not None else None,
            device=state.hello.device if state.hello is not None else None,
            graph=state.graph,
            decode=state.decode_by_mode.get("graph") if row.id == "replay" else None,
            decoding=state.decode if decodes and self.selected is None else None,
            demonstration=state.demonstration if self.selected is None and is_rebound(state) else None,
            pool_bytes=sum(pool.reserved_bytes for pool in boundary.pools) if boundary and boundary.pools else None,
        )

    def on_phase_list_chosen(self, event: PhaseList.Chosen) -> None:
        """Explain the phase that was clicked."""
        self.selected = event.phase
        self.show_state(self._state, self._around)

    def move(self, step: int) -> None:
        """Select the phase above or below the one that is shown."""
        shown = shown_row(PhasesView(phases=self._state.phases, selected=self.selected)).id
        index = max(0, min(len(PHASE_IDS) - 1, PHASE_IDS.index(shown) + step))
        self.selected = PHASE_IDS[index]
        self.show_state(self._state, self._around)

    def opened(self) -> Opened:
        """The phase in full."""
        view = self.explanation()
        return Opened(f"Phase: {PHASE_BY_ID[view.row.id].title}", phase_lines(view))

    def reset(self) -> None:
        """Follow the run again."""
        self.selected = None
        self.show_state(self._state, self._around)


def _experiment_view(state: RunState) -> str:
    """The key of the view whose experiment has decoded; empty if none has."""
    if state.comparison is not None and state.comparison.arms:
        return view_key("checks" if state.checks else "compare")
    done = next((kind for kind, sweep in state.sweeps.items() if sweep.rows), None)
    return view_key(done) if done is not None else ""
