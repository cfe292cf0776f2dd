"""The form of a run's settings, without a screen: rows of text, how keys change them, and what memory they need.

The prediction is computed by the closed forms of `core.sizing`; nothing of it is measured but the free memory.
"""

import contextlib

import msgspec

from ..core.events import ModelInfo
from ..core.presets import PRESETS
from ..core.settings import MODES, RunSettings, SettingsError
from ..core.sizing import (
    DTYPE_BYTES,
    MARGIN_BYTES,
    KvShape,
    capability_number,
    counter_bytes,
    cublas_workspace_bytes,
    kv_shape,
    largest_fitting_preset,
    needed_bytes,
    parameter_bytes,
    static_cache_bytes,
)
from ..core.state import RunState

AUTO = "auto"
LENGTH_MAX = 200
"""Characters of a typed value."""


class Field(msgspec.Struct, frozen=True):
    """A row: the setting it is, its title and unit. `choices` where it is not a number; `step` 0 doubles and halves."""

    name: str
    title: str
    unit: str = ""
    choices: tuple[str, ...] = ()
    step: int = 0
    typed: bool = True


FIELDS: tuple[Field, ...] = (
    Field("model", "model", choices=(AUTO, *PRESETS)),
    Field("max_cache_len", "cache length", "tokens"),
    Field("batch_size", "batch size", "sequences"),
    Field("prompt_len", "prompt", "tokens"),
    Field("warmup", "warmups", "steps", step=1),
    Field("mode", "decode mode", choices=MODES, typed=False),
)


class Machine(msgspec.Struct, frozen=True):
    """What of the device decides a prediction. `known`: the model that ran last, for those that are no preset."""

    on_cpu: bool = False
    capability: str | None = None
    free_bytes: int | None = None
    """Free once this run's worker is gone; null where nobody knows."""
    known: ModelInfo | None = None
    known_as: str | None = None


class Form(msgspec.Struct, frozen=True):
    """The form: texts in the order of `FIELDS`, and the row that keys act on."""

    base: RunSettings
    texts: tuple[str, ...]
    machine: Machine = Machine()
    row: int = 0
    fresh: bool = True
    """Whether a typed character replaces the text instead of adding to it."""
    warned: bool = False
    """Whether "does not fit" was said to `enter` once."""


class Prediction(msgspec.Struct, frozen=True):
    """Bytes, computed; each null where it cannot be. `model`: the preset they are of, where "auto" comes to one."""

    model: str = ""
    weights: int | None = None
    cache: int | None = None
    needed: int | None = None
    """At most, with everything that a run needs beside its tensors."""
    free: int | None = None

    @property
    def fits(self) -> bool | None:
        """Null where one of the two figures is not known."""
        return None if self.needed is None or self.free is None else self.needed <= self.free


def opened_form(settings: RunSettings, state: RunState) -> Form:
    """The form as it opens: the settings of the present run."""
    texts = tuple(str(getattr(settings, field.name) or AUTO) for field in FIELDS[:1]) + tuple(
        str(getattr(settings, field.name)) for field in FIELDS[1:]
    )
    return Form(base=settings, texts=texts, machine=_machine(settings, state))


def moved(form: Form, step: int) -> Form:
    """Another row, around the end."""
    return msgspec.structs.replace(form, row=(form.row + step) % len(FIELDS), fresh=True)


