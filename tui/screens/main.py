"""The main screen: all panels of a run, laid out by CSS, each shown its slice of the state."""

import time
from collections.abc import Callable

import msgspec
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal, Vertical
from textual.screen import Screen
from textual.timer import Timer

from ...core.events import Error, PhaseId
from ...core.phases import PHASE_IDS
from ...core.state import RunState
from ..keys import Facts, SourceKind, refusal
from ..widgets.decode_gauge import DecodeGauge, DecodeView
from ..widgets.error_panel import ErrorPanel, ErrorView
from ..widgets.explanation import Explanation, ExplanationView
from ..widgets.key_bar import Key, KeyBar
from ..widgets.memory_bar import MemoryBar, MemoryView
from ..widgets.notice import NoticeBar, NoticeView, status_text
from ..widgets.phase_list import PhaseList, PhasesView, shown_row
from ..widgets.phase_table import PhaseTable
from ..widgets.replay_counter import ReplayCounter, ReplayView
from ..widgets.telemetry import TelemetryPane, TelemetryView
from ..widgets.title import Banner, Essentials, Playback, TitleBar, TitleView
from ..widgets.tokens import TokenPane, TokensView
from .texts import key_name

WIDTHS: list[tuple[int, str]] = [(0, "-w-tiny"), (40, "-w-narrow"), (76, "-w-medium"), (104, "-w-wide")]
"""Class of the screen from so many columns on; `styles/cgtop.tcss` lays out each."""
HEIGHTS: list[tuple[int, str]] = [
    (0, "-h-tiny"),
    (10, "-h-short"),
    (12, "-h-brief"),
    (16, "-h-low"),
    (22, "-h-medium"),
    (30, "-h-tall"),
    (36, "-h-high"),
    (46, "-h-huge"),
]


