"""Marian itself, inside PyPI's pymarian: the scores of what it writes are ours."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from tests.unit.interop.marian_files import (
    POST_NORM,
    RECURRENT,
    SEPARATE,
    UNTIED,
    Options,
    marian_folder,
    marian_weights,
    vocabularies,
)
from tests.unit.interop.translators import phrases

from dikkat.interop.foreign_translator import ForeignTranslator
from dikkat.interop.importing import read_foreign
from dikkat.tasks.translation.translator import Translator

pytestmark = [
    pytest.mark.peer,
    pytest.mark.nightly,
    pytest.mark.skipif(
        find_spec("pymarian") is None, reason="needs the package pymarian 1.12.42 (600 MB): pip install pymarian"
    ),
]


@pytest.mark.parametrize("changes", [{}, RECURRENT, SEPARATE, UNTIED], ids=["tied", "recurrent", "separate", "untied"])
def test_scores_of_sentences_are_those_of_marian(changes: Options, tmp_path: Path) -> None:
    pymarian = pytest.importorskip("pymarian")
    options = {**POST_NORM, **changes}
    theirs = marian_folder(tmp_path / "theirs", options, marian_weights(options, seed=3, spread=0.4))
    names = vocabularies(options)
    engine = pymarian.Translator(
        models=str(theirs / "model.npz"), vocabs=[str(theirs / name) for name in names], beam_size=1, normalize=0,
        n_best=True, no_spm_decode=True, word_scores=True, max_length_factor=2, cpu_threads=1, quiet=True,
    )  # fmt: skip
    found = read_foreign(theirs)
    assert isinstance(found, ForeignTranslator)
    found.write(tmp_path / "run", theirs, "dikkat import")
    ours = Translator.load(tmp_path / "run", engine="torch")
    entries = ours.vocabularies.target.pieces(range(len(found.orders[-1].rows)))
    texts = phrases(8)[0]
    written = set()
    for text, line in zip(texts, engine.translate(texts), strict=True):
        # such as "0 ||| ▁new ▁talk ||| WordScores= -2.1 -1.9 -0.3 ||| F0= -4.3 ||| -4.3"
        _, pieces, scores, _, total = (part.strip() for part in line.split("|||"))
        # where it was cut off there is no score of the end
        count = len(scores.split()) - 1
        target = [*map(entries.index, pieces.split()), ours.tokenizer.eos_id][:count]
        source = torch.tensor([[*ours.tokenizer.encode(text), ours.tokenizer.eos_id]])
        fed = torch.tensor([[ours.tokenizer.bos_id, *target[:-1]]])
        with torch.no_grad():
            logits = ours.model(source, fed, torch.ones_like(source, dtype=torch.bool))[0]
        score = logits.log_softmax(-1)[range(count), target].double().sum().item()
        assert score == pytest.approx(float(total), abs=1e-3)
        written.add(pieces)
    assert len(written) > 2
