"""Prompts as ids, and ids as text piece by piece, with a real byte-level tokenizer."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from cgtop.core.engine.failures import EngineError
from cgtop.core.engine.text import Detokenizer, prompt_ids
from cgtop.core.settings import RunSettings
from tests.checkpoint_maker import make_tokenizer

CPU = torch.device("cpu")
TOKENIZER = make_tokenizer()
VOCAB = 272


def ids_of(text: str) -> list[int]:
    return list(TOKENIZER(text)["input_ids"])


def one_by_one(ids: list[int]) -> list[str]:
    detokenizer = Detokenizer(TOKENIZER)
    return [detokenizer.push([token]) for token in ids] + [detokenizer.flush()]


def test_a_prompt_text_is_the_same_in_each_row() -> None:
    settings = RunSettings(model="a folder", prompt="the inn", batch_size=3)
    ids = prompt_ids(TOKENIZER, VOCAB, settings, CPU)
    assert ids.shape == (3, len(ids_of("the inn")))
    assert ids.dtype == torch.int64
    assert (ids == ids[0]).all()
    assert TOKENIZER.decode(ids[0]) == "the inn"


def test_random_prompts_follow_the_seed_and_differ_between_rows() -> None:
    settings = RunSettings(batch_size=2, prompt_len=40, seed=3)
    ids = prompt_ids(None, 100, settings, CPU)
    assert ids.shape == (2, 40)
    assert ids.min() >= 0
    assert ids.max() < 100
    assert not torch.equal(ids[0], ids[1])
    assert torch.equal(ids, prompt_ids(None, 100, settings, CPU))
    assert not torch.equal(ids, prompt_ids(None, 100, RunSettings(batch_size=2, prompt_len=40, seed=4), CPU))


def test_a_prompt_that_fills_the_cache_says_the_least_length_that_works() -> None:
    text = "the " * 10
    length = len(ids_of(text))
    with pytest.raises(EngineError, match="no room to decode") as error:
        prompt_ids(TOKENIZER, VOCAB, RunSettings(model="a folder", prompt=text, max_cache_len=length), CPU)
    assert error.value.kind == "cache_too_small"
    assert f"--max-cache-len {length + 1} " in error.value.hint
    prompt_ids(TOKENIZER, VOCAB, RunSettings(model="a folder", prompt=text, max_cache_len=length + 1), CPU)


@pytest.mark.parametrize(
    ("tokenizer", "prompt", "vocab_size", "kind"),
    [(None, "the", VOCAB, "checkpoint"), (TOKENIZER, "", VOCAB, "settings"), (TOKENIZER, "the", 5, "checkpoint")],
)
def test_a_prompt_that_cannot_be_used_is_refused(tokenizer, prompt: str, vocab_size: int, kind: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(EngineError) as error:
        prompt_ids(tokenizer, vocab_size, RunSettings(model="a folder", prompt=prompt), CPU)
    assert error.value.kind == kind


def test_a_character_of_several_tokens_appears_when_it_is_complete() -> None:
    assert one_by_one(ids_of("a🎉b")) == ["a", "", "", "", "🎉", "b", ""]


def test_a_character_cut_off_by_the_end_is_shown_as_replaced() -> None:
    pieces = one_by_one(ids_of("a🎉")[:-1])
    assert pieces[:-1] == ["a", "", "", ""]
    assert pieces[-1] == "�"


@given(st.text(max_size=60))
def test_pieces_add_up_to_the_text_with_no_replaced_character(text: str) -> None:
    pieces = one_by_one(ids_of(text))
    assert "".join(pieces) == text
    assert ("�" in "".join(pieces)) == ("�" in text)


@given(st.lists(st.integers(0, VOCAB - 16), max_size=150))
def test_pieces_of_bytes_that_are_no_text_add_up_to_their_decoding(ids: list[int]) -> None:
    pieces = one_by_one(ids)
    whole = str(TOKENIZER.decode(ids, skip_special_tokens=True))
    assert "".join(pieces).replace("�", "") == whole.replace("�", "")


def test_tokens_that_never_make_a_text_do_not_pile_up() -> None:
    lone_byte = ids_of("🎉")[1]
    detokenizer = Detokenizer(TOKENIZER)
    pieces = [detokenizer.push([lone_byte]) for _ in range(300)]
    assert len("".join(pieces)) >= 296
    assert max(len(piece) for piece in pieces) <= 5
