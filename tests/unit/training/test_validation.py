"""Validation against plain cross-entropy over full logits, and greedy text against a loop without cache."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.unit.training.toy import MODEL, toy_corpus, toy_model
from torch.nn import functional as F

from dikkat.config import TokenizerConfig
from dikkat.data.batching import collate
from dikkat.data.corpus import Corpus
from dikkat.evaluation import Scoring, score_translations
from dikkat.models.encoder_decoder import EncoderDecoder
from dikkat.models.factory import build_model
from dikkat.training import translation
from dikkat.training.task import ValidationStoppedError
from dikkat.training.translation import Validator, batch_loss, decoding_options
from dikkat_runtime.special_tokens import BOS_ID, EOS_ID, PAD_ID
from dikkat_runtime.text.tokenizer import Tokenizer

SOURCES = [f"{size} {colour} {thing}" for size in ("big", "small") for colour in ("red", "blue") for thing in "abc"]
TARGETS = [" ".join(reversed(source.split())) for source in SOURCES]


@pytest.fixture
def tokenizer() -> Tokenizer:
    return Tokenizer.train(SOURCES, TokenizerConfig(vocab_size=320), target_texts=TARGETS)


@pytest.fixture
def corpus(tokenizer: Tokenizer, tmp_path: Path) -> Corpus:
    pairs = zip(tokenizer.encode_batch(SOURCES), tokenizer.encode_batch(TARGETS), strict=True)
    return Corpus.build(tmp_path, "validation", pairs)


@pytest.fixture
def model(tokenizer: Tokenizer) -> EncoderDecoder:
    config = MODEL.model_copy(update={"vocab_size": tokenizer.vocab_size, "dropout": 0.5})
    return build_model(config, seed=1).eval()


def test_batch_loss_is_cross_entropy_of_the_real_positions(tmp_path: Path) -> None:
    corpus, model = toy_corpus(tmp_path), toy_model()
    batch = collate(corpus, np.arange(12))
    assert (batch.target_output == PAD_ID).any()
    objective, likelihood, tokens = batch_loss(model, batch, smoothing=0.2)
    source, target_input, target_output = map(torch.from_numpy, (batch.source, batch.target_input, batch.target_output))
    logits = model(source, target_input, source != PAD_ID).transpose(1, 2).double()
    sums = [
        F.cross_entropy(logits, target_output, ignore_index=PAD_ID, label_smoothing=smoothing, reduction="sum")
        for smoothing in (0.2, 0.0)
    ]
    assert tokens == batch.num_tokens == int((target_output != PAD_ID).sum())
    assert float(objective.detach()) == pytest.approx(float(sums[0].detach()), rel=1e-5)
    assert float(likelihood) == pytest.approx(float(sums[1].detach()), rel=1e-5)


def test_loss_is_the_mean_over_tokens_not_over_batches(
    model: EncoderDecoder, corpus: Corpus, tokenizer: Tokenizer
) -> None:
    """Teacher-forced, one sentence at a time, no padding anywhere (fault F40: a mean over padded steps)."""
    total, tokens = 0.0, 0
    with torch.no_grad():
        for index in range(len(corpus)):
            source = torch.tensor([[*corpus.source(index).tolist(), EOS_ID]])
            target = corpus.target(index).tolist()
            logits = model(source, torch.tensor([[BOS_ID, *target]]), torch.ones_like(source, dtype=torch.bool))
            total += float(F.cross_entropy(logits[0].double(), torch.tensor([*target, EOS_ID]), reduction="sum"))
            tokens += len(target) + 1
    result = Validator(corpus, tokenizer, SOURCES, TARGETS)(model, 0)
    assert result.loss == pytest.approx(total / tokens, rel=1e-5)


def greedy_text(model: EncoderDecoder, source: list[int], tokenizer: Tokenizer) -> str:
    """Feed the whole prefix again at every step: no cache, no batch."""
    ids = torch.tensor([[*source, EOS_ID]])
    prefix = [BOS_ID]
    with torch.no_grad():
        # source and reference are of one length here, and three tokens are to spare
        while len(prefix) <= ids.shape[1] + 3:
            logits = model(ids, torch.tensor([prefix]), torch.ones_like(ids, dtype=torch.bool))[0, -1]
            logits[[PAD_ID, BOS_ID]] = -torch.inf
            prefix.append(int(logits.argmax()))
            if prefix[-1] == EOS_ID:
                break
    return tokenizer.decode(prefix)


def test_translations_are_greedy_and_scored_on_text(
    model: EncoderDecoder, corpus: Corpus, tokenizer: Tokenizer
) -> None:
    wanted = [greedy_text(model, corpus.source(index).tolist(), tokenizer) for index in range(len(corpus))]
    validator = Validator(corpus, tokenizer, SOURCES, TARGETS)
    for number in range(3):
        result = validator(model, number)
        expected = score_translations(wanted, TARGETS)
        assert result.scores == {"chrf": expected.chrf, "bleu": expected.bleu}
        assert result.score == expected.chrf
        shown = dict(result.shown)
        position = SOURCES.index(shown["source"])
        assert (shown["model"], shown["human"]) == (wanted[position], TARGETS[position])


def test_translations_are_scored_as_is_asked(model: EncoderDecoder, corpus: Corpus, tokenizer: Tokenizer) -> None:
    wanted = [greedy_text(model, corpus.source(index).tolist(), tokenizer) for index in range(len(corpus))]
    targets, without_case = [text.swapcase() for text in wanted], Scoring("char", lowercase=True)
    result = Validator(corpus, tokenizer, SOURCES, targets, without_case)(model, 0)
    expected = score_translations(wanted, targets, without_case)
    assert result.scores == {"chrf": expected.chrf, "bleu": expected.bleu}
    assert expected.bleu > score_translations(wanted, targets).bleu


def test_another_sentence_is_shown_each_time(model: EncoderDecoder, corpus: Corpus, tokenizer: Tokenizer) -> None:
    validator = Validator(corpus, tokenizer, SOURCES, TARGETS)
    assert len({validator(model, number).shown[0] for number in range(4)}) == 4


def test_at_most_so_many_sentences_are_translated(
    monkeypatch: pytest.MonkeyPatch, model: EncoderDecoder, corpus: Corpus, tokenizer: Tokenizer
) -> None:
    """They are spread over the part, ends included; the loss still sees all."""
    whole = Validator(corpus, tokenizer, SOURCES, TARGETS)(model, 0)
    monkeypatch.setattr(Validator, "MAX_SENTENCES", 3)
    few = Validator(corpus, tokenizer, SOURCES, TARGETS)
    wanted = [0, 5, 11]
    texts = [greedy_text(model, corpus.source(index).tolist(), tokenizer) for index in wanted]
    result = few(model, 0)
    assert result.score == score_translations(texts, [TARGETS[index] for index in wanted]).chrf
    assert result.loss == whole.loss
    assert {few(model, number).shown[0][1] for number in range(9)} == {SOURCES[index] for index in wanted}


def test_a_sentence_longer_than_the_position_table_does_not_spoil_training(tmp_path: Path) -> None:
    """Validation runs in inference mode and may grow the table that training then adds to its activations."""
    texts = ["a b c d e f g h i j k l m n o p q r s t " * 8]
    tokenizer = Tokenizer.train(texts, TokenizerConfig(vocab_size=301, min_frequency=100))
    ids = tokenizer.encode_batch(texts)
    assert len(ids[0]) > 256
    corpus = Corpus.build(tmp_path, "validation", [(ids[0], ids[0])])
    model = build_model(MODEL.model_copy(update={"vocab_size": tokenizer.vocab_size}), seed=1)
    Validator(corpus, tokenizer, texts, texts)(model.eval(), 0)
    batch_loss(model.train(), collate(corpus, np.array([0])), smoothing=0.1).objective.backward()
    assert model.output_weight.grad is not None
    assert bool(torch.isfinite(model.output_weight.grad).all())


def test_no_reference_is_longer_than_a_translation_may_be(tmp_path: Path) -> None:
    """The cap follows the references: of a pair of lengths that is usual it is far below that of decoding at large."""
    rows = [(range(4, 4 + length), range(4, 4 + length + extra)) for length in (3, 8, 20) for extra in (-1, 0, 2, 4)]
    corpus = Corpus.build(tmp_path, "validation", [(list(source), list(target)) for source, target in rows])
    options = decoding_options(corpus)
    for source, target in rows:
        cap = int(options.max_length_factor * (len(source) + 1)) + options.max_length_offset
        assert len(target) + 1 <= cap < 2 * (len(source) + 1) + 10


@pytest.mark.parametrize("at", ["loss", "translation"])
def test_a_validation_is_left_between_two_batches(
    model: EncoderDecoder, corpus: Corpus, tokenizer: Tokenizer, at: str
) -> None:
    asked = iter([False] if at == "translation" else [])
    with pytest.raises(ValidationStoppedError):
        Validator(corpus, tokenizer, SOURCES, TARGETS)(model, 0, lambda: next(asked, True))


def test_a_model_whose_loss_is_not_finite_translates_nothing(
    monkeypatch: pytest.MonkeyPatch, model: EncoderDecoder, corpus: Corpus, tokenizer: Tokenizer
) -> None:
    monkeypatch.setattr(translation, "search_all", lambda *_, **__: pytest.fail("it was asked to translate"))
    with torch.no_grad():
        next(model.parameters()).fill_(float("nan"))
    result = Validator(corpus, tokenizer, SOURCES, TARGETS)(model, 0)
    assert math.isnan(result.loss)
    assert result.scores == {}


def test_a_share_is_validated_on(model: EncoderDecoder, tokenizer: Tokenizer, tmp_path: Path) -> None:
    """Evenly spread over the part, for the loss as well, and never so few that the score says nothing."""
    sources, targets = SOURCES * 20, TARGETS * 20
    pairs = zip(tokenizer.encode_batch(sources), tokenizer.encode_batch(targets), strict=True)
    validator = Validator(Corpus.build(tmp_path, "validation", pairs), tokenizer, sources, targets)
    assert validator.limit(0.5) == 0.5
    shown = {validator(model, number).shown[0][1] for number in range(5)}
    assert shown <= set(SOURCES)
    assert validator.limit(0.01) == pytest.approx(32 / 240)
    assert validator.limit(1.0) == 1.0


def test_the_baseline_is_the_source_itself(corpus: Corpus, tokenizer: Tokenizer) -> None:
    score = score_translations(SOURCES, TARGETS).chrf
    assert Validator(corpus, tokenizer, SOURCES, TARGETS).baseline() == (
        score,
        1.0,
        f"copying the source (chrF {score:.2f})",
    )