def changed(form: Form, step: int) -> Form:
    """The row's next or previous choice; a number doubled or halved, or one more or less."""
    field, text = FIELDS[form.row], form.texts[form.row]
    if field.choices:
        at = field.choices.index(text) + step if text in field.choices else 0
        return _with_text(form, field.choices[at % len(field.choices)], fresh=True)
    value = int(text) if text.isdecimal() else 0
    more, less = (value + field.step, value - field.step) if field.step else (value * 2, value // 2)
    return _with_text(form, str(max(0 if field.step else 1, more if step > 0 else less)), fresh=True)


def typed(form: Form, character: str) -> Form:
    """One more character; those that cannot be part of the value are left out."""
    field, text = FIELDS[form.row], "" if form.fresh else form.texts[form.row]
    fine = character.isdecimal() if not field.choices else field.typed and character.isprintable() and character != " "
    if not fine or len(text) >= LENGTH_MAX:
        return form
    return _with_text(form, text + character, fresh=False)


def erased(form: Form) -> Form:
    """Without its last character; a model or a number may be erased altogether."""
    if not FIELDS[form.row].typed:
        return form
    return _with_text(form, form.texts[form.row][:-1], fresh=False)


def settings_of(form: Form) -> RunSettings:
    """The settings as they stand. Raises `SettingsError` for those that cannot work."""
    values: dict[str, object] = {}
    for field, text in zip(FIELDS, form.texts, strict=True):
        if field.name == "model":
            values["model"] = None if text in ("", AUTO) else text
        elif field.choices:
            values[field.name] = text
        elif text.isdecimal():
            values[field.name] = int(text)
        else:
            raise SettingsError(f"{field.title} needs a number")
    return msgspec.structs.replace(form.base, **values).validated()


def predicted(form: Form) -> Prediction:
    """What the settings need, as far as it can be computed: for presets, and for the model that ran last."""
    machine = form.machine
    try:
        settings = settings_of(form)
    except SettingsError:
        return Prediction(free=machine.free_bytes)
    dtype = _dtype(settings, machine)
    batch_size, max_cache_len = settings.batch_size, settings.max_cache_len
    name = settings.model or _chosen(settings, machine, dtype)
    if name in PRESETS:
        shape = PRESETS[name]
        return Prediction(
            model=name if settings.model is None else "",
            weights=parameter_bytes(shape, dtype),
            cache=static_cache_bytes(kv_shape(shape), batch_size=batch_size, max_cache_len=max_cache_len, dtype=dtype),
            needed=needed_bytes(
                shape, capability=machine.capability, batch_size=batch_size, max_cache_len=max_cache_len, dtype=dtype
            ),
            free=machine.free_bytes,
        )
    model = machine.known
    if model is None or name != machine.known_as or model.dtype not in DTYPE_BYTES:
        return Prediction(free=machine.free_bytes)
    kv = KvShape(layers=model.layers, kv_heads=model.kv_heads, head_dim=model.head_dim)
    cache = static_cache_bytes(kv, batch_size=batch_size, max_cache_len=max_cache_len, dtype=model.dtype)
    logits = batch_size * model.vocab_size * (DTYPE_BYTES[model.dtype] + 4)
    beside = counter_bytes(kv) + cublas_workspace_bytes(machine.capability) + logits + MARGIN_BYTES
    needed = model.parameter_bytes + 2 * cache + cache // model.layers + beside
    return Prediction(weights=model.parameter_bytes, cache=cache, needed=needed, free=machine.free_bytes)


def _with_text(form: Form, text: str, *, fresh: bool) -> Form:
    texts = (*form.texts[: form.row], text, *form.texts[form.row + 1 :])
    return msgspec.structs.replace(form, texts=texts, fresh=fresh, warned=False)


def _machine(settings: RunSettings, state: RunState) -> Machine:
    if state.hello is None:
        return Machine(on_cpu=settings.device == "cpu")
    device = state.hello.device
    return Machine(
        on_cpu=device.kind == "cpu",
        capability=device.capability,
        free_bytes=None if device.kind == "cpu" else _free_after(state),
        known=state.hello.model,
        known_as=state.hello.settings.model,
    )


def _free_after(state: RunState) -> int | None:
    """Free now and what this worker gives back; where that is not known, what was free before it began."""
    assert state.hello is not None
    telemetry = state.telemetry
    if telemetry is not None and telemetry.free_bytes is not None and telemetry.processes is not None:
        own = [process.bytes for process in telemetry.processes if process.own and process.bytes is not None]
        if own:
            return telemetry.free_bytes + sum(own)
    return state.hello.device.free_bytes


def _dtype(settings: RunSettings, machine: Machine) -> str:
    """What "auto" comes to."""
    if settings.dtype != "auto":
        return settings.dtype
    if machine.on_cpu:
        return "float32"
    with contextlib.suppress(ValueError):
        if machine.capability is not None and capability_number(machine.capability) < 80:
            return "float16"
    return "bfloat16"


def _chosen(settings: RunSettings, machine: Machine, dtype: str) -> str:
    """The preset that "auto" comes to."""
    if machine.on_cpu:
        return "tiny"
    if machine.free_bytes is None:
        return ""
    with contextlib.suppress(SettingsError):
        return largest_fitting_preset(
            machine.free_bytes,
            capability=machine.capability,
            batch_size=settings.batch_size,
            max_cache_len=settings.max_cache_len,
            dtype=dtype,
        )
    return "tiny"
