"""Which runs can tell whether a statement holds: what the guide says of a GPU, or of its own case, needs just that."""

from collections.abc import Callable
from typing import NamedTuple

from ..state import RunState

GUIDE_PARAMETERS = 4_022_468_096
GUIDE_DTYPE = "bfloat16"
GUIDE_CACHE_LEN = 1024
MODEL = "Qwen3-4B in bfloat16"


class Case(NamedTuple):
    """`what` completes "it takes …"; `covers` is pure."""

    what: str
    covers: Callable[[RunState], bool]


def on_gpu(run: RunState) -> bool:
    """Whether a run was made on a CUDA device; one that does not say is none."""
    return run.hello is not None and run.hello.device.kind == "cuda"


def _of_guides_model(run: RunState) -> bool:
    model = run.hello.model if run.hello is not None else None
    return on_gpu(run) and model is not None and (model.parameters, model.dtype) == (GUIDE_PARAMETERS, GUIDE_DTYPE)


def _with(run: RunState, *, batch_size: bool = False, max_cache_len: bool = False) -> bool:
    if run.hello is None or not _of_guides_model(run):
        return False
    asked = run.hello.settings
    return (not batch_size or asked.batch_size == 1) and (not max_cache_len or asked.max_cache_len == GUIDE_CACHE_LEN)


ANYWHERE = Case("a run", lambda run: True)
ON_GPU = Case("a run on a GPU", on_gpu)
GUIDES_MODEL = Case(f"a run of {MODEL} on a GPU", _of_guides_model)
GUIDES_CASE = Case(
    f"a run of {MODEL} on a GPU, at batch size 1 with a cache of {GUIDE_CACHE_LEN:,} tokens",
    lambda run: _with(run, batch_size=True, max_cache_len=True),
)
GUIDES_LENGTHS = Case(
    f"a sweep of cache lengths of {MODEL} on a GPU, at batch size 1", lambda run: _with(run, batch_size=True)
)
GUIDES_BATCHES = Case(
    f"a sweep of batch sizes of {MODEL} on a GPU, with caches of {GUIDE_CACHE_LEN:,} tokens",
    lambda run: _with(run, max_cache_len=True),
)
