"""Ids that a tokenizer puts together from those of words it remembers, against those of the library."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor

import pytest

from dikkat.config import TokenizerConfig
from dikkat_runtime.text import tokenizer as module
from dikkat_runtime.text.tokenizer import Tokenizer

CHARACTERS = "abcABC'’ıİI\u0307\u0301\u0308ÅåeéΣσς \t\n\r\u00a0\u2028\u3000  12३<>.,!?-_ßﬁ\U0001f600\u200d\x00\x1c漢字"


def texts_of(seed: int, count: int) -> list[str]:
    generator = random.Random(seed)
    return ["".join(generator.choices(CHARACTERS, k=generator.randint(0, 30))) for _ in range(count)]


def learned(*, lowercase: bool = True) -> Tokenizer:
    return Tokenizer.train(texts_of(1, 500), TokenizerConfig(vocab_size=500, min_frequency=1, lowercase=lowercase))


@pytest.mark.parametrize("lowercase", [True, False])
def test_the_ids_of_a_text_are_those_of_the_library(lowercase: bool) -> None:
    tokenizer = learned(lowercase=lowercase)
    texts = [*texts_of(2, 20_000), "", " ", "  ", "a  b", " a", "a ", "<eos> a <pad>", "b" * 1_000 + " a", "b " * 1_000]
    library = tokenizer._inner.encode_batch(texts, add_special_tokens=False)
    wanted = [encoding.ids for encoding in library]
    assert tokenizer.encode_batch(texts) == wanted
    # the second time all words are known
    assert tokenizer.encode_batch(texts) == wanted
    assert len(tokenizer._words) > 100
    assert max(map(len, tokenizer._words)) <= module._MAX_KEPT


def test_threads_share_words_that_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_KEPT_WORDS", 5)
    tokenizer = learned()
    batches = [texts_of(seed, 20) for seed in range(300)]
    wanted = [learned().encode_batch(batch) for batch in batches[:1]]
    with ThreadPoolExecutor(8) as threads:
        results = list(threads.map(tokenizer.encode_batch, batches))
    assert results[:1] == wanted
    assert results == [[e.ids for e in tokenizer._inner.encode_batch(b, add_special_tokens=False)] for b in batches]
    assert len(tokenizer._words) < 500
