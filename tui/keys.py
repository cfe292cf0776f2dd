"""The keys: what each does, and which of them the line of keys names."""

from typing import Literal

from textual.binding import Binding

from .views import VIEWS, ViewId, view_key

SourceKind = Literal["live", "recorded"]

RUN_BINDINGS: list[Binding] = [
    Binding("n", "next_phase", "next", id="cgtop.next",
            tooltip="Run the next phase; a recording goes to its next stop: a phase's end, another mode, a result"),
    Binding("r", "run_all", "run all", id="cgtop.run_all",
            tooltip="Run all phases that are left, up to replay; a recording plays on"),
    Binding("e", "mode('eager')", "eager", id="cgtop.eager", tooltip="Decode eagerly on the StaticCache"),
    Binding("d", "mode('dynamic')", "dynamic", id="cgtop.dynamic", tooltip="Decode eagerly on a DynamicCache"),
    Binding("g", "mode('graph')", "graph", id="cgtop.graph", tooltip="Decode by replaying the graph"),
    Binding("space", "pause", "pause", id="cgtop.pause", tooltip="Pause between two steps, or go on"),
    Binding("t", "try_capture", "try a capture", id="cgtop.try_capture",
            tooltip="Caches: attempt a capture on the DynamicCache"),
    Binding("b", "break_input", "break it", id="cgtop.break_input",
            tooltip="Addresses: rebind the input instead of copying into it; again: put it right"),
    Binding("m", "measure", "measure", id="cgtop.measure",
            tooltip="Cache lengths, batch sizes, compare, checks: measure; again: stop after this row"),
    Binding("v", "verify", "verify", show=False, id="cgtop.verify", tooltip="Verify the graph against eager steps"),
    Binding("R", "restart", "restart", id="cgtop.restart",
            tooltip="Release everything and start anew; asks first. In a recording: back to its start"),
    Binding("o", "options", "options", id="cgtop.options",
            tooltip="Model, lengths, batch size, mode: change them and start anew"),
]  # fmt: skip
"""What acts on the run."""
PLAY_BINDINGS: list[Binding] = [
    Binding("N", "previous_phase", "stop back", show=False, id="cgtop.previous",
            tooltip="Recording: back to the stop before"),
    Binding("full_stop", "step(1)", "step", key_display=".", id="cgtop.step", tooltip="Recording: one event on"),
    Binding("comma", "step(-1)", "step back", show=False, key_display=",", id="cgtop.step_back",
            tooltip="Recording: one event back"),
    Binding("greater_than_sign", "speed(1)", "faster", key_display=">", id="cgtop.play_faster",
            tooltip="Recording: play twice as fast"),
    Binding("less_than_sign", "speed(-1)", "slower", key_display="<", id="cgtop.play_slower",
            tooltip="Recording: play half as fast"),
    Binding("right_square_bracket", "seek(5)", "+5 s", key_display="]", id="cgtop.forward",
            tooltip="Recording: five seconds on"),
    Binding("left_square_bracket", "seek(-5)", "−5 s", key_display="[", id="cgtop.back",
            tooltip="Recording: five seconds back"),
]  # fmt: skip
"""What acts on a recording's player."""
VIEW_BINDINGS: list[Binding] = [
    Binding(view_key(view.id), f"view('{view.id}')", view.title, show=False, id=f"cgtop.view.{view.id}",
            tooltip=f"{view.title}: {view.what}")
    for view in VIEWS
]  # fmt: skip
SCREEN_BINDINGS: list[Binding] = [
    Binding("up", "select(-1)", "up", show=False, id="cgtop.up", tooltip="Select what is above"),
    Binding("down", "select(1)", "down", show=False, id="cgtop.down", tooltip="Select what is below"),
    Binding("left", "across(-1)", "left", show=False, id="cgtop.left", tooltip="Memory map: the block before"),
    Binding("right", "across(1)", "right", show=False, id="cgtop.right", tooltip="Memory map: the next block"),
    Binding("enter", "open", "open", show=False, id="cgtop.open",
            tooltip="Open: a phase's Δs, a check, a statement, addresses by layer; the map sorts anew"),
    Binding("x", "details", "error details", show=False, id="cgtop.details", tooltip="The last error in full"),
    Binding("escape", "close", "close", show=False, id="cgtop.close", tooltip="Close the error, follow the run again"),
    Binding("s", "save", "save", id="cgtop.save", tooltip="Save the screen, the report and the recording in a folder"),
    Binding("l", "log", "log", id="cgtop.log", tooltip="What the worker and its libraries printed"),
    Binding("T", "theme", "theme", show=False, id="cgtop.theme", tooltip="Dark, light or the terminal's own colours"),
    Binding("plus,equals_sign", "refresh_rate(1)", "redraw more", show=False, key_display="+", id="cgtop.faster",
            tooltip="Redraw more often, at most 10 times a second"),
    Binding("minus", "refresh_rate(-1)", "redraw less", show=False, key_display="-", id="cgtop.slower",
            tooltip="Redraw less often"),
]  # fmt: skip
"""What acts on the screen alone."""
TAB_BINDINGS: list[Binding] = [
    Binding("tab", "app.next_view(1)", "next view", show=False, id="cgtop.view.next", tooltip="The next view"),
    Binding("shift+tab", "app.next_view(-1)", "view before", show=False, id="cgtop.view.before",
            tooltip="The view before"),
]  # fmt: skip
"""Bound by the main screen, since a screen has a meaning of its own for them."""
APP_BINDINGS: list[Binding] = [
    Binding("question_mark,h,f1", "help", "help", key_display="?", id="cgtop.help", tooltip="This help"),
    Binding("q", "leave", "quit", id="cgtop.quit", tooltip="Quit at once"),
    Binding("ctrl+c", "leave", "quit", show=False, priority=True, id="cgtop.interrupt", tooltip="Quit at once"),
    Binding("ctrl+z", "suspend_process", "suspend", show=False, priority=True, id="cgtop.suspend",
            tooltip="To the shell; fg returns"),
]  # fmt: skip
ALL_BINDINGS: list[Binding] = [*RUN_BINDINGS, *PLAY_BINDINGS, *VIEW_BINDINGS, *SCREEN_BINDINGS, *APP_BINDINGS]

MEASURING_VIEWS: tuple[ViewId, ...] = ("cache_lens", "batches", "compare", "checks")
_IN_VIEWS: dict[str, tuple[ViewId, ...]] = {
    "try_capture": ("caches",),
    "break_input": ("addresses",),
    "measure": MEASURING_VIEWS,
}
_PLAY_ACTIONS = frozenset(binding.action for binding in PLAY_BINDINGS)
_LIVE_ACTIONS = frozenset(
    binding.action for binding in RUN_BINDINGS if binding.action not in ("next_phase", "pause", "restart")
)


def named(action: str, kind: SourceKind, view: ViewId) -> bool:
    """Whether the line of keys names this action: those of the view and of the kind of source only."""
    if kind == "recorded":
        return action not in _LIVE_ACTIONS
    return action not in _PLAY_ACTIONS and view in _IN_VIEWS.get(action, (view,))
