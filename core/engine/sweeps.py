"""Sweeps: the same run with other cache lengths, or with graphs of several batch sizes, each row measured as it stands.

A sweep needs a loaded model and leaves the run's own caches, graph and position alone. Rows are emitted one by one.
"""

from collections.abc import Sequence

from ..commands import RunSweep
from ..events import SweepBegin, SweepEnd
from . import sweep_batches, sweep_lengths
from .failures import EngineError
from .lab import Lab
from .models import LoadedModel, check_model_state, graph_refusal
from .strategies import STRATEGIES
from .sweep_rig import Rig


def run_sweep(command: RunSweep, lab: Lab) -> None:
    """Run a sweep, with the phases that it needs before it. Raises `EngineError` ("settings") where it cannot be."""
    refusal = lab.device.capture_refusal
    if refusal is not None:
        raise _not_now(refusal, "a sweep measures graphs")
    strategies = _strategies(command)
    if not lab.run_phases("prefill"):
        return
    loaded = lab.workflow.loaded
    if loaded is None or lab.workflow.dynamic is None:
        raise _not_now("The model has been released", "press R to start anew")
    check_model_state(loaded.model)
    refusal = graph_refusal(loaded.model)
    if refusal is not None:
        raise _not_now(f"this model's step must not be captured: {refusal}")
    values = _values(command, lab, loaded)
    longest = max(values) if command.sweep == "cache_lens" else lab.settings.max_cache_len
    rig = Rig(lab, loaded, max_cache_len=longest)
    lab.emit(SweepBegin(sweep=command.sweep, values=tuple(values), strategies=strategies))
    try:
        if command.sweep == "cache_lens":
            end = sweep_lengths.sweep_lengths(rig, values)
        else:
            end = sweep_batches.sweep_batches(rig, values, strategies)
    except Exception:
        lab.emit(SweepEnd(sweep=command.sweep, cancelled=True, notes=("an error ended it",)))
        raise
    finally:
        rig.close()
    lab.emit(end)
    rig.tell_memory()


def _strategies(command: RunSweep) -> tuple[str, ...]:
    if command.sweep == "cache_lens":
        return ("own",)
    unknown = [name for name in command.strategies if name not in STRATEGIES]
    if unknown:
        raise _not_now(f"no strategy {unknown[0]!r}", f"choose from {', '.join(STRATEGIES)}")
    return tuple(dict.fromkeys(command.strategies)) or tuple(STRATEGIES)


def _values(command: RunSweep, lab: Lab, loaded: LoadedModel) -> Sequence[int]:
    """What to measure, each once. Raises `EngineError` for what cannot be."""
    default = sweep_lengths.DEFAULT if command.sweep == "cache_lens" else sweep_batches.DEFAULT
    values = tuple(dict.fromkeys(command.values or default))
    if command.sweep == "batches":
        if min(values) < 1:
            raise _not_now(f"a batch size must be 1 or more, not {min(values)}")
        return values
    assert lab.workflow.dynamic is not None
    prompt_len = lab.workflow.dynamic.cursor.prompt_len
    if min(values) <= prompt_len:
        raise _not_now(
            f"a cache of {min(values)} tokens has no room to decode after a prompt of {prompt_len}",
            f"choose lengths from {prompt_len + 1} on",
        )
    positions = getattr(loaded.model.config.get_text_config(decoder=True), "max_position_embeddings", None)
    if positions is not None and max(values) > positions:
        raise _not_now(f"the model knows {positions} positions", f"choose lengths up to {positions}")
    return values


def _not_now(headline: str, hint: str = "") -> EngineError:
    return EngineError("settings", headline, hint, recoverable=True)
