"""The run's own graph against eager steps, from where the run is: what `verify` compares, taken from the workflow."""

import torch

from ..events import Verification
from .caches import dynamic_copy
from .failures import EngineError
from .models import LoadedModel, forward_kwargs
from .steps import DynamicDecode
from .verdicts import dynamic_tolerance
from .verify import verify_replay
from .workflow import Workflow


def verify_run(workflow: Workflow) -> Verification:
    """Replay against eager from the present position, which stays. Raises `EngineError` without a graph.

    At the end of the prompt the first step is also compared with one on a DynamicCache.
    """
    static, dynamic, captured, loaded = workflow.static, workflow.dynamic, workflow.captured, workflow.loaded
    if static is None or dynamic is None or captured is None or loaded is None:
        raise EngineError("settings", "no graph to verify", "run capture first", recoverable=True)
    dtype, layers = loaded.model.dtype, loaded.info.layers
    hidden_size = loaded.model.config.get_text_config().hidden_size

    def replay() -> torch.Tensor:
        captured.replay()
        return captured.logits

    with workflow.device.on(workflow.stream):
        at_prompt = static.cursor.position == static.cursor.prompt_len
        verification = verify_replay(
            static,
            replay,
            steps=workflow.settings.verify_steps,
            dynamic_logits=_first_logits(loaded, dynamic) if at_prompt else None,
            tolerance=dynamic_tolerance(dtype, layers, hidden_size) if at_prompt else None,
            corrupt=workflow.settings.inject_fault == "corrupt_replay",
        )
    workflow.device.synchronize()
    return verification


def _first_logits(loaded: LoadedModel, dynamic: DynamicDecode) -> torch.Tensor:
    """Logits of the first step on a copy of the prompt's DynamicCache, [batch, vocab] on the host."""
    copy = dynamic_copy(loaded.model.config, dynamic.cache, dynamic.cursor.prompt_len)
    output = loaded.model(input_ids=dynamic.first_ids, use_cache=True, **forward_kwargs(loaded.model, copy))
    logits: torch.Tensor = output.logits[:, -1].cpu()
    return logits
