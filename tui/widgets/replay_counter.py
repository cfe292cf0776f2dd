"""The proof: what the allocator did while the graph was replayed, and whether the replay computes the same."""

import msgspec
from textual.content import Content
from textual.events import Resize

from ...core.events import Addresses, Decode, Verification
from ..format import NA, clean, count, significant
from .lines import LinesWidget, wrapped


class ReplayView(msgspec.Struct, frozen=True):
    """What the counter shows."""

    graph: Decode | None = None
    eager_per_token: float | None = None
    verification: Verification | None = None
    addresses: Addresses | None = None
    no_capture: str = ""
    """Why there is no graph at all, if so."""
    experiment: str = ""
    """The key of a view whose experiment has replayed, if one has."""


class ReplayCounter(LinesWidget[ReplayView]):
    """The panel of allocations during replay."""

    BORDER_TITLE = "Replay allocations"

    def draw(self, view: ReplayView, width: int, height: int) -> list[Content]:
        """As `render_replay` says."""
        return render_replay(view, width, height)

    def on_resize(self, event: Resize) -> None:
        """The title in full where there is room for it."""
        self.border_title = "Allocations during replay" if event.size.width >= 28 else self.BORDER_TITLE
        super().on_resize(event)


def render_replay(view: ReplayView, width: int, height: int) -> list[Content]:
    """The count, eager's beside it, the verdict, the addresses; on one line where there is only one."""
    verdict = verdict_line(view.verification)
    if view.verification is None and view.no_capture:
        verdict = Content.styled(clean(view.no_capture), "$muted")
    if height == 1:
        return [_one_line(view, width)]
    lines = [_count(view), _eager(view, short=width < 28)]
    room = height - len(lines) - (view.addresses is not None)
    lines += wrapped([verdict], width, 2) if room >= 2 and width >= 20 else [verdict]
    if width >= 40:
        lines[:2] = [Content("  ").join(lines[:2])]
    if view.addresses is not None:
        lines.append(_addresses(view.addresses, width))
    return lines[:height]


def _addresses(addresses: Addresses, width: int) -> Content:
    moved, number = addresses.moved, count(len(addresses.fixed))
    found = f"{count(moved)} moved" if addresses.checked or moved else "not compared yet"
    full = f"{number} fixed addresses, {found}"
    return Content.styled(
        full if len(full) <= width else f"{number} addresses, {found}", "bold $text-error" if moved else "$muted"
    )


def _one_line(view: ReplayView, width: int) -> Content:
    parts = [_count(view), _eager(view, short=True)]
    verdict = verdict_line(view.verification, short=True)
    if view.verification is not None and view.verification.verdict == "mismatch":
        parts.insert(0, verdict)
    else:
        parts.append(verdict)
    line = Content("  ").join(parts)
    if line.cell_length > width and view.verification is not None and view.verification.verdict != "mismatch":
        parts[-1] = verdict.truncate(1)
        line = Content("  ").join(parts)
    return line


def _count(view: ReplayView) -> Content:
    graph = view.graph
    if graph is None or not graph.replays:
        where = " no replay yet"
        if view.no_capture:
            where = " no replay here"
        elif view.experiment:
            where = f" none but in view {view.experiment}"
        return Content.assemble((NA, "bold"), (where, "$muted"))
    allocations = graph.replay_allocations
    style = (
        "bold $text-success"
        if allocations == 0
        else "bold $text-warning"
        if allocations is None
        else "bold $text-error"
    )
    return Content.assemble((count(allocations), style), f" in {count(graph.replays)} replays")


def _eager(view: ReplayView, *, short: bool) -> Content:
    figure = count(view.eager_per_token)
    unit = "/token" if short else " a token"
    return Content.assemble(("eager ", "$muted"), (figure, "bold"), (unit if figure != NA else "", "$muted"))


def verdict_line(verification: Verification | None, *, short: bool = False) -> Content:
    """The verdict in words, with its figures."""
    if verification is None:
        return Content.styled("not verified" if short else "replay not verified yet", "$muted")
    steps = f"{verification.steps} steps" + (f" × {verification.batch_size}" if verification.batch_size > 1 else "")
    spoilt = " (corrupted on purpose)" if verification.corrupted_on_purpose else ""
    match verification.verdict:
        case "identical":
            text, style = f"✓ IDENTICAL, {steps}", "bold $text-success"
        case "within_eager_noise":
            figures = (
                f" {significant(verification.max_difference)}, eager's own {significant(verification.eager_difference)}"
            )
            text, style = f"≈ WITHIN EAGER'S NOISE{'' if short else figures}", "bold $text-warning"
        case _:
            step = verification.first_mismatch_step
            where = "" if step is None else f" at step {step}"
            if verification.is_divided and not short:
                where += f", {verification.replays_off} of {verification.replay_runs} runs"
            text, style = f"✗ MISMATCH{where}, {significant(verification.max_difference)}", "bold $text-error"
    return Content.styled(text + spoilt, style)
