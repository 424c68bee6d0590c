"""Marian itself, inside PyPI's pymarian: what it writes, and how it scores that, with its files and with ours."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.unit.interop.marian_files import (
    PIECES,
    POST_NORM,
    RECURRENT,
    SEPARATE,
    UNTIED,
    Options,
    marian_folder,
    marian_weights,
    vocabularies,
)
from tests.unit.interop.test_marian_export import MARIAN
from tests.unit.interop.trained_runs import trained_run
from tests.unit.interop.translators import phrases, sentencepiece_model

from dikkat.interop.foreign_translator import ForeignTranslator
from dikkat.interop.importing import read_foreign
from dikkat.interop.marian_export import export_marian
from dikkat.interop.trained_translator import MAX_OUTPUT_LENGTH, TrainedTranslator
from dikkat.run_directory.tensor_files import encode_tensors
from dikkat_runtime.engine.shortlist import OWNER, SHORTLIST
from dikkat_runtime.run.weights import read_checksum
from dikkat_runtime.tasks.translator import Translator

pytestmark = [
    pytest.mark.peer,
    pytest.mark.nightly,
    pytest.mark.skipif(
        find_spec("pymarian") is None, reason="needs the package pymarian 1.12.42 (600 MB): pip install pymarian"
    ),
]


@pytest.mark.parametrize("changes", [{}, RECURRENT, SEPARATE, UNTIED], ids=["tied", "recurrent", "separate", "untied"])
def test_scores_of_sentences_are_those_of_marian(changes: Options, tmp_path: Path) -> None:
    options = {**POST_NORM, **changes}
    theirs = marian_folder(tmp_path / "theirs", options, marian_weights(options, seed=3, spread=0.4))
    assert_scores_are_those_of_marian(theirs, vocabularies(options), tmp_path)


def test_scores_of_what_marian_trained_itself_are_those_of_marian(tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    for side, texts in zip(("en", "fr"), phrases(), strict=True):
        (theirs / f"train.{side}").write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    vocabulary = theirs / "vocab.spm"
    vocabulary.write_bytes(sentencepiece_model(phrases()[0] + phrases()[1], PIECES))
    settings = {
        "type": "transformer", "model": theirs / "model.npz", "vocabs": [vocabulary] * 2, "dim-vocabs": [PIECES] * 2,
        "train-sets": [theirs / f"train.{side}" for side in ("en", "fr")], "tied-embeddings-all": True, "dim-emb": 32,
        "transformer-dim-ffn": 48, "transformer-heads": 4, "enc-depth": 2, "dec-depth": 2, "learn-rate": 0.01,
        "mini-batch": 32, "after": "60u", "cpu-threads": 1, "workspace": 64, "seed": 1, "quiet": True,
    }  # fmt: skip
    # Marian writes past Python's standard error, and holds a whole process
    train = "import json, sys; from pymarian import Trainer; Trainer(**json.load(sys.stdin)).train()"
    subprocess.run(
        [sys.executable, "-c", train], input=json.dumps(settings, default=str), text=True, check=True, timeout=300
    )
    assert_scores_are_those_of_marian(theirs, ("vocab.spm", "vocab.spm"), tmp_path)


def assert_scores_are_those_of_marian(theirs: Path, names: tuple[str, str], tmp_path: Path) -> None:
    """Fail where what Marian writes with the folder `theirs` has another score by the run imported from it."""
    pymarian = pytest.importorskip("pymarian", reason="needs pymarian: pip install pymarian")
    engine = pymarian.Translator(
        models=str(theirs / "model.npz"), vocabs=[str(theirs / name) for name in names], beam_size=1, normalize=0,
        n_best=True, no_spm_decode=True, word_scores=True, max_length_factor=2, cpu_threads=1, quiet=True,
    )  # fmt: skip
    found = read_foreign(theirs)
    assert isinstance(found, ForeignTranslator)
    found.write(tmp_path / "run", theirs, "dikkat import")
    ours = Translator.load(tmp_path / "run", engine="torch")
    entries = ours.target_tokenizer.pieces(range(len(found.orders[-1].rows)))
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


@pytest.fixture(scope="module")
def learned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that has learned enough to write other words for other sentences."""
    others = {"tokenizer.kind": "unigram", "training.max_updates": 600}
    return trained_run(tmp_path_factory.mktemp("learned") / "run", others, **MARIAN, model_dim=64, feed_forward_dim=128)


