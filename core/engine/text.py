"""Token ids from a prompt, and text from token ids as they come."""

from collections.abc import Iterable

import torch
from transformers import PreTrainedTokenizerBase as Tokenizer

from ..settings import RunSettings
from .failures import EngineError

REPLACEMENT = "\ufffd"
HELD_BACK = 3
"""Most bytes of a UTF-8 character that is not complete: shown as one replacement character, or as one each."""
WINDOW = 64
"""Tokens after which a text that never settles is given out as it is, to bound the work of one token."""


def prompt_ids(
    tokenizer: Tokenizer | None, vocab_size: int, settings: RunSettings, device: torch.device
) -> torch.Tensor:
    """The prompt as int64 ids `[batch_size, prompt_len]` on `device`.

    A prompt text is the same in each row; without one, ids are random, other ones in each row, and the same for the
    same seed. Raises `EngineError`: no tokenizer for a text, an empty prompt, an id that the model has no row for, or a
    prompt that leaves no room in the cache ("cache_too_small").
    """
    if settings.prompt is None:
        generator = torch.Generator().manual_seed(settings.seed)
        ids = torch.randint(0, vocab_size, (settings.batch_size, settings.prompt_len), generator=generator)
    else:
        ids = _encoded(tokenizer, settings.prompt, vocab_size).repeat(settings.batch_size, 1)
    length = ids.shape[1]
    if length >= settings.max_cache_len:
        raise EngineError(
            "cache_too_small",
            f"The prompt has {length} tokens and the cache {settings.max_cache_len}: no room to decode",
            f"Choose --max-cache-len {length + 1} or more.",
        )
    return ids.to(device)


class Detokenizer:
    """Text of a growing list of ids, piece by piece.

    A character that needs more tokens is held back until they are there, so that a replacement character only appears
    for bytes that are no UTF-8.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._context: list[int] = []
        """Ids before the window, already given out: some decoders treat the first token of a text in another way."""
        self._window: list[int] = []
        self._given = 0
        """Characters of the window that have been given out."""

    def push(self, ids: Iterable[int]) -> str:
        """The text that these further ids complete, perhaps ""."""
        return "".join([self._push(token) for token in ids])

    def flush(self) -> str:
        """What is held back, as it is."""
        return self._settle(self._text())

    def _push(self, token: int) -> str:
        self._window.append(token)
        text = self._text()
        if not text.endswith(REPLACEMENT) or len(self._window) >= WINDOW:
            return self._settle(text)
        end = len(text)
        while end > 0 and len(text) - end < HELD_BACK and text[end - 1] == REPLACEMENT:
            end -= 1
        piece = text[self._given : end]
        self._given = max(self._given, end)
        return piece

    def _text(self) -> str:
        """The window's text after its context."""
        before = self._decode(self._context)
        return self._decode(self._context + self._window)[len(before) :]

    def _settle(self, text: str) -> str:
        piece = text[self._given :]
        self._context, self._window, self._given = self._window, [], 0
        return piece

    def _decode(self, ids: list[int]) -> str:
        return str(self._tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False))


def _encoded(tokenizer: Tokenizer | None, text: str, vocab_size: int) -> torch.Tensor:
    if tokenizer is None:
        raise EngineError(
            "checkpoint", "This model has no tokenizer, so it cannot take a prompt text", "Leave --prompt out."
        )
    ids: list[int] = tokenizer(text)["input_ids"]
    if not ids:
        raise EngineError("settings", "The prompt has no tokens", "Give a longer --prompt.")
    if max(ids) >= vocab_size:
        raise EngineError(
            "checkpoint",
            f"The tokenizer gives id {max(ids)}, but the model has {vocab_size} rows",
            "The tokenizer is of another model: check the checkpoint.",
        )
    return torch.tensor(ids, dtype=torch.int64)
