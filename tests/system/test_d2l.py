"""The textbook's example (seed rows E10 to E12): 600 short pairs learned by heart, four of them asked for again.

The textbook downloads its pairs; here they are Tatoeba's, as the textbook's are, where `../shared` has them, and others
of which all but eight are the phrasebook's. The textbook's learning rate stays at 0.005 to the end, so its last weights
depend on the seed: of seeds 1 to 6, 2 to 5 write all four of Tatoeba's sentences, 1 and 6 miss "I lost." once.
"""

from __future__ import annotations

import gzip
import json
import math
import re
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.system.toy import child

from dikkat import Translator
from dikkat.data.corpus import Corpus
from dikkat.evaluation import bleu_k
from dikkat.lessons.classroom.translating import preprocess
from dikkat.lessons.phrasebook import phrasebook

SENTENCES = {
    "go .": "va !",
    "i lost .": "j'ai perdu .",
    "he's calm .": "il est calme .",
    "i'm home .": "je suis chez moi .",
}
RELATED = {
    "she's calm .": "elle est calme .",
    "i'm calm .": "je suis calme .",
    "he's home .": "il est chez moi .",
    "he lost .": "il a perdu .",
}
"""So that every word of the four occurs twice, as the textbook's vocabulary wants it."""
NUM_EXAMPLES, NUM_STEPS = 600, 10


@dataclass(frozen=True)
class Textbook:
    """The trained run, and what was printed on the way."""

    path: Path
    told: str
    least: float
    """Nats a token that the data leaves at least to whoever knows it by heart."""


def pairs_of_tatoeba(shared_data: Path) -> list[tuple[str, str]]:
    """The first 600, and one of the four that stands elsewhere in the file."""
    with gzip.open(shared_data / "tatoeba" / "eng-fra.tsv.gz", "rt", encoding="utf-8") as lines:
        pairs = [line.split("\t")[:2] for line, _ in zip(lines, range(NUM_EXAMPLES), strict=False)]
    return [*((source, target) for source, target in pairs), ("He's calm.", "Il est calme.")]


def pairs_of_the_textbook(count: int) -> list[tuple[str, str]]:
    """So many short pairs, as the textbook's file begins with the shortest."""
    pairs = [*SENTENCES.items(), *RELATED.items()]
    phrases = [(source, target) for source, target, *_ in phrasebook("en-fr", 10 * NUM_EXAMPLES)]
    phrases.sort(key=lambda pair: len(preprocess(f"{pair[0]} {pair[1]}")))
    return [*pairs, *phrases[: count - len(pairs)]]


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(("tatoeba", NUM_EXAMPLES), id="tatoeba"),
        pytest.param(("phrasebook", NUM_EXAMPLES), id="phrasebook"),
    ],
)
def textbook(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Textbook:
    """Training sentences as the textbook takes them, validated on themselves: nothing is claimed about others (F39)."""
    folder = tmp_path_factory.mktemp("textbook")
    kind, count = request.param
    if kind == "tatoeba":
        # "Go." stands there with several translations
        pairs, least = pairs_of_tatoeba(request.getfixturevalue("shared_data")), 0.1
    else:
        pairs, least = pairs_of_the_textbook(count), 0.0
    assert len(pairs) >= count
    assert max(len(preprocess(text)) for pair in pairs for text in pair) < NUM_STEPS, "the end mark is the last step"
    data, out = folder / "600.tsv", folder / "d2l"
    data.write_text("".join(f"{source}\t{target}\n" for source, target in pairs), encoding="utf-8")
    arguments = ["train", "translator", str(data), "--valid", str(data), "--preset", "d2l", "--out", str(out)]
    arguments += ["--set", "training.seed=2"]
    process = child(arguments)
    _, message = process.communicate()
    assert process.returncode == 0, message
    return Textbook(out, message, least)


def least_loss(run: Path) -> float:
    """Nats a token that remain to whoever knows all pairs: with rare words unknown, some sources have two targets."""
    corpus = Corpus.open(run / "corpus", "train", vocab_size=1 << 16)
    translations: dict[bytes, Counter[bytes]] = defaultdict(Counter)
    for index in range(len(corpus)):
        translations[corpus.source(index).tobytes()][corpus.target(index).tobytes()] += 1
    nats = sum(-count * math.log(count / item.total()) for item in translations.values() for count in item.values())
    return nats / sum(len(corpus.target(index)) + 1 for index in range(len(corpus)))


@pytest.mark.seed("E10")
@pytest.mark.nightly
def test_loss_and_speed_are_printed_and_the_curve_is_saved(textbook: Textbook) -> None:
    """The textbook divides by its ten padded steps (F40): its .05 is half a nat a token. Ours is near the least.

    The time is printed and not asserted, being the machine's (target: three minutes on two cores).
    """
    rows = [json.loads(line) for line in (textbook.path / "metrics.jsonl").read_text().split("\n")[:-1]]
    trained, valid, least = rows[-1]["train_loss"], rows[-1]["valid_loss"], least_loss(textbook.path)
    print(f"{rows[-1]['seconds']} s; nats a token: {trained:.4f} in training, {valid:.4f} after it, {least:.4f} least")
    assert trained / NUM_STEPS < 0.05
    assert textbook.least < least < valid < least + 0.05
    assert re.search(r"pass \d+\.\d, update [\d,]+, loss \d+\.\d{3}, [\d,]+ tokens/s", textbook.told)
    assert (textbook.path / "training.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.seed("E11")
@pytest.mark.nightly
def test_the_four_sentences_of_the_textbook(textbook: Textbook) -> None:
    translator = Translator.load(textbook.path)
    for beam_size in (1, 5):
        written = [result.text for result in translator.translate(SENTENCES, beam_size=beam_size)]
        assert written == list(SENTENCES.values())
        scores = [bleu_k(text, wanted, k=2) for text, wanted in zip(written, SENTENCES.values(), strict=True)]
        assert scores == [1.0, 1.0, 1.0, 1.0]
