"""The bytes that a decode step must read, on real tiny models."""

import torch
from transformers import AutoModelForCausalLM

from cgtop.core.engine.models import LoadedModel, load, resolve
from cgtop.core.engine.random_weights import qwen3_config
from cgtop.core.engine.reads import dynamic_reads, static_reads, weight_read_bytes
from cgtop.core.events import DeviceInfo
from cgtop.core.presets import PRESETS
from tests.core.engine.driving import SMALL


def tiny() -> LoadedModel:
    return load(resolve(SMALL, DeviceInfo(kind="cpu", name="CPU")), torch.device("cpu"), lambda d, t, w: None)


def test_tied_embeddings_are_read_whole_and_untied_ones_row_by_row() -> None:
    config = qwen3_config(PRESETS["tiny"])
    with torch.device("meta"):
        config.tie_word_embeddings = True
        tied = AutoModelForCausalLM.from_config(config)  # type: ignore[no-untyped-call]
        config.tie_word_embeddings = False
        untied = AutoModelForCausalLM.from_config(config)  # type: ignore[no-untyped-call]
    table = untied.get_input_embeddings().weight
    assert weight_read_bytes(tied, 1) == sum(p.nbytes for p in tied.parameters())
    assert (
        weight_read_bytes(untied, 2) == sum(p.nbytes for p in untied.parameters()) - table.nbytes + 2 * table[0].nbytes
    )


def test_a_static_step_reads_the_whole_cache_and_a_dynamic_one_its_tokens() -> None:
    loaded = tiny()
    weights = weight_read_bytes(loaded.model, 1)
    token = 2 * loaded.info.layers * loaded.info.kv_heads * loaded.info.head_dim * 4
    static, dynamic = static_reads(loaded, 1, 40), dynamic_reads(loaded, 1)
    assert static(7) == static(39) == weights + 40 * token
    assert dynamic(30) - dynamic(10) == 20 * token
