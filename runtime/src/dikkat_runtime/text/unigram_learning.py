"""Learn the pieces of a unigram vocabulary by SentencePiece (Kudo 2018), and make a lossless tokenizer of them.

SentencePiece is given each word once, with the number of times that it stands in the text, in one order: the same
texts in any order give the same pieces, and memory grows with the number of different words.
"""

from __future__ import annotations

import io
import os
import re
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import models, normalizers

from dikkat_runtime.errors import DataError, UsageError
from dikkat_runtime.files import write_errors
from dikkat_runtime.special_tokens import SPECIAL_TOKENS, UNK_ID
from dikkat_runtime.text.pieces import HIDDEN, SPACE, STAND_IN, piece_decoder, piece_pre_tokenizer

_SEED = 1
_BYTES = 256
_COVERAGE = 0.9995
"""Share of the characters of a text that have an entry, as SentencePiece itself takes; bytes write the others."""
_CHARACTERS = 0.75
"""Largest share of the entries beyond bytes that single characters take."""
_LONGEST_WORD = 1000
"""Characters; a longer word is learned from in parts of so many."""
_NEVER_A_PIECE = re.compile(f"[\0-\x1f\x7f-\x9f{SPACE}\u2585{HIDDEN}{STAND_IN}]")
"""What no piece holds: control characters, what stands for a space or an unknown, and what marks an entry."""
_MARK = re.compile(r"<(?=(?:pad|bos|eos|unk|blank|/?s|0x[0-9A-F]{2})>)")
"""Begins what would be an entry of its own in the vocabulary of some program."""


def learn_unigram(texts: Iterable[str], vocab_size: int) -> tokenizers.Tokenizer:
    """Learn a vocabulary of at most `vocab_size` entries, special tokens and the 256 bytes among them.

    Raises `UsageError` where sentencepiece is not installed, and `DataError` where the texts hold no word.
    """
    words = _words(texts)
    if not words:
        raise DataError("there is no word in the text that a vocabulary should be learned from")
    # one entry of SentencePiece, the unknown, stands for our four
    size = vocab_size - len(SPECIAL_TOKENS) + 1
    model = _trained(_of_frequent_characters(words, size - 1 - _BYTES), size)
    pieces = [(model.id_to_piece(number), float(model.get_score(number))) for number in range(1, len(model))]
    least = min(score for piece, score in pieces[_BYTES:])
    vocabulary = [(token, least) for token in SPECIAL_TOKENS]
    vocabulary += [(piece, least) for piece, _ in pieces[:_BYTES]] + pieces[_BYTES:]
    return lossless_tokenizer(vocabulary)


def lossless_tokenizer(vocabulary: Sequence[tuple[str, float]]) -> tokenizers.Tokenizer:
    """Return the tokenizer of a vocabulary with bytes, which leaves a text exactly as it is.

    A space is put before the text and taken off when decoding, as with byte-level BPE.
    """
    inner = tokenizers.Tokenizer(models.Unigram(list(vocabulary), UNK_ID, True))
    inner.normalizer = normalizers.Sequence([normalizers.Prepend(" ")])
    inner.pre_tokenizer = piece_pre_tokenizer(begins_with_space=False)
    inner.decoder = piece_decoder()
    inner.add_special_tokens(list(SPECIAL_TOKENS))
    return inner


def _words(texts: Iterable[str]) -> Counter[str]:
    """Count the words between spaces; what no piece may hold is a space as well."""
    words: Counter[str] = Counter()
    for text in texts:
        for word in _MARK.sub("< ", _NEVER_A_PIECE.sub(" ", text)).split(" "):
            if word:
                words.update(word[start : start + _LONGEST_WORD] for start in range(0, len(word), _LONGEST_WORD))
    return words


def _trained(words: Counter[str], size: int) -> Any:
    """Return the processor of the model that SentencePiece learns from these words."""
    try:
        import sentencepiece
    except ImportError:
        raise UsageError(
            "tokenizer.kind = unigram is learned by sentencepiece; pip install 'dikkat[unigram]', or choose bpe"
        ) from None
    written = io.BytesIO()
    with tempfile.TemporaryDirectory(prefix="dikkat-words-") as folder, write_errors(Path(folder)):
        file = Path(folder) / "words.tsv"
        file.write_text("".join(f"{word}\t{words[word]}\n" for word in sorted(words)), encoding="utf-8")
        sentencepiece.set_random_generator_seed(_SEED)
        sentencepiece.SentencePieceTrainer.train(
            input=os.fspath(file), input_format="tsv", model_writer=written, model_type="unigram", vocab_size=size,
            hard_vocab_limit=False, byte_fallback=True, split_digits=True, normalization_rule_name="identity",
            remove_extra_whitespaces=False, character_coverage=1.0,
            max_sentence_length=8 * _LONGEST_WORD, num_threads=1, minloglevel=2,
            unk_id=0, bos_id=-1, eos_id=-1, pad_id=-1,
        )  # fmt: skip
    return sentencepiece.SentencePieceProcessor(model_proto=written.getvalue())


def _of_frequent_characters(words: Counter[str], entries: int) -> Counter[str]:
    """Return the words cut at characters too rare for a vocabulary of so many entries beyond bytes."""
    counts: Counter[str] = Counter()
    for word, count in words.items():
        for character in word:
            counts[character] += count
    ranked = sorted(counts, key=lambda character: (-counts[character], character))
    covered, rare = 0, list[str]()
    for rank, character in enumerate(ranked):
        if covered >= _COVERAGE * counts.total() or rank >= max(1, int(_CHARACTERS * entries)):
            rare = ranked[rank:]
            break
        covered += counts[character]
    spaces = dict.fromkeys(map(ord, rare), " ")
    kept: Counter[str] = Counter()
    for word, count in words.items():
        for part in word.translate(spaces).split(" "):
            if part:
                kept[part] += count
    return kept
