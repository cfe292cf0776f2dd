"""The options of a run, derived from `RunSettings`: a setting becomes an option by its line in `HELP`.

Every option can be given in the environment too, as CGTOP_ and its name in capitals.
"""

import functools
import inspect
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any, Literal, get_type_hints

import msgspec
import typer

from ...core.settings import PRESET_NAMES, RunSettings

HELP: dict[str, tuple[str, str | None]] = {
    "model": (
        f"{', '.join(PRESET_NAMES)} (random weights, no download), or a checkpoint folder or hub id. "
        "Default: the largest preset up to qwen3-4b that fits; tiny on a CPU.",
        "MODEL",
    ),
    "device": ("auto, cuda, cuda:N or cpu.", "DEVICE"),
    "dtype": ("Of weights and cache; auto: bfloat16, float16 below sm_80, float32 on a CPU.", None),
    "attention": ("Attention implementation of transformers.", "NAME"),
    "batch_size": ("Sequences decoded together.", "N"),
    "prompt_len": ("Prompt length where no text is given.", "TOKENS"),
    "prompt": ("Prompt text; needs a checkpoint with a tokenizer.", "TEXT"),
    "max_cache_len": ("Length of the StaticCache.", "TOKENS"),
    "warmup": ("Eager decode steps before capture, 0 to 100.", "STEPS"),
    "mode": ("Decode mode that goes on after the replay phase was measured.", None),
    "tokens": ("Decode steps over which the replay phase is measured.", "STEPS"),
    "verify_steps": ("Steps of the verification, 64 or more; 0 leaves it out.", "STEPS"),
    "seed": ("Seed of random weights and of the prompt.", "N"),
    "trust_remote_code": ("Let a checkpoint run Python code of its own.", None),
    "guide_streams": ("Warm up on the default stream and capture on another, as the guide does.", None),
    "memory_snapshot": ("Write torch's memory snapshot after capture to this file.", "FILE"),
    "inject_fault": ("For demonstrations: spoil the replay, so that the verification fails.", None),
}
"""Setting -> (help, metavar)."""
HIDDEN = ("inject_fault",)
BenchMode = Literal["eager", "dynamic", "graph", "both", "all"]
"""What `cgtop bench` compares; "both" is eager and graph."""
StrategyChoice = Literal["own", "shared-pool", "shared-pool-ascending", "shared-cache", "paged", "all"]
"""How `cgtop batches` serves them."""


class RunOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What one command line asks of a run. `settings` are as given, not yet validated."""

    settings: RunSettings
    record: Path | None = None
    """Where to keep the run; gzip if the name ends in .gz."""
    debug: bool = False


def env_name(name: str) -> str:
    """The environment variable of an option."""
    return "CGTOP_" + name.upper()


def takes_run_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command whose first parameter is `run: RunOptions` one option for each setting, --record and --debug.

    Typer reads options off a function's signature: this writes the signature instead of repeating it. An option that
    the command has itself takes the place of the setting of that name, which then keeps its default.
    """
    own = inspect.signature(command, eval_str=True).parameters
    settings_of = [name for name in HELP if name not in own]
    added = [*_setting_parameters(settings_of), *_other_parameters()]
    kept = [parameter for name, parameter in own.items() if name != "run"]

    @functools.wraps(command)
    def with_options(**given: Any) -> None:
        settings = RunSettings(**{name: given.pop(name) for name in settings_of})
        run = RunOptions(settings=settings, record=given.pop("record"), debug=given.pop("debug"))
        command(run=run, **given)

    parameters = kept + added
    with_options.__dict__["__signature__"] = inspect.Signature(parameters)
    with_options.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return with_options


def _setting_parameters(names: Iterable[str]) -> list[inspect.Parameter]:
    defaults, hints = RunSettings(), get_type_hints(RunSettings)
    texts = {name: HELP[name] for name in names}
    return [
        _parameter(name, hints[name], getattr(defaults, name), text, metavar, hidden=name in HIDDEN)
        for name, (text, metavar) in texts.items()
    ]


def _other_parameters() -> list[inspect.Parameter]:
    record = "Keep the run as a recording in this file, which is replaced; gzip if the name ends in .gz."
    return [
        _parameter("record", Path | None, None, record, "FILE"),
        _parameter("debug", bool, False, "Show the traceback of an error."),
    ]


def option_name(setting: str) -> str:
    """`--max-cache-len`, of `max_cache_len`."""
    return "--" + setting.replace("_", "-")


def _parameter(
    name: str, kind: object, default: object, text: str, metavar: str | None = None, *, hidden: bool = False
) -> inspect.Parameter:
    option = typer.Option(
        option_name(name),
        help=text,
        metavar=metavar,
        envvar=env_name(name),
        hidden=hidden,
        show_default=default is not None,
    )
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, option])
