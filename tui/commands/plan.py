"""`cgtop plan`: what a model would need and what fits, without a GPU and without running anything."""

import re
import sys

import msgspec

from ...core.bundled import bundled_runs
from ...core.configs import ModelFacts, model_facts
from ...core.overheads import Overheads, overheads_of
from ...core.planner import PROMPT_LEN, Plan, make_plan
from ...core.settings import SettingsError
from ...core.sizing import capability_number
from ..report.plan import plan_report
from .output import Format

UNITS = {
    "": 1,
    "B": 1,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "KIB": 1 << 10,
    "MIB": 1 << 20,
    "GIB": 1 << 30,
    "TIB": 1 << 40,
}
LIST_MAX = 64
DIGITS_MAX = 12


def plan(
    model: str,
    form: Format,
    *,
    dtype: str,
    gpu_memory: str | None,
    capability: str | None,
    cache_lens: str,
    batch_sizes: str,
    prompt_len: int,
) -> None:
    """Write the plan. Raises `SettingsError` for a model or a figure that cannot be planned with."""
    facts = model_facts(model, dtype)
    made = make_plan(
        facts,
        memory_bytes=None if gpu_memory is None else parsed_size(gpu_memory),
        capability=_capability(capability),
        cache_lens=parsed_list("--cache-lens", cache_lens, least=2),
        batch_sizes=parsed_list("--batch-sizes", batch_sizes, least=1),
        prompt_len=_prompt_len(prompt_len),
        overheads=best_overheads(facts),
    )
    if form is Format.JSON:
        sys.stdout.buffer.write(msgspec.json.format(as_json(made), indent=2) + b"\n")
        return
    from ..tables import markdown, print_report

    report = plan_report(made)
    if form is Format.MARKDOWN:
        sys.stdout.write(markdown(report))
    else:
        print_report(report, sys.stdout)


def as_json(plan: Plan) -> bytes:
    """The plan as one JSON object."""
    return msgspec.json.encode(plan)


def best_overheads(facts: ModelFacts) -> Overheads | None:
    """Of the newest bundled recording of this model, else of the newest there is; null where there is none."""
    states = ((state, run.name) for run in bundled_runs() for state in run.states)
    found = [known for state, name in states if (known := overheads_of(state, name)) is not None]
    return next((known for known in found if known.is_of(facts)), found[0] if found else None)


def parsed_size(text: str) -> int:
    """ "24GiB", "24 GB" or bytes. Raises `SettingsError`."""
    match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([a-zA-Z]*)\s*", text)
    unit = UNITS.get(match[2].upper()) if match else None
    if match is None or unit is None:
        raise SettingsError(f"{text[:40]!r} is no memory size: write it as 24GiB, 24GB or in bytes")
    size = float(match[1]) * unit
    if not 1 << 20 <= size < 1 << 50:
        raise SettingsError(f"{text[:40]!r} is no device's memory: write a unit, as in 24GiB")
    return int(size)


def parsed_list(option: str, text: str, *, least: int) -> tuple[int, ...]:
    """ "256,512" as numbers, in order, each once. Raises `SettingsError`."""
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not parts or len(parts) > LIST_MAX or not all(part.isascii() and part.isdecimal() for part in parts):
        raise SettingsError(f"{option} takes whole numbers with commas between, not {text[:40]!r}")
    digits = [part.lstrip("0") or "0" for part in parts]
    longest = max(digits, key=len)
    if len(longest) > DIGITS_MAX:
        raise SettingsError(f"{option}: {longest[:20]}… is more than {'9' * DIGITS_MAX}")
    numbers = tuple(dict.fromkeys(int(part) for part in digits))
    if min(numbers) < least:
        raise SettingsError(f"{option}: {min(numbers)} is less than {least}")
    return numbers


def _capability(text: str | None) -> str | None:
    if text is None:
        return None
    match = re.fullmatch(r"(?:sm_)?([0-9]{1,2})\.?([0-9])", text.strip())
    if match is None:
        raise SettingsError(f"{text[:20]!r} is no compute capability: write it as 8.6 or sm_86")
    capability = f"{match[1]}.{match[2]}"
    capability_number(capability)
    return capability


def _prompt_len(prompt_len: int) -> int:
    if not 1 <= prompt_len < 10**DIGITS_MAX:
        raise SettingsError(f"prompt length must be 1 to {10**DIGITS_MAX - 1:,}, not {str(prompt_len)[:20]}")
    return prompt_len


__all__ = ["PROMPT_LEN", "as_json", "best_overheads", "parsed_list", "parsed_size", "plan"]
