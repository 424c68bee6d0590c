"""Subwords joined to words: what is summed, what is averaged, and that the words are those of the user."""

from __future__ import annotations

from unicodedata import normalize

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dikkat.config import TokenizerConfig
from dikkat.explain.attention_map import AttentionMap, SentenceMaps, Words, has_spaces, join_words, with_written_rows
from dikkat_runtime.text.tokenizer import Tokenizer

READS = ("▁The", "▁dre", "ss", ".", "<eos>")
WRITES = ("<bos>", "▁Kl", "eid", ".")


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    texts = ["the red dress is here .", "kırmızı elbise burada, evde.", "don't go!  no"] * 3
    return Tokenizer.train(texts, TokenizerConfig(vocab_size=330))


def test_columns_are_summed_and_rows_averaged() -> None:
    weights = np.array(
        [[0.1, 0.2, 0.3, 0.1, 0.3], [0.5, 0.1, 0.1, 0.1, 0.2], [0.0, 0.2, 0.2, 0.2, 0.4], [0.2, 0.2, 0.2, 0.2, 0.2]]
    )
    cross = AttentionMap(weights, WRITES, READS, "decoder", 1, 2, "cross")
    joined = join_words(SentenceMaps("The dress.", "Kleid.", READS, WRITES, (cross,)))
    (result,) = joined.maps
    assert joined.source_tokens == result.key_tokens == ("The", "dress.", "<eos>")
    assert joined.output_tokens == result.query_tokens == ("<bos>", "Kleid.")
    # row 2: the mean of (0.5, 0.3, 0.2), (0, 0.6, 0.4) and (0.2, 0.6, 0.2)
    np.testing.assert_allclose(result.weights, [[0.1, 0.6, 0.3], [0.7 / 3, 0.5, 0.8 / 3]], rtol=0, atol=1e-12)
    assert (result.stack, result.layer, result.head, result.kind) == ("decoder", 1, 2, "cross")
    assert (joined.source, joined.output) == ("The dress.", "Kleid.")


def test_rows_named_by_what_they_wrote_are_joined_to_written_words() -> None:
    weights = np.array([[0.8, 0.2, 0, 0, 0], [0, 0.6, 0.4, 0, 0], [0, 0, 0, 1, 0], [0, 0, 0, 0, 1]])
    cross = with_written_rows(AttentionMap(weights, WRITES, READS, "decoder", 1, 2, "cross"))
    assert cross.query_tokens == ("▁Kl", "eid", ".", "<eos>")
    (result,) = join_words(SentenceMaps("The dress.", "Kleid.", READS, WRITES, (cross,))).maps
    assert (result.query_tokens, result.key_tokens) == (("Kleid.", "<eos>"), ("The", "dress.", "<eos>"))
    # the mean of the three steps that wrote the word, then the one that ended the sentence
    np.testing.assert_allclose(result.weights, np.array([[0.8 / 3, 2.2 / 3, 0], [0, 0, 1]]), rtol=0, atol=1e-12)
    own = AttentionMap(np.eye(4), WRITES, WRITES, "decoder", 1, 2, "self")
    assert with_written_rows(own) is own


def test_rows_still_sum_to_one_and_the_future_stays_dark() -> None:
    generator = np.random.default_rng(0)
    own = np.tril(generator.random((4, 4))).astype(np.float32)
    own /= own.sum(axis=1, keepdims=True)
    read = generator.dirichlet(np.ones(5), 5).astype(np.float32)
    maps = (
        AttentionMap(own, WRITES, WRITES, "decoder", 0, 0, "self"),
        AttentionMap(read, READS, READS, "encoder", 0, 0, "self"),
    )
    joined = join_words(SentenceMaps("The dress.", "Kleid.", READS, WRITES, maps)).maps
    assert [item.weights.shape for item in joined] == [(2, 2), (3, 3)]
    for item in joined:
        np.testing.assert_allclose(item.weights.sum(axis=1), 1.0, rtol=0, atol=1e-6)
        assert item.weights.dtype == np.float32
    assert not np.triu(joined[0].weights, k=1).any()


@pytest.mark.parametrize(
    ("tokens", "text", "names"),
    [
        # bytes of one character in two tokens; the casing of the user, not of the tokenizer
        (["▁k\\xc4", "\\xb1", "z"], "kız", ["kız"]),
        (["▁kı(1/2)", "ı(2/2)", "z"], "kız", ["kız"]),
        (["▁kı(1/2)", "ı(2/2)", "z"], "", ["kız"]),
        (["▁the", "▁d", "og"], "The DOG", ["The", "DOG"]),
        # two spaces and a tab are no words; the last spaces belong to the last word
        (["▁", "▁a", "\\t", "b", "▁"], "a b", ["a", "b"]),
        (["▁", "▁"], "", ["▁"]),
        # of a text that it cannot be, the tokens are right
        (["▁a", "▁b"], "a b c", ["a", "b"]),
        # what is no UTF-8 can be shown, not spelled
        (["▁\\xff", "x"], "", ["\ufffdx"]),
        (["<bos>", "▁a", "b", "<eos>", "<pad>", "<pad>"], "ab", ["<bos>", "ab", "<eos>", "<pad>", "<pad>"]),
        (["<bos>"], "", ["<bos>"]),
    ],
)
def test_words_as_the_user_wrote_them(tokens: list[str], text: str, names: list[str]) -> None:
    words = Words.of(tokens, text, spaced=True)
    assert list(words.names) == names
    assert words.members.shape == (len(names), len(tokens))
    assert (words.members.sum(axis=0) == 1).all()
    assert words.members.any(axis=1).all()


def test_in_a_vocabulary_of_words_every_token_is_one() -> None:
    tokens = ("i'm", "<unk>", ".", "<eos>")
    assert not has_spaces(tokens)
    words = Words.of(tokens, "I'm Ada.", spaced=False)
    assert words.names == tokens
    assert np.array_equal(words.members, np.eye(4, dtype=bool))


@settings(max_examples=300, deadline=None)
@given(text=st.text(st.characters(exclude_categories=["Cs"], exclude_characters="▁"), max_size=24))
def test_every_text_comes_back_in_its_words(tokenizer: Tokenizer, text: str) -> None:
    """White space is that of Unicode; the four separators that Python alone counts as such stay within words."""
    text = normalize("NFC", text).strip()
    tokens = [*tokenizer.labels(tokenizer.encode(text)), "<eos>"] if text else ["<eos>"]
    unknown_text = Words.of(tokens, "", spaced=True)
    assert (unknown_text.members.sum(axis=0) == 1).all()
    assert unknown_text.members.any(axis=1).all()
    if not set(text) & set("\x1c\x1d\x1e\x1f"):
        assert unknown_text.names == (*text.split(), "<eos>")
        assert Words.of(tokens, text, spaced=True).names == unknown_text.names


def test_a_typed_end_mark_is_five_characters(tokenizer: Tokenizer) -> None:
    tokens = [*tokenizer.pieces(tokenizer.encode("a <eos> b")), "<eos>"]
    assert Words.of(tokens, "a <eos> b", spaced=True).names == ("a", "<eos>", "b", "<eos>")
