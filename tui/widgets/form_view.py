"""The form of settings as lines: a row a setting, then what they need and whether that fits."""

from textual.content import Content

from ...core.settings import SettingsError
from ..format import NA, clean, size
from ..settings_form import AUTO, FIELDS, Form, predicted, settings_of
from .lines import LinesWidget, wrapped

TITLE_WIDTH = 13


class FormView(LinesWidget[Form]):
    """The form."""

    def draw(self, view: Form, width: int, height: int) -> list[Content]:
        """As `render_form` says."""
        return render_form(view, width, height)


def render_form(form: Form, width: int, height: int) -> list[Content]:
    """The rows, the prediction, the verdict; of few lines the rows around the chosen one and the verdict."""
    rows = [_row(form, index, width) for index in range(len(FIELDS))]
    needs = wrapped([*_prediction(form), verdict(form)], width, max(1, height - len(rows) - 1))
    if height > len(rows) + len(needs):
        return [*rows, Content(""), *needs][:height]
    room = max(1, height - min(len(needs), 2))
    first = max(0, min(form.row - room // 2, len(rows) - room))
    last = wrapped([verdict(form)], width, max(0, height - room))
    return [*rows[first : first + room], *last][:height]


def verdict(form: Form) -> Content:
    """Whether the settings can work, and whether they fit, in words."""
    try:
        settings_of(form)
    except SettingsError as error:
        return Content.styled(f"✗ {clean(str(error))}", "bold $text-error")
    prediction = predicted(form)
    match prediction.fits:
        case True:
            return Content.styled("✓ fits", "bold $text-success")
        case False:
            return Content.styled(
                f"✗ does not fit: {size(prediction.free)} are free"
                + ("; enter again starts all the same" if form.warned else ""),
                "bold $text-error",
            )
    if form.machine.on_cpu:
        return Content.styled("on the CPU: no limit is claimed", "$muted")
    if prediction.needed is not None:
        why = "free memory n/a"
    elif form.texts[0] in ("", AUTO):
        why = "the largest preset that fits is chosen at the start"
    else:
        why = "its size is known once it is loaded"
    return Content.styled(f"whether it fits is not known: {why}", "$text-warning")


def _prediction(form: Form) -> list[Content]:
    prediction = predicted(form)
    if prediction.needed is None:
        return [Content.assemble(("predicted ", "$muted"), NA)]
    of = f"{prediction.model}: " if prediction.model else ""
    parts = f"{of}weights {size(prediction.weights)}, StaticCache {size(prediction.cache)}"
    total = "" if form.machine.on_cpu else f"; at most {size(prediction.needed)} in all"
    free = f" of {size(prediction.free)} free" if prediction.free is not None and total else ""
    return [Content.assemble(("computed ", "$muted"), parts, (total + free, "bold"))]


def _row(form: Form, index: int, width: int) -> Content:
    field, chosen = FIELDS[index], index == form.row
    cursor = "▏" if chosen and field.typed and not form.fresh else ""
    unit = field.unit.removesuffix("s") if form.texts[index].strip() == "1" else field.unit
    room = max(1, width - TITLE_WIDTH - 6 - len(unit))
    text = clean(form.texts[index])[-room:] + cursor
    value = (
        Content.assemble(("‹ ", "$text-accent"), (text, "bold"), (" ›", "$text-accent"))
        if chosen
        else Content(f"  {text}")
    )
    return Content.assemble(
        ("▸ " if chosen else "  ", "bold $text-accent"),
        (field.title.ljust(TITLE_WIDTH), "bold" if chosen else ""),
        value,
        (f" {unit}", "$muted"),
    )