class MainScreen(Screen[None]):
    """The one view of a run."""

    HORIZONTAL_BREAKPOINTS = WIDTHS
    VERTICAL_BREAKPOINTS = HEIGHTS

    def __init__(self, kind: SourceKind, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self.kind = kind
        self._clock = clock
        self.selected: PhaseId | None = None
        self.dismissed: Error | None = None
        self.state = RunState()
        self._playback: Playback | None = None
        self._heard = (-1.0, 0.0)
        """The run's time of the last event, and when it came."""
        recorded = kind == "recorded"
        self.essentials = Essentials((RunState(), recorded), id="essentials")
        self.title_bar = TitleBar(TitleView(recorded=recorded), id="title")
        self.banner = Banner(TitleView(recorded=recorded), id="banner")
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
        self.notice_bar = NoticeBar(NoticeView(), id="notice")
        self.key_bar = KeyBar((), id="keys")
        self._notice = NoticeView()
        self._notice_timer: Timer | None = None

    def compose(self) -> ComposeResult:
        """Every panel exists at every size; CSS shows those that fit."""
        yield self.essentials
        yield self.title_bar
        yield self.banner
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
        yield self.notice_bar
        yield self.key_bar

    def on_mount(self) -> None:
        """The banner has a line of its own only for a recording."""
        self.set_class(self.kind == "recorded", "-recorded")

    def show_state(self, state: RunState, playback: Playback | None) -> None:
        """Give every panel its slice; a panel whose slice is the same does nothing."""
        self.state, self._playback = state, playback
        recorded, hello = self.kind == "recorded", state.hello
        on_cpu = hello is not None and hello.device.kind == "cpu"
        self.essentials.show((state, recorded))
        self.title_bar.show(TitleView(hello=hello, recorded=recorded, alive=state.end is None))
        self.banner.show(TitleView(hello=hello, recorded=recorded, playback=playback))
        self._show_phases()
        self.telemetry.show(TelemetryView(telemetry=state.telemetry, on_cpu=on_cpu))
        self.memory_bar.show(
            MemoryView(memory=state.memory, letters=self.app.no_color, on_cpu=on_cpu),
        )
        self._show_speed(state)
        self._show_lower(state)
        self._show_notice()
        self._show_keys()

    def show_clock(self) -> None:
        """Move the clock of a phase that runs, although nothing has happened."""
        if self.kind == "live" and self.state.running_phase is not None:
            self._show_phases()

    def _show_phases(self) -> None:
        phases = self._phases(self.state)
        self.phase_list.show(phases)
        self.phase_table.show(phases)

    def _phases(self, state: RunState) -> PhasesView:
        return PhasesView(phases=state.phases, selected=self.selected, t=self._phase_clock(state))

    def _phase_clock(self, state: RunState) -> float | None:
        """The run's time by whole seconds while a phase runs: the last event's, moved on by this machine's clock."""
        if state.running_phase is None:
            return None
        if self.kind == "recorded":
            return float(int(state.t))
        if state.t != self._heard[0]:
            self._heard = (state.t, self._clock())
        return float(int(state.t + self._clock() - self._heard[1]))

    def _show_speed(self, state: RunState) -> None:
        hello, capture = state.hello, state.phase("capture")
        self.decode_gauge.show(
            DecodeView(
                decode=state.decode,
                by_mode=state.decode_by_mode,
                speeds=state.speeds,
                speed_up=state.speed_up,
                state=state.status.state if state.status is not None else None,
                peak_bandwidth=hello.device.memory_bandwidth_bytes_s if hello is not None else None,
                can_graph=capture.status != "unavailable",
            )
        )
        unavailable = capture.end.reason if capture.status == "unavailable" and capture.end is not None else ""
        self.replay_counter.show(
            ReplayView(
                graph=state.decode_by_mode.get("graph"),
                eager_per_token=state.allocations_per_eager_token,
                verification=state.verification,
                addresses=state.addresses,
                no_capture=unavailable,
            )
        )

    def _show_lower(self, state: RunState) -> None:
        model = state.hello.model if state.hello is not None else None
        self.explanation_pane.show(self.explanation(state))
        self.token_pane.show(
            TokensView(ids=state.tokens, text=state.text, random_weights=model is not None and model.source == "random")
        )
        error = state.errors[-1] if state.errors else None
        if error is not None and error == self.dismissed:
            error = None
        self.error_panel.show(ErrorView(error=error, recorded=self.kind == "recorded"))
        self.set_class(error is not None, "-error")

    def show_notice(self, text: str, seconds: float, *, bad: bool) -> None:
        """Say something in the status line for some seconds."""
        self._notice = NoticeView(notice=text, bad=bad)
        self._show_notice()
        if self._notice_timer is not None:
            self._notice_timer.stop()
        self._notice_timer = self.set_timer(seconds, self._end_notice)

    def _end_notice(self) -> None:
        self._notice = NoticeView()
        self._show_notice()

    def _show_notice(self) -> None:
        status = status_text(self.state, recorded=self.kind == "recorded")
        self.notice_bar.show(msgspec.structs.replace(self._notice, status=status))

    def _show_keys(self) -> None:
        facts = Facts(state=self.state, kind=self.kind)
        keys = tuple(
            Key(
                key=binding.key_display or key_name(binding.key),
                label=binding.description,
                action=f"app.{binding.action}",
                acts=refusal(binding.action, facts) is None,
            )
            for binding in shown_bindings(self)
        )
        self.key_bar.show(keys)

    def explanation(self, state: RunState) -> ExplanationView:
        """The slice that explains the phase that matters now."""
        row = shown_row(PhasesView(phases=state.phases, selected=self.selected))
        boundary = state.boundary_memory.get(row.id)
        return ExplanationView(
            row=row,
            model=state.hello.model if state.hello is not None else None,
            graph=state.graph,
            decode=state.decode_by_mode.get("graph") if row.id == "replay" else None,
            pool_bytes=sum(pool.reserved_bytes for pool in boundary.pools) if boundary and boundary.pools else None,
        )

    def on_phase_list_chosen(self, event: PhaseList.Chosen) -> None:
        """Explain the phase that was clicked."""
        self.selected = event.phase
        self.show_state(self.state, self._playback)

    def move_selection(self, step: int) -> None:
        """Select the phase above or below the one that is shown."""
        shown = shown_row(self._phases(self.state)).id
        index = max(0, min(len(PHASE_IDS) - 1, PHASE_IDS.index(shown) + step))
        self.selected = PHASE_IDS[index]

    def close_extras(self) -> None:
        """Back to following the run: no selection, no error panel."""
        self.selected = None
        self.dismissed = self.state.errors[-1] if self.state.errors else None


def shown_bindings(screen: Screen[None]) -> list[Binding]:
    """The bindings for the line of keys, remapped keys included: one an action, help and quit last."""
    shown: dict[str, Binding] = {}
    for active in screen.active_bindings.values():
        binding = active.binding
        if binding.show and binding.description:
            shown.setdefault(binding.action, binding)
    return list(shown.values())
