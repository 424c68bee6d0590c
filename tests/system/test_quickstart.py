"""The run that `dikkat quickstart` leaves behind: good enough, and the same text by every path of decoding.

CI runs the README's first command before the tests, so the run is there; elsewhere these tests skip and say so.
"""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
import torch
from tests.system.pronouns import Head, held_out_sentences, shares

from dikkat import Translator
from dikkat.evaluation import score_translations
from dikkat.explain.lesson import read_lesson
from dikkat.torch_engine.stepper import length_caps, pad_sources
from dikkat.web.page import lesson_path
from dikkat_runtime.engine.options import DecodingOptions
from dikkat_runtime.engine.precision import PrecisionName
from dikkat_runtime.special_tokens import BOS_ID, EOS_ID, PAD_ID
from dikkat_runtime.tasks.batches import length_batches

RUN = Path(__file__).resolve().parents[2] / "runs" / "quickstart-fr"
pytestmark = pytest.mark.skipif(
    not (RUN / "card.md").exists(), reason=f"{RUN} is not there: run `dikkat quickstart` first"
)


@pytest.fixture(scope="module")
def translator() -> Translator:
    return Translator.load(RUN)


@pytest.fixture(scope="module")
def sources() -> list[str]:
    return (RUN / "held_out" / "test.source.txt").read_text(encoding="utf-8").split("\n")[:-1]


@pytest.fixture(scope="module")
def greedy(translator: Translator, sources: list[str]) -> list[str]:
    return [result.text for result in translator.stream(sources, DecodingOptions(), batch_size=64)]


def test_held_out_combinations_are_translated(translator: Translator, sources: list[str]) -> None:
    references = (RUN / "held_out" / "test.target.txt").read_text(encoding="utf-8").split("\n")[:-1]
    assert len(sources) == len(references) >= 1000
    translations = [result.text for result in translator.translate(sources)]
    assert score_translations(translations, references).bleu >= 85.0


@pytest.mark.parametrize("batch_size", [1, 7])
def test_the_batch_does_not_change_the_text(
    translator: Translator, sources: list[str], greedy: list[str], batch_size: int
) -> None:
    assert [result.text for result in translator.stream(sources, DecodingOptions(), batch_size=batch_size)] == greedy


def test_the_order_does_not_change_the_text(translator: Translator, sources: list[str], greedy: list[str]) -> None:
    order = random.Random(5).sample(range(len(sources)), len(sources))
    shuffled = translator.stream([sources[index] for index in order], DecodingOptions(), batch_size=64)
    assert [result.text for result in shuffled] == [greedy[index] for index in order]


@pytest.mark.parametrize("step", [8, pytest.param(4, marks=pytest.mark.nightly)])
def test_the_cache_does_not_change_the_text(
    translator: Translator, sources: list[str], greedy: list[str], step: int
) -> None:
    sources = sources[::step]
    ids = [translator.encode(source) for source in sources]
    texts = [""] * len(sources)
    with torch.inference_mode():
        for indices in length_batches([len(item) for item in ids], 64, 8192):
            for index, tokens in zip(
                indices, _without_cache(translator, [ids[index] for index in indices]), strict=True
            ):
                texts[index] = translator.tokenizer.decode(tokens)
    assert texts == greedy[::step]


def test_eight_bits_write_almost_the_same(translator: Translator, sources: list[str]) -> None:
    """Within a fifth of a BLEU point, the same for all but a few, and whatever the batch."""
    references = (RUN / "held_out" / "test.target.txt").read_text(encoding="utf-8").split("\n")[:-1]
    in_bytes = Translator.load(RUN, "int8")
    exact, rounded = ([result.text for result in item.translate(sources)] for item in (translator, in_bytes))
    assert score_translations(rounded, references).bleu >= score_translations(exact, references).bleu - 0.2
    assert sum(ours == theirs for ours, theirs in zip(rounded, exact, strict=True)) >= 0.95 * len(sources)
    greedy = [result.text for result in in_bytes.stream(sources, DecodingOptions(), batch_size=64)]
    assert [result.text for result in in_bytes.stream(sources[:100], DecodingOptions(), batch_size=7)] == greedy[:100]


def test_the_picture_and_the_curve_are_there() -> None:
    for name in ("attention.png", "training.png"):
        assert (RUN / name).read_bytes().startswith(b"\x89PNG")
    rows = [json.loads(line) for line in (RUN / "metrics.jsonl").read_text().split("\n") if line]
    # that of the held-out pairs may rise again where a fast machine makes many passes
    assert rows[-1]["train_loss"] < rows[0]["train_loss"]
    assert rows[-1]["chrf"] >= rows[0]["chrf"]


@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_the_third_lesson_says_what_the_model_writes(precision: PrecisionName) -> None:
    """One word changes which noun "it" means, and with it the French pronoun: the cat is masculine, the street not."""
    cat, street, *_ = (step.settings["text"] for step in read_lesson(lesson_path("003")).steps)
    assert street == cat.replace("tired", "wide")
    tired, wide = (result.text for result in Translator.load(RUN, precision).translate([cat, street]))
    assert "qu'il était" in tired
    assert "qu'elle était" in wide


def _without_cache(translator: Translator, sentences: list[list[int]]) -> list[list[int]]:
    """Greedy decoding that feeds the whole target again at every step."""
    source, mask = pad_sources(sentences, torch.device("cpu"))
    caps = length_caps(mask, DecodingOptions())
    written = torch.full((len(sentences), 1), BOS_ID)
    for _ in range(max(caps)):
        logits = translator.model(source, written, mask)[:, -1]
        logits[:, [PAD_ID, BOS_ID]] = float("-inf")
        written = torch.cat((written, logits.argmax(-1, keepdim=True)), dim=1)
    rows = [row[:cap] for row, cap in zip(written[:, 1:].tolist(), caps, strict=True)]
    return [row[: row.index(EOS_ID)] if EOS_ID in row else row for row in rows]


def test_the_guided_head_looks_from_a_pronoun_at_the_noun_that_it_means() -> None:
    """On 200 sentences with two nouns that it could mean, whose combination of words never occurred in training."""
    reading = Translator.load(RUN, engine="torch")
    sentences = held_out_sentences("test", 200)
    assert shares(reading, sentences)[Head("encoder", 2, 1)] >= 0.95
