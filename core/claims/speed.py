"""The guide's statements about speed."""

from .. import guide
from .cases import GUIDES_CASE
from .evidence import Evidence, Finding, judged, not_measured
from .statement import Statement

NEAR = 0.10
"""A printed "~" is taken as within so much of itself."""
MACHINE = "the guide's figure is of an RTX 3090 and its host"


def _faster(seen: Evidence) -> Finding:
    ratio = seen.speed_up
    if seen.is_wrong:
        return Finding("does_not_hold", "The replay gave other logits than eager steps: its speed is of wrong results.")
    if ratio is None:
        return not_measured("no eager and graph speed of one run")
    eager, graph = seen.speed("eager"), seen.speed("graph")
    figures = f": {eager:,.1f} → {graph:,.1f} tok/s" if eager is not None and graph is not None else ""
    return judged(ratio > 1, f"Graph over eager is ×{ratio:.2f}{_compared(seen)}{figures}.")


def _ratio(seen: Evidence) -> Finding:
    ratio = seen.speed_up
    if ratio is None:
        return not_measured("no valid eager and graph speed of one run")
    near = abs(ratio / guide.SPEED_UP - 1) <= NEAR
    measured = f"×{ratio:.2f} was measured{_compared(seen)}"
    return judged(near, f"{measured}, beside the guide's ×{guide.SPEED_UP:.2f}; {MACHINE}.")


def _eager(seen: Evidence) -> Finding:
    return _figure(seen, "Eager", seen.speed("eager"), guide.SPEED_EAGER_TOK_S)


def _graph(seen: Evidence) -> Finding:
    return _figure(seen, "Graph", seen.speed("graph"), guide.SPEED_GRAPH_TOK_S)


def _figure(seen: Evidence, what: str, tok_s: float | None, printed: float) -> Finding:
    if tok_s is None:
        return not_measured(f"no valid speed of {what.lower()} steps")
    near = abs(tok_s / printed - 1) <= NEAR
    return judged(near, f"{what} steps decode {tok_s:,.1f} tok/s, beside the guide's ~{printed:,.0f}; {MACHINE}.")


def _compared(seen: Evidence) -> str:
    """The gauge of the phases shows the longest stretches; a comparison is better, and is another figure."""
    return " in the comparison" if seen.comparison is not None and seen.comparison.ratio is not None else ""


def _reason(seen: Evidence) -> Finding:
    graph, ratio, eager = seen.main.graph, seen.speed_up, seen.main.allocations_per_eager_token
    if graph is None or graph.nodes is None or ratio is None:
        return not_measured("no count of the graph's nodes beside a speed-up")
    work = f", where an eager step also asks the allocator for memory {eager:,.0f} times" if eager is not None else ""
    return judged(
        ratio > 1 and graph.nodes > 1,
        f"One launch replays {graph.nodes:,} recorded nodes{work}; graph over eager is ×{ratio:.2f}.",
    )


STATEMENTS = (
    Statement("speed.faster", "Replaying a graph decodes faster than eager steps.", _faster),
    Statement("speed.eager", "Eager decoding gives about 25 tok/s.", _eager, GUIDES_CASE),
    Statement("speed.graph", "Decoding with a CUDA graph gives about 70 tok/s.", _graph, GUIDES_CASE),
    Statement("speed.ratio", "The speed-up is 2.80×.", _ratio, GUIDES_CASE),
    Statement("speed.reason", "It is faster because recorded kernels are replayed, not scheduled anew.", _reason),
)
