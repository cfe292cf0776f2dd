"""The decode mode that runs, explained to a student: its own figures first, then what a token of it costs."""

from ...core.events import Decode, Demonstration
from ...core.settings import Mode
from ..format import count, tok_s
from .phase_facts import ExplanationView

TITLES: dict[Mode, str] = {
    "eager": "Eager decoding",
    "dynamic": "Decoding with a DynamicCache",
    "graph": "Graph replay",
}


REBOUND = "The input is rebound"


def rebound_lesson(shown: Demonstration) -> str:
    """What came of it, for the view of the phases; the view of the addresses has the figures."""
    number = count(len(shown.replay_ids))
    did = "followed what was fed all the same" if shown.follows else "went on reading the old one"
    return (
        f"The static input is another tensor now, and {number} replays {did}: a graph knows addresses, not names. "
        "Decoding by replay is refused meanwhile. View 4 shows what was fed and what came of it; b puts it right."
    )


def mode_lesson(facts: ExplanationView, decode: Decode) -> str:
    """Two or three sentences; figures that are not known are left out."""
    match decode.mode:
        case "eager":
            return f"{_figures(decode)}{_launches(facts)}A graph does the same step by one launch."
        case "dynamic":
            return (
                f"{_figures(decode)}Each token makes the cache one longer: the keys and values of every layer are "
                "allocated anew and copied. They grow and move, and a graph would go on with the old ones. "
                + _launches(facts)
            ).rstrip()
        case "graph":
            return _replays(decode) + (
                "Each token is one launch of the graph: same kernels, same addresses, new values. The next token is "
                "written to the static input inside the graph, so the host only launches."
            )


def _figures(decode: Decode) -> str:
    speed = f"{tok_s(decode.tok_s_mean)} tok/s on average" if decode.tok_s_mean is not None else ""
    allocations = decode.allocations_per_step
    made = f"{count(allocations)} allocations a step" if allocations is not None else ""
    known = [text for text in (made, speed) if text]
    return f"{', '.join(known)}. " if known else ""


def _launches(facts: ExplanationView) -> str:
    if facts.device is not None and facts.device.kind == "cpu":
        return "Python calls every operation of the step, one after another. "
    kernels = facts.graph.nodes_by_kind.get("kernel") if facts.graph is not None else None
    how_many = f" (the captured step has {count(kernels)})" if kernels is not None else ""
    return f"Python launches every kernel of the step, one after another{how_many}, and the GPU waits for it. "


def _replays(decode: Decode) -> str:
    if not decode.valid:
        return "The results are wrong, so no speed is told. "
    speed = f" at {tok_s(decode.tok_s_mean)} tok/s on average" if decode.tok_s_mean is not None else ""
    if decode.replay_allocations is None:
        return f"It runs{speed}. " if speed else ""
    return f"{count(decode.replay_allocations)} allocations in {count(decode.replays)} replays{speed}. "
