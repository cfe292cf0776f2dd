"""The report of `cgtop claims`: the guide's statements in groups, each with its verdict and the numbers behind it."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ...core.events import Claim, Hello
from ...core.state import RunState
from ..claim_words import WORDS, group_of
from ..format import NA
from .build import Origin, mark
from .model import Column, Report, Row, Section, Table, Tone, row, safe_report

TONES: dict[str, Tone] = {"holds": "good", "does_not_hold": "bad", "other_reason": "normal", "not_measured": "quiet"}
COLUMNS = (Column("the guide says"), Column("verdict"), Column("measured"))


RUN_COLUMNS = (
    Column("run"),
    Column("date"),
    Column("device"),
    Column("model"),
    Column("batch", right=True, rank=2),
    Column("cache", right=True, rank=2),
    Column("warmup", right=True, rank=2),
    Column("streams", rank=3),
)


class NamedRun(NamedTuple):
    """A run, or an earlier state of one, and what to call it."""

    name: str
    state: RunState


def claims_report(claims: Sequence[Claim], runs: Sequence[NamedRun], origin: Origin) -> Report:
    """Pure."""
    groups: dict[str, list[Row]] = {}
    for claim in claims:
        verdict = WORDS[claim.verdict]
        cells = row(claim.statement, verdict, claim.finding, tone=TONES[claim.verdict])
        groups.setdefault(group_of(claim.id), []).append(cells)
    sections = [Section(title=group, table=Table(COLUMNS, tuple(rows))) for group, rows in groups.items()]
    named = {run.name: run.state.hello for run in runs}
    return safe_report(
        title="cgtop claims",
        mark=_mark(tuple(named.values()), origin),
        recorded=origin.recorded,
        sections=[_summary(claims, len(named)), _runs(named), *sections],
    )


def _mark(hellos: Sequence[Hello | None], origin: Origin) -> str:
    """As of a single run; of several only what they have in common: each stands in the table of runs."""
    if len(hellos) == 1:
        return mark(hellos[0], origin)
    devices = {hello.device.name if hello is not None else "" for hello in hellos}
    days = {hello.started_at[:10] if hello is not None else "" for hello in hellos}
    where = f" on {device}" if len(devices) == 1 and (device := devices.pop()) else ""
    when = f" {day}" if len(days) == 1 and (day := days.pop()) else ""
    if not origin.recorded:
        return f"LIVE{where} · {len(hellos)} runs"
    return f"RECORDED{when}{where}, not live · {len(hellos)} runs"


def _runs(named: Mapping[str, Hello | None]) -> Section:
    by_date = sorted(named.items(), key=lambda run: run[1].started_at if run[1] is not None else "")
    return Section(title="Runs", table=Table(RUN_COLUMNS, tuple(_run(name, hello) for name, hello in by_date)))


def _run(name: str, hello: Hello | None) -> Row:
    if hello is None:
        return row(name, *(NA,) * (len(RUN_COLUMNS) - 1))
    asked, model = hello.settings, hello.model
    return row(
        name,
        hello.started_at or NA,
        hello.device.name,
        f"{model.name} {model.dtype}" if model is not None else NA,
        f"{asked.batch_size:,}",
        f"{asked.max_cache_len:,}",
        f"{asked.warmup:,}",
        "the guide's" if asked.guide_streams else "one",
    )


def _summary(claims: Sequence[Claim], runs: int) -> Section:
    counted = Counter(claim.verdict for claim in claims)
    lines = [f"{counted[verdict]:>3} {word.lower()}" for verdict, word in WORDS.items()]  # type: ignore[index]
    judged = f"{runs} runs" if runs != 1 else "one run"
    notes = (f"{len(claims)} statements of the guide (RTX 3090, Qwen3-4B in bf16), judged by {judged}",)
    return Section(title="Verdicts", lines=tuple(lines), notes=notes)