def test_marian_translates_two_hundred_sentences_as_the_run_that_was_trained(learned: Path, tmp_path: Path) -> None:
    pymarian = pytest.importorskip("pymarian", reason="needs pymarian: pip install pymarian")
    translator = TrainedTranslator.open(learned)
    export_marian(translator, tmp_path / "out", 24)
    assert not translator.network.target_embedding.weight[1].any()
    model, vocabulary = next((tmp_path / "out").glob("*.npz")), str(tmp_path / "out" / "vocab.spm")
    settings: dict[str, Any] = {
        "models": str(model), "vocabs": [vocabulary, vocabulary], "beam_size": 1, "normalize": 0, "cpu_threads": 1,
        "max_length_factor": 4, "max_length": 1000, "quiet": True,
    }  # fmt: skip
    texts = translator.samples(200)
    lines = pymarian.Translator(**settings, n_best=True, no_spm_decode=True, word_scores=True).translate(texts)
    tokenizer = translator.tokenizers[0]
    numbers = {entry: number for number, entry in enumerate(tokenizer.entries)}
    expected = translator.greedy(texts)
    whole = []
    for number, (text, ids, line) in enumerate(zip(texts, expected, lines, strict=True)):
        # a no-break space is a piece of its own, and no end of one
        _, pieces, scores, _, total = (part.strip(" ") for part in line.split("|||"))
        written = [numbers[piece] for piece in pieces.split(" ") if piece]
        # where it was cut off there is no score of the end
        target = [*written, tokenizer.eos_id][: len(scores.split()) - 1]
        if len(ids) < MAX_OUTPUT_LENGTH - 1 and len(target) > len(written):
            assert written == ids
            whole.append(number)
        else:
            # one of the two was cut off
            assert all(one == other for one, other in zip(written, ids, strict=False))
        logits = translator.logits(tokenizer.encode(text), target)[: len(target)]
        # Marian has no entry for the padding and the begin, and the others make up 1
        shares = logits[:, 2:].log_softmax(-1)
        score = shares[range(len(target)), [number - 2 for number in target]].double().sum().item()
        # of the total six digits are printed
        assert score == pytest.approx(float(total), abs=1e-3, rel=5e-6)
    joined = pymarian.Translator(**settings).translate(texts)
    ours = tokenizer.decode_batch(expected)
    assert [joined[number].strip() for number in whole] == [ours[number].strip() for number in whole]
    assert len({ours[number] for number in whole}) > 100


def with_shortlist(run: Path, translator: TrainedTranslator) -> None:
    """Give a run a shortlist: the end, the unknown, and of each piece itself and two more, by chance."""
    size = translator.model.vocab_size
    draw = np.random.default_rng(5)
    lists = [np.unique([own, *draw.choice(np.arange(4, size), 2, replace=False)]) for own in range(4, size)]
    starts = np.cumsum([0, 0, 0, 0, 0, *map(len, lists)]).astype(np.int32)
    arrays = {"always": np.array([2, 3], np.int32), "starts": starts, "words": np.concatenate(lists).astype(np.int32)}
    tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
    notes = {OWNER: read_checksum(run / "model.safetensors")}
    (run / SHORTLIST).write_bytes(encode_tensors(tensors, notes))


def test_marian_writes_the_words_of_the_shortlist_that_is_exported(learned: Path, tmp_path: Path) -> None:
    pymarian = pytest.importorskip("pymarian", reason="needs pymarian: pip install pymarian")
    run = Path(shutil.copytree(learned, tmp_path / "run"))
    with_shortlist(run, TrainedTranslator.open(run))
    translator = TrainedTranslator.open(run)
    export_marian(translator, tmp_path / "out", 24)
    model, vocabulary = next((tmp_path / "out").glob("*.npz")), str(tmp_path / "out" / "vocab.spm")
    engine = pymarian.Translator(
        models=str(model), vocabs=[vocabulary, vocabulary], shortlist=[str(tmp_path / "out" / "lex.s2t.bin"), "0"],
        beam_size=1, normalize=0, cpu_threads=1, max_length_factor=4, max_length=1000, mini_batch=1, maxi_batch=1,
        n_best=True, no_spm_decode=True, word_scores=True, quiet=True,
    )  # fmt: skip
    texts = translator.samples(60)
    shortlist, tokenizer = translator.shortlist(), translator.tokenizers[0]
    assert shortlist is not None
    numbers = {entry: number for number, entry in enumerate(tokenizer.entries)}
    same = 0
    for text, line in zip(texts, engine.translate(texts), strict=True):
        _, pieces, printed, *_ = (part.strip(" ") for part in line.split("|||"))
        written = [numbers[piece] for piece in pieces.split(" ") if piece]
        scores = [float(word) for word in printed.removeprefix("WordScores=").split()]
        ids = tokenizer.encode(text)
        # BinaryShortlistGenerator::generate fills them up to a multiple of eight, by the words behind the frequent ones
        allowed = set(shortlist.of(ids).tolist())
        fill = iter(range(4, translator.model.vocab_size))
        while len(allowed) % 8:
            allowed.add(next(fill))
        assert set(written) <= allowed
        assert len(allowed) < translator.model.vocab_size / 3
        # where it was cut off there is no score of the end
        target = [*written, tokenizer.eos_id][: len(scores)]
        logits = translator.logits(ids, target)[: len(target)]
        listed = logits[:, sorted(allowed)].double()
        # the words of the list, and no others, make up 1
        shares = logits[range(len(target)), target].double() - listed.logsumexp(-1)
        assert shares.tolist() == pytest.approx(scores, abs=1e-3)
        same += listed.max(-1).values.tolist() == logits[range(len(target)), target].double().tolist()
    # pymarian 1.12.42 writes the second best where the best is the 26th or the 30th of the list
    assert same > 40
