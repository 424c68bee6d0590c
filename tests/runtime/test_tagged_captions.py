"""A sentence with a tag is translated as the sentence without it: the model reads no tags, whatever they are around."""

from __future__ import annotations

import html
import random
import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.runtime.runs import translator_run
from tools.phrasebook.generate import phrasebook

from dikkat_runtime.documents.documents import translate_document
from dikkat_runtime.documents.segments import Options
from dikkat_runtime.engine.options import BeamOptions
from dikkat_runtime.tasks.translator import Translator

SENTENCES = 80
MAX_TAG_LENGTH = 3
"""Words that a tag is around, at most."""


def tagged(sentence: str, chance: random.Random) -> str:
    """The sentence with one tag around one to three of its words."""
    words = [html.escape(word, quote=False) for word in sentence.split(" ")]
    start = chance.randrange(len(words))
    end = min(len(words), start + chance.randint(1, MAX_TAG_LENGTH))
    name = chance.choice(("b", "i", "a", "span"))
    return " ".join([*words[:start], f"<{name}>{' '.join(words[start:end])}</{name}>", *words[end:]])


@pytest.mark.parametrize("precision", ["float32", pytest.param("int8", marks=pytest.mark.nightly)])
def test_the_text_is_that_of_the_untagged_sentence(tmp_path: Path, precision: str) -> None:
    run = translator_run(tmp_path / "run")
    translator = Translator.load(run, precision=precision, threads=1)  # type: ignore[arg-type]
    options = BeamOptions(max_length_factor=0.8)

    def translate(texts: Sequence[str]) -> Sequence[str]:
        return [each.text for each in translator.translate(texts, options)]

    chance = random.Random(44)
    sentences = [pair.source for pair in phrasebook("en-fr", SENTENCES, seed=44)]
    page = "".join(f"<p>{tagged(sentence, chance)}</p>\n" for sentence in sentences).encode()
    document = translate_document(
        page, "a.html", translate, align=translator.inserter.align, options=Options("en", "fr")
    )
    lines = document.data.decode().split("\n")[:-1]
    plain = translate(sentences)
    assert len(lines) == len(plain) == SENTENCES
    for line, expected in zip(lines, plain, strict=True):
        assert len(re.findall(r"<(?!/?p>)[^/>]+>", line)) == len(re.findall(r"</(?!p>)[^>]+>", line)) == 1
        text = html.unescape(re.sub(r"<[^>]+>", "", line))
        assert text.split() == expected.split()
