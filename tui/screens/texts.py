"""What the text screens say: pure functions of bindings and state."""

from collections.abc import Iterable, Sequence

from textual.binding import Binding
from textual.content import Content

from ...core.events import CounterName, Error, Log
from ...core.phases import PHASE_BY_ID
from ..format import clean, delta, size
from ..widgets.explanation import ExplanationView, guide_line, this_run
from ..widgets.lesson import against_guide, lesson
from ..widgets.phase_list import counter_delta

COUNTERS: dict[CounterName, str] = {
    "requested": "what tensors asked for (memory_stats: requested_bytes.all.current)",
    "allocated": "blocks handed out, rounded up (torch.cuda.memory_allocated, the guide's counter)",
    "reserved": "segments taken from the driver (torch.cuda.memory_reserved)",
    "driver": "this process in NVML minus reserved: context, modules, executable graphs",
}
KEY_NAMES = {
    "question_mark": "?", "f1": "F1", "left_square_bracket": "[", "right_square_bracket": "]", "plus": "+",
    "minus": "-", "equals_sign": "=", "escape": "esc", "up": "↑",
    "down": "↓", "left": "←", "right": "→", "full_stop": ".", "comma": ",",
    "greater_than_sign": ">", "less_than_sign": "<",
}  # fmt: skip


def key_name(key: str) -> str:
    """How a key is written on the screen."""
    return " ".join(KEY_NAMES.get(part, part) for part in key.split(","))


def help_lines(bindings: Iterable[Binding]) -> list[Content]:
    """A line a binding, keys first, as the bindings say; keys of one action share a line."""
    by_action: dict[str, list[Binding]] = {}
    for binding in bindings:
        if binding.description and binding.id is not None:
            by_action.setdefault(binding.action, []).append(binding)
    lines = []
    for group in by_action.values():
        keys = " ".join(dict.fromkeys(key_name(binding.key) for binding in group))
        text = group[0].tooltip or group[0].description
        lines.append(Content.assemble((keys.rjust(10), "bold $text-accent"), f"  {text}"))
    return lines


def log_lines(log: Sequence[Log]) -> list[Content]:
    """The log, oldest first, with where each line came from."""
    if not log:
        return [Content.styled("nothing was printed so far", "$muted")]
    return [
        Content.assemble(
            (f"{entry.t:8.1f} s ", "$muted"), (entry.source.ljust(7), "$text-secondary"), clean(entry.text)
        )
        for entry in log
    ]


def error_lines(error: Error) -> list[Content]:
    """Everything about an error, the traceback last."""
    lines = [Content.styled(clean(error.headline), "bold $text-error"), Content(f"kind: {clean(error.kind)}")]
    if error.phase:
        lines.append(Content(f"phase: {PHASE_BY_ID[error.phase].title}"))
    if error.hint:
        lines.append(Content.assemble(("What to do: ", "bold"), clean(error.hint)))
    for name, count in (("needed", error.needed_bytes), ("free", error.free_bytes), ("reserved", error.reserved_bytes)):
        if count is not None:
            lines.append(Content(f"{name}: {size(count)}"))
    lines.append(Content(""))
    return lines + [Content(clean(line)) for line in (error.detail or "no traceback was recorded").splitlines()]


def phase_lines(view: ExplanationView) -> list[Content]:
    """A phase opened: its explanation, then every counter with what its Δ is made of."""
    phase, end = PHASE_BY_ID[view.row.id], view.row.end
    lines = [Content(lesson(view))]
    guide = " ".join(text for text in (guide_line(phase), against_guide(view)) if text)
    if view.row.status in ("unavailable", "failed"):
        lines.insert(0, Content.styled(this_run(view), "bold $text-error"))
    if guide:
        lines.append(Content.assemble(("Guide: ", "bold $text-secondary"), guide))
    if end is None:
        return lines
    lines.append(Content(""))
    for counter, source in COUNTERS.items():
        lines.append(
            Content.assemble((f"{counter} {delta(counter_delta(end, counter))}", "bold"), (f"  {source}", "$muted"))
        )
        for item in end.explained.get(counter, ()):
            mark = "" if item.certainty == "measured" else f" ({item.certainty})"
            note = f"  {clean(item.note)}" if item.note else ""
            lines.append(Content(f"  {delta(item.bytes)}  {clean(item.name)}{mark}{note}"))
    return lines + [Content.styled(f"note: {clean(note)}", "$muted") for note in end.notes]
