"""A `tokenizer.json` that no tokenizer of ours looks like is refused before the library sees it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.unit.interop.checkpoints import bert_tokenizer, gpt2_tokenizer

from dikkat.config import TokenizerConfig
from dikkat_runtime.errors import DataError
from dikkat_runtime.run.strict_json import parse_json
from dikkat_runtime.text.foreign_tokenizer import ForeignTokenizer, load_tokenizer
from dikkat_runtime.text.tokenizer import Tokenizer

TEXTS = ["the dog's house, it is 1 old house.", "Işık söndü!", "a\u00a0b <eos> c"] * 3
CHAIN = {"type": "Replace", "pattern": {"Regex": "a"}, "content": "a" * 10}


@pytest.mark.parametrize("lowercase", [False, True])
@pytest.mark.parametrize("kind", ["bpe", "words", "characters", "bytes"])
def test_every_tokenizer_of_ours_is_let_through(tmp_path: Path, kind: Any, lowercase: bool) -> None:
    path = tmp_path / "tokenizer.json"
    created = Tokenizer.train(TEXTS, TokenizerConfig(kind=kind, lowercase=lowercase, min_frequency=1))
    created.save(path)
    again = Tokenizer.load(path, created.vocab_size)
    assert again.encode_batch(TEXTS) == created.encode_batch(TEXTS)
    with pytest.raises(DataError, match=rf"tokenizer\.json: does not fit config\.json: it has {created.vocab_size} "):
        Tokenizer.load(path, created.vocab_size + 1)


def test_tokenizers_of_imported_checkpoints_are_let_through(tmp_path: Path) -> None:
    for name, inner in (("bert", bert_tokenizer()), ("gpt2", gpt2_tokenizer())):
        inner.save(str(tmp_path / name))
        assert isinstance(load_tokenizer(tmp_path / name), ForeignTokenizer)


CHANGES: list[tuple[Callable[[dict[str, Any]], Any], str]] = [
    (lambda t: t.update(normalizer={"type": "Sequence", "normalizers": [CHAIN] * 10}), "pattern has a value"),
    (lambda t: t.update(normalizer={"type": "Magic"}), "'Magic' is not a component"),
    (lambda t: t.update(normalizer={"type": "Precompiled"}), "has no map of characters"),
    (lambda t: t.update(normalizer={"type": "Precompiled", "precompiled_charsmap": "//8="}), "charsmap has a value"),
    (lambda t: t.update(normalizer={"type": "Prepend", "prepend": "a" * 9}), "prepend has a value"),
    (lambda t: t["pre_tokenizer"]["pretokenizers"][0]["pattern"].update(Regex="(a+)+b"), "pattern has a value"),
    (lambda t: t["model"]["vocab"].update(x=2**32 - 1), r"ids of the .* entries are not 0 to"),
    (lambda t: t["model"]["vocab"].update(x=5), r"ids of the .* entries are not 0 to"),
    (lambda t: t["model"]["vocab"].update(x=True), "an id that is not a number"),
    (lambda t: t["added_tokens"][0].update(id=7), "another id than in the vocabulary"),
    (lambda t: t["model"].update(dropout=0.5), "dropout has a value"),
    (lambda t: t["model"].update(type="Magic"), "'Magic' is not a component"),
    (lambda t: t.update(surprise=1), "unknown key 'surprise'"),
    (lambda t: t.update(post_processor={"type": "Sequence"}), "'Sequence' is not a component"),
    (lambda t: t.update(decoder={"type": "Strip", "content": " ", "start": 2**40, "stop": 0}), "start has a value"),
    (lambda t: t.update(padding={"strategy": {"Fixed": 2**40}}), "padding: not the settings"),
]


@pytest.mark.parametrize(("change", "message"), CHANGES, ids=[message[:30] for _, message in CHANGES])
def test_what_no_tokenizer_of_ours_has_is_refused(
    tmp_path: Path, change: Callable[[dict[str, Any]], Any], message: str
) -> None:
    path = tmp_path / "tokenizer.json"
    Tokenizer.train(TEXTS, TokenizerConfig()).save(path)
    settings = json.loads(path.read_text())
    change(settings)
    path.write_text(json.dumps(settings))
    for load in (Tokenizer.load, load_tokenizer, ForeignTokenizer.load):
        with pytest.raises(DataError, match=message):
            load(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"[" * 100_000, "nested too deeply"),
        (b'{"a": 1, "a": 2}', "the key 'a' stands in it twice"),
        (b'{"a": NaN}', "NaN is not a number of JSON"),
        (b"1e999", "out of range"),
        (b'"\\ud800"', "half of a surrogate pair"),
        (b"\xff", "invalid start byte"),
        (b"9" * 5000, "Exceeds the limit"),
    ],
)
def test_json_that_parsers_read_differently_is_refused(content: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_json(content)
