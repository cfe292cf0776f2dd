"""Writes small checkpoints as a person would download them: real configuration, weights and tokenizer, no network."""

from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoModelForCausalLM, PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerFast, Qwen3Config
from transformers.utils import logging

END_OF_TEXT = "<|endoftext|>"
MERGES = [("t", "h"), ("th", "e"), ("Ġ", "the"), ("Ġ", "a"), ("i", "n")]


def make_tokenizer() -> PreTrainedTokenizerFast:
    """A byte-level BPE, as Qwen's is: each byte has a token, so a character may need up to four of them."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokens = [*alphabet, *("".join(pair) for pair in MERGES), END_OF_TEXT]
    vocabulary = {token: number for number, token in enumerate(tokens)}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=MERGES))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([END_OF_TEXT])
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=END_OF_TEXT)  # type: ignore[no-untyped-call]


def small_qwen3(**changes: object) -> Qwen3Config:
    """A Qwen3 of some ten thousand parameters that has a row for every token of `make_tokenizer`."""
    fields: dict[str, object] = {
        "vocab_size": 272,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 8,
        "max_position_embeddings": 512,
        "tie_word_embeddings": True,
    }
    return Qwen3Config.from_dict(fields | changes)


def make_model(config: PreTrainedConfig, *, seed: int = 0, dtype: torch.dtype = torch.float32) -> PreTrainedModel:
    """A causal language model with random weights, on the CPU, in eval mode."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model: PreTrainedModel = AutoModelForCausalLM.from_config(config, dtype=dtype)  # type: ignore[no-untyped-call]
    model.train(mode=False)
    return model


def write_checkpoint(
    folder: Path,
    *,
    config: PreTrainedConfig | None = None,
    seed: int = 0,
    dtype: torch.dtype = torch.float32,
    tokenizer: bool = True,
    shard_size: str | None = None,
) -> PreTrainedModel:
    """Write a checkpoint into `folder` and give the model that was written. `shard_size` as in "20KB" makes shards."""
    model = make_model(config or small_qwen3(), seed=seed, dtype=dtype)
    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        if shard_size is None:
            model.save_pretrained(folder)
        else:
            model.save_pretrained(folder, max_shard_size=shard_size)
    finally:
        if shown:
            logging.enable_progress_bar()  # type: ignore[no-untyped-call]
    if tokenizer:
        make_tokenizer().save_pretrained(folder)
    return model
