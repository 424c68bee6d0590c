"""The JSON of a page: complete, plain, and small."""

from __future__ import annotations

import json

import pytest
from tests.system.sample_page import TARGET, sample_page, sample_sentence

from dikkat.explain.explorer.document import TokenizedText, as_json


def test_everything_is_there() -> None:
    content = json.loads(as_json(sample_page()))
    assert (content["format"], content["name"], content["sourceLanguage"]) == (1, "sample", "en")
    first, second = content["sentences"]
    assert first["target"]["tokens"] == list(TARGET)
    assert first["target"]["words"] == ["<bos>", "Das", "Tier", "ist", "müde", "<eos>"]
    assert first["target"]["wordNumbers"] == [0, 1, 2, 3, 4, 4, 5]
    assert {kind: [item["shape"] for item in layers] for kind, layers in first["maps"].items()} == {
        "encoder-self": [[3, 6, 6]] * 2,
        "decoder-self": [[3, 6, 6]] * 2,
        "cross": [[3, 6, 6]] * 2,
    }
    assert [item["shape"] for item in first["rollout"]["encoder-self"]] == [[1, 6, 6]] * 2
    assert first["beam"]["steps"][2][1] == [0, "<eos>", -3.0, -0.9, "ends"]
    assert len(first["headsOff"]) == 3 * 2 * 3
    assert second["beam"] is None
    assert second["score"] is None


def test_half_a_surrogate_pair_is_ascii_too() -> None:
    sentence = sample_sentence(("\ud800", "<eos>"), ("<bos>", "ü\u2028", "<eos>"))
    text = as_json(sample_page(sentences=[sentence]))
    assert text.isascii()
    assert json.loads(text)["sentences"][0]["source"]["tokens"][0] == "\ud800"


def test_long_sentences_are_thinned_only_where_all_would_be_too_large() -> None:
    long = sample_sentence(["▁a"] * 120, ["<bos>"] + ["▁b"] * 120)
    assert "keys" not in json.loads(as_json(sample_page(sentences=[long])))["sentences"][0]["maps"]["cross"][0]
    many = json.loads(as_json(sample_page(sentences=[long] * 20)))
    assert "keys" in many["sentences"][0]["maps"]["cross"][0]


@pytest.mark.parametrize("numbers", [(0, 2), (1, 1), (0,), (0, 0)])
def test_word_numbers_must_fit(numbers: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="2 tokens need word numbers that rise from 0 to 1"):
        TokenizedText("a b", ("a", "b"), numbers, ("a", "b"))
