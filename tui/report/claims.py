"""The report of `cgtop claims`: the guide's statements in groups, each with its verdict and the numbers behind it."""

from collections import Counter
from collections.abc import Sequence

from ...core.claims.evidence import Evidence
from ...core.events import Claim
from ...core.state import RunState
from .build import Origin, mark
from .model import Column, Report, Row, Section, Table, Tone, row, safe_report

WORDS = {
    "holds": "holds",
    "does_not_hold": "DOES NOT HOLD",
    "other_reason": "other reason",
    "not_measured": "not measured",
}
TONES: dict[str, Tone] = {"holds": "good", "does_not_hold": "bad", "other_reason": "normal", "not_measured": "quiet"}
TITLES = {
    "speed": "Speed",
    "phases": "Memory of the phases",
    "warmup": "The three warmups",
    "addresses": "Fixed addresses",
    "caches": "StaticCache against DynamicCache",
    "lengths": "Cache length and memory",
    "batches": "Graphs for several batch sizes",
    "workflow": "The workflow",
    "summary": "The summary",
}
COLUMNS = (Column("the guide says"), Column("verdict"), Column("measured"))


def claims_report(claims: Sequence[Claim], states: Sequence[RunState], origin: Origin) -> Report:
    """Pure."""
    groups: dict[str, list[Row]] = {}
    for claim in claims:
        verdict = WORDS[claim.verdict]
        cells = row(claim.statement, verdict, claim.finding, tone=TONES[claim.verdict])
        groups.setdefault(claim.id.partition(".")[0], []).append(cells)
    sections = [
        Section(title=TITLES.get(group, group), table=Table(COLUMNS, tuple(rows))) for group, rows in groups.items()
    ]
    hello = Evidence(states).main.hello
    return safe_report(
        title="cgtop claims",
        mark=mark(hello, origin),
        recorded=origin.recorded,
        sections=[_summary(claims, states), *sections],
    )


def _summary(claims: Sequence[Claim], states: Sequence[RunState]) -> Section:
    counted = Counter(claim.verdict for claim in claims)
    lines = [f"{counted[verdict]:>3} {word.lower()}" for verdict, word in WORDS.items()]  # type: ignore[index]
    runs = len({id(state.hello) for state in states if state.hello is not None})
    notes = (f"{len(claims)} statements of the guide (RTX 3090, Qwen3-4B in bf16), judged by {runs} runs",)
    return Section(title="Verdicts", lines=tuple(lines), notes=notes)
