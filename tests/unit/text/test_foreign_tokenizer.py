"""Tokenizers of other makers: their ids, their special tokens, and nothing read out of a text."""

from __future__ import annotations

from pathlib import Path

import pytest
import tokenizers
from tests.unit.interop.checkpoints import bert_tokenizer, gpt2_tokenizer
from tokenizers import models

from dikkat.config import TokenizerConfig
from dikkat_runtime.errors import DataError, MissingInputError
from dikkat_runtime.text.foreign_tokenizer import ForeignTokenizer, load_tokenizer
from dikkat_runtime.text.tokenizer import Tokenizer


@pytest.fixture
def bert() -> ForeignTokenizer:
    return ForeignTokenizer(bert_tokenizer())


@pytest.fixture
def gpt2() -> ForeignTokenizer:
    return ForeignTokenizer(gpt2_tokenizer())


def test_special_ids_are_found_by_their_names(bert: ForeignTokenizer, gpt2: ForeignTokenizer) -> None:
    assert (bert.pad_id, bert.unk_id, bert.bos_id, bert.eos_id, bert.vocab_size) == (0, 1, 2, 3, 13)
    assert (gpt2.pad_id, gpt2.unk_id, gpt2.bos_id, gpt2.eos_id, gpt2.vocab_size) == (0, None, 256, 256, 257)
    bare = ForeignTokenizer(tokenizers.Tokenizer(models.WordLevel({"a": 0}, "a")))
    assert (bare.pad_id, bare.unk_id, bare.bos_id, bare.eos_id) == (0, None, None, None)


def test_a_text_is_framed_as_the_file_says(bert: ForeignTokenizer, gpt2: ForeignTokenizer) -> None:
    assert bert.encode("the dog runs") == [4, 5, 8]
    assert bert.framed([4, 5, 8]) == [2, 4, 5, 8, 3]
    assert bert.framed([]) == [2, 3]
    assert bert.frame_size == 2
    assert gpt2.framed([7]) == [7]
    assert gpt2.frame_size == 0


def test_the_file_neither_cuts_nor_pads(bert: ForeignTokenizer) -> None:
    assert len(bert.encode("the dog " * 20)) == 40
    assert bert.encode_batch(["the", "the dog"]) == [[4], [4, 5]]


def test_special_tokens_are_not_read_out_of_a_text(bert: ForeignTokenizer, gpt2: ForeignTokenizer) -> None:
    assert not {0, 2, 3} & set(bert.encode("[CLS] the [SEP] dog [PAD]"))
    text = "a<|endoftext|>b"
    assert 256 not in gpt2.encode(text)
    assert gpt2.decode(gpt2.encode(text)) == text


def test_special_tokens_leave_no_trace_in_a_text(bert: ForeignTokenizer, gpt2: ForeignTokenizer) -> None:
    assert bert.decode([2, 4, 5, 3, 0, 0]) == "the dog"
    ids = gpt2.encode("İstanbul 🙂\n")
    assert gpt2.decode_batch([[*ids, 256], []]) == ["İstanbul 🙂\n", ""]


def test_pieces_are_readable(bert: ForeignTokenizer, gpt2: ForeignTokenizer) -> None:
    assert bert.pieces([2, 4, 3]) == ["[CLS]", "the", "[SEP]"]
    assert gpt2.pieces([*gpt2.encode(" aı"), 256]) == ["▁", "a", "\\xc4", "\\xb1", "<|endoftext|>"]
    for tokenizer in (bert, gpt2):
        with pytest.raises(IndexError, match=f"there is no id 999 in a vocabulary of {tokenizer.vocab_size}"):
            tokenizer.pieces([999])


def test_half_a_surrogate_pair_is_no_text(bert: ForeignTokenizer) -> None:
    with pytest.raises(DataError, match="half of a surrogate pair"):
        bert.encode("a\ud800")


def test_the_tokenizer_of_a_run_is_ours_or_foreign(tmp_path: Path) -> None:
    Tokenizer.train(["a dog"], TokenizerConfig()).save(tmp_path / "ours.json")
    bert_tokenizer().save(str(tmp_path / "foreign.json"))
    assert isinstance(load_tokenizer(tmp_path / "ours.json"), Tokenizer)
    assert isinstance(load_tokenizer(tmp_path / "foreign.json"), ForeignTokenizer)
    assert ForeignTokenizer.load(tmp_path / "foreign.json").encode("dog") == [5]


def test_a_file_that_is_missing_damaged_or_empty(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    with pytest.raises(MissingInputError, match="cannot read the tokenizer: No such file"):
        load_tokenizer(path)
    path.write_text("{")
    with pytest.raises(DataError, match="not a readable tokenizer"):
        load_tokenizer(path)
    tokenizers.Tokenizer(models.BPE()).save(str(path))
    with pytest.raises(DataError, match="the vocabulary is empty"):
        load_tokenizer(path)
