"""The textbook's example (seed rows E10 to E12): 600 short pairs learned by heart, four of them asked for again."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from tests.system.toy import child

from dikkat import Translator
from dikkat.evaluation import bleu_k

SENTENCES = {
    "go .": "va !",
    "i lost .": "j'ai perdu .",
    "he's calm .": "il est calme .",
    "i'm home .": "je suis chez moi .",
}


@pytest.mark.slow
def test_E11_the_four_sentences_of_the_textbook(tmp_path: Path, shared_data: Path) -> None:
    """Memorisation of training sentences, as the textbook shows it; nothing is claimed about unseen ones (F39)."""
    with gzip.open(shared_data / "tatoeba" / "eng-fra.tsv.gz", "rt", encoding="utf-8") as lines:
        pairs = [line.split("\t")[:2] for line, _ in zip(lines, range(600), strict=False)]
    pairs.append(["He's calm.", "Il est calme."])
    data = tmp_path / "first-600.tsv"
    data.write_text("".join(f"{source}\t{target}\n" for source, target in pairs), encoding="utf-8")
    out = tmp_path / "d2l"
    arguments = ["train", "translator", str(data), "--valid", str(data), "--preset", "d2l", "--out", str(out)]
    process = child(arguments)
    _, complaint = process.communicate()
    assert process.returncode == 0, complaint
    translator = Translator.load(out)
    for beam_size in (1, 5):
        written = [found.text for found in translator.translate(SENTENCES, beam_size=beam_size)]
        assert written == list(SENTENCES.values())
        scores = [bleu_k(text, wanted, k=2) for text, wanted in zip(written, SENTENCES.values(), strict=True)]
        assert scores == [1.0, 1.0, 1.0, 1.0]
