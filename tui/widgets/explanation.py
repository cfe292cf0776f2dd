"""What happens in a phase, why, and what to look at: with this run's own figures and the guide's."""

from textual.content import Content

from ...core.events import CounterName, PhaseId
from ...core.phases import PHASE_BY_ID, Phase
from ...core.state import PhaseState
from ..format import clean, count, delta, duration, size, tok_s
from .lesson import against_guide, lesson
from .lesson_modes import REBOUND, TITLES, mode_lesson, rebound_lesson
from .lines import LinesWidget, wrapped
from .phase_facts import ExplanationView
from .phase_list import counter_delta

__all__ = ["Explanation", "ExplanationView", "guide_line", "render_explanation", "this_run"]

DELTA_ORDER: tuple[CounterName, ...] = ("allocated", "requested", "reserved", "driver")


class Explanation(LinesWidget[ExplanationView]):
    """The explanation panel."""

    BORDER_TITLE = "What happens here"

    def draw(self, view: ExplanationView, width: int, height: int) -> list[Content]:
        """As `render_explanation` says."""
        return render_explanation(view, width, height)


def render_explanation(view: ExplanationView, width: int, height: int) -> list[Content]:
    """The mode that decodes; else the phase's lesson, figures first, the guide's and why ours differs, the Δs."""
    if view.demonstration is not None:
        taught = Content.assemble((f"{REBOUND}. ", "bold"), rebound_lesson(view.demonstration))
        return wrapped([taught], width, height)
    if view.decoding is not None:
        name = Content.styled(f"{TITLES[view.decoding.mode]}. ", "bold")
        return wrapped([Content.assemble(name, mode_lesson(view, view.decoding))], width, height)
    phase = PHASE_BY_ID[view.row.id]
    figures, guide = this_run(view), " ".join(text for text in (guide_line(phase), against_guide(view)) if text)
    title = (f"{phase.title}. ", "bold")
    taught = Content.assemble(title, lesson(view))
    run = Content.assemble(("This run: ", "bold $text-accent"), figures)
    reference = Content.assemble(("Guide: ", "bold $text-secondary"), guide)
    failed = view.row.status in ("unavailable", "failed")
    if failed and figures:
        taught = Content.assemble(title, run, " ", lesson(view))
    paragraphs = [taught, *_if(guide, reference), *(_if(figures, run) if not failed else [])]
    return wrapped(paragraphs if height >= 6 else [Content(" ").join(paragraphs)], width, height)


def _if(text: str, content: Content) -> list[Content]:
    return [content] if text else []


def guide_line(phase: Phase) -> str:
    """The guide's figure and its reason, and where that reason is wrong."""
    if phase.guide_delta_mib is None:
        return ""
    text = f"{phase.guide_delta_mib:+,.0f} MiB on its RTX 3090" if phase.guide_delta_mib else "0 MiB on its RTX 3090"
    if phase.guide_says:
        text += f", “{phase.guide_says}”"
    return f"{text}. {phase.correction}" if phase.correction else f"{text}."


def this_run(view: ExplanationView) -> str:
    """Figures of this run for a phase, or why there are none; empty before it has run."""
    row, end = view.row, view.row.end
    if row.status in ("unavailable", "failed"):
        return f"{clean(end.reason) if end is not None and end.reason else row.status}."
    if end is None:
        return ""
    known = {name: change for name in DELTA_ORDER if (change := counter_delta(end, name)) is not None}
    deltas = ", ".join(f"{name} {delta(change)}" for name, change in known.items())
    if known and not any(known.values()):
        deltas = f"0 B on {' and '.join(known) if len(known) < 4 else 'every counter'}"
    extra = _particulars(row.id, view)
    parts = [part for part in (deltas, made_of(row), extra, f"in {duration(end.seconds)}") if part]
    return "; ".join(parts) + "."


def made_of(row: PhaseState) -> str:
    """What the Δ of allocated is made of, biggest first; an inferred cause says so."""
    items = row.end.explained.get("allocated", ()) if row.end is not None else ()
    shown = sorted(items, key=lambda item: abs(item.bytes), reverse=True)[:3]
    if not shown:
        return ""
    inferred = {"inferred": " (inferred)", "computed": " (computed)", "measured": ""}
    return "made of " + " + ".join(f"{clean(item.name)} {size(item.bytes)}{inferred[item.certainty]}" for item in shown)


def _particulars(phase: PhaseId, view: ExplanationView) -> str:
    model, graph, decode = view.model, view.graph, view.decode
    match phase:
        case "load" if model is not None:
            return f"{count(model.parameters)} parameters, {size(model.parameter_bytes)} in {clean(model.dtype)}"
        case "static_cache" if model is not None:
            return f"closed form for the KV: {size(model.static_cache_bytes)}"
        case "capture" if graph is not None:
            nodes = (
                f"{count(graph.nodes)} nodes, instantiated for {size(graph.instantiate_driver_bytes)} of driver memory"
            )
            return nodes + (f", private pool {size(view.pool_bytes)}" if view.pool_bytes is not None else "")
        case "replay" if decode is not None:
            return (
                f"{count(decode.replay_allocations)} allocations in {count(decode.replays)} replays "
                f"at {tok_s(decode.tok_s_mean)} tok/s"
            )
    return ""
