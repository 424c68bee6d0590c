"""Tasks that must be learned, and what `translate` and `evaluate` promise of a trained run."""

from __future__ import annotations

import io
import json
import random
import sys
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from tests.system.toy import Command, toy_sentences
from torch import Tensor, nn

from dikkat import Translator
from dikkat.config import ModelConfig, TrainingConfig
from dikkat.data.batching import collate
from dikkat.data.corpus import Corpus
from dikkat.models.encoder_decoder import EncoderDecoder
from dikkat.models.factory import build_model
from dikkat.training.distributed.shared_work import seed_dropout
from dikkat.training.optimizer import Optimizer
from dikkat.training.parameters import FlatParameters
from dikkat.training.translation import batch_loss
from dikkat_runtime.engine.options import BeamOptions, DecodingOptions
from dikkat_runtime.special_tokens import BOS_ID, EOS_ID, PAD_ID
from dikkat_runtime.tasks.batches import search_all

LETTERS, LENGTH = 8, 4


def learn(model: EncoderDecoder, corpus: Corpus, updates: int, batch_size: int, seed: int, rate: float) -> float:
    """Train on random batches with AdamW and a linear decay; returns the loss of the last batch, in nats a token."""
    config = TrainingConfig(optimizer="adamw", learning_rate=rate, beta2=0.98)
    parameters = FlatParameters(model.train())
    optimizer = Optimizer(parameters, config)
    generator = np.random.default_rng(seed)
    loss = 0.0
    for update in range(1, updates + 1):
        seed_dropout(seed, update, 0)
        some = generator.choice(len(corpus), size=min(batch_size, len(corpus)), replace=False)
        with parameters.collect_gradients():
            objective, likelihood, tokens = batch_loss(model, collate(corpus, some), smoothing=0.0)
            objective.backward()
        optimizer.step(parameters.gradient / tokens, update, min(1.0, update / 20) * (1.0 - (update - 1) / updates))
        loss = float(likelihood) / tokens
    model.eval()
    return loss


@pytest.mark.seed("A18")
@pytest.mark.parametrize(
    ("norm_placement", "seed"),
    [
        ("pre", 1),
        pytest.param("post", 2, marks=pytest.mark.nightly),
        pytest.param("pre", 2, marks=pytest.mark.nightly),
        pytest.param("post", 1, marks=pytest.mark.nightly),
    ],
)
def test_ten_pairs_are_learned_by_heart(tmp_path: Path, norm_placement: str, seed: int) -> None:
    """A copy set of ten pairs: the loss falls below 0.01 nats a token."""
    generator = random.Random(seed)
    rows = [[generator.randrange(4, 20) for _ in range(generator.randint(3, 7))] for _ in range(10)]
    corpus = Corpus.build(tmp_path, "copy", [(row, row) for row in rows])
    config = ModelConfig.model_validate(
        {
            "vocab_size": 20, "model_dim": 32, "num_heads": 2, "feed_forward_dim": 64, "encoder_layers": 1,
            "decoder_layers": 1, "dropout": 0.0, "norm_placement": norm_placement,
        }
    )  # fmt: skip
    model = build_model(config, seed)
    first = learn(model, corpus, 1, 10, seed, 1e-9)
    assert first > 2.0, "chance is log 20 = 3.0"
    assert learn(model, corpus, 250, 10, seed, 0.01) < 0.01


class NoPositions(nn.Module):
    """What stands instead of the positions when order is to be lost."""

    def forward(self, x: Tensor, offset: int = 0) -> Tensor:
        return x


def reversed_share(model: EncoderDecoder, rows: list[list[int]]) -> float:
    """Share of the sequences that come out exactly backwards, decoded greedily."""
    source = torch.tensor([[*row, EOS_ID] for row in rows])
    tokens = torch.full((len(rows), 1), BOS_ID)
    with torch.inference_mode():
        for _ in range(LENGTH):
            logits = model(source, tokens, source != PAD_ID)[:, -1]
            tokens = torch.cat([tokens, logits.argmax(dim=-1, keepdim=True)], dim=1)
    return float((tokens[:, 1:] == source[:, :LENGTH].flip(1)).all(dim=1).float().mean())


@pytest.mark.seed("A19")
@pytest.mark.slow
def test_order_is_lost_without_positions(tmp_path: Path) -> None:
    """Four different letters of eight, to be said backwards; tested on orders that were never trained on.

    Without positions the encoder sees a bag, so that 4! = 24 orders look the same, and chance is one in 24.
    """
    generator = random.Random(seed := 1)
    letters = range(4, 4 + LETTERS)
    orders: set[tuple[int, ...]] = set()
    while len(orders) < 1500:
        orders.add(tuple(generator.sample(letters, LENGTH)))
    rows = [list(order) for order in sorted(orders)]
    generator.shuffle(rows)
    unseen, seen = rows[:200], rows[200:]
    corpus = Corpus.build(tmp_path, "reversed", [(row, row[::-1]) for row in seen])
    config = ModelConfig(
        vocab_size=4 + LETTERS, model_dim=32, num_heads=4, feed_forward_dim=64, encoder_layers=1, decoder_layers=1,
        dropout=0.0,
    )  # fmt: skip
    for positions in (True, False):
        model = build_model(config, seed)
        if not positions:
            model.positions = NoPositions()  # type: ignore[assignment]
        learn(model, corpus, 200, 64, seed, 0.005)
        share = reversed_share(model, unseen)
        assert share > 0.95 if positions else share < 0.10


UNSEEN = [source for source, _ in toy_sentences(480)[400:]]
LINES = [*UNSEEN, "my dog", "stone " * 30, "a", "ĥoro ☃ 漢字", *toy_sentences(60, seed=9)[0]]


@pytest.fixture(scope="module")
def translator(trained: Path) -> Translator:
    return Translator.load(trained)


def test_the_toy_language_is_learned(translator: Translator) -> None:
    """Otherwise what follows would compare noise with noise."""
    references = [target for _, target in toy_sentences(480)[400:]]
    result = [item.text for item in translator.translate(UNSEEN)]
    assert CHRF().corpus_score(result, [references]).score > 60


@pytest.mark.parametrize("options", [DecodingOptions(), BeamOptions(beam_size=4)], ids=["greedy", "beam"])
def test_batch_size_and_order_change_nothing(translator: Translator, options: DecodingOptions) -> None:
    def texts(lines: list[str], batch_size: int) -> list[str]:
        return [item.text for item in translator.stream(lines, options, batch_size=batch_size)]

    alone = texts(LINES, 1)
    assert len(set(alone)) > len(LINES) // 2
    assert texts(LINES, 7) == alone
    assert texts(LINES, 64) == alone
    shuffled = list(range(len(LINES)))
    random.Random(3).shuffle(shuffled)
    again = texts([LINES[index] for index in shuffled], 16)
    assert [again[shuffled.index(index)] for index in range(len(LINES))] == alone


def test_the_cache_changes_nothing(translator: Translator) -> None:
    """Greedy decoding that feeds the whole prefix to `forward` again at every step."""
    model = translator.model
    for line, result in zip(UNSEEN[:20], translator.stream(UNSEEN[:20], DecodingOptions()), strict=True):
        source = torch.tensor([[*translator.encode(line), EOS_ID]])
        prefix = [BOS_ID]
        with torch.inference_mode():
            while len(prefix) <= 2 * source.shape[1] + 10 and EOS_ID not in prefix:
                logits = model(source, torch.tensor([prefix]), source != PAD_ID)[0, -1]
                logits[[PAD_ID, BOS_ID]] = -torch.inf
                prefix.append(int(logits.argmax()))
        assert translator.tokenizer.decode(prefix) == result.text


def test_lines_in_are_lines_out(
    dikkat: Command, trained: Path, translator: Translator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lines of white space come back as they are; odd line separators are text; the last "\\n" may be missing."""
    lines = ["the dog sees a cat", "", "my \u2028 tree", "   ", "\t", "a\x0cbird", "", "the king follows the star"]
    text = tmp_path / "text"
    for content in ("\n".join(lines), "\n".join(lines) + "\n"):
        text.write_text(content, encoding="utf-8")
        code, output, notes = dikkat("translate", trained, text)
        assert (code, notes) == (0, "")
        result = output.split("\n")
        assert result.pop() == ""
        assert [line for line in result if not line.strip()] == [line for line in lines if not line.strip()]
        assert result == [item.text for item in translator.translate(lines)]
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content.encode())))
        assert dikkat("translate", trained) == (0, output, "")


def test_no_lines_in_are_no_lines_out(dikkat: Command, trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"")))
    assert dikkat("translate", trained) == (0, "", "")


def test_eight_bits_translate_and_are_scored(dikkat: Command, trained: Path, toy_data: Path, tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("\n".join([*UNSEEN, "", ""]), encoding="utf-8")
    code, output, notes = dikkat("translate", trained, text, "--precision", "int8")
    assert (code, notes) == (0, "")
    assert output.split("\n") == [*(item.text for item in Translator.load(trained, "int8").translate(UNSEEN)), "", ""]
    assert dikkat("evaluate", trained, toy_data, "--precision", "int8")[0] == 0


def test_a_stream_is_read_no_further_than_its_window(translator: Translator) -> None:
    read = 0

    def endless() -> Iterator[str]:
        nonlocal read
        while True:
            read += 1
            yield UNSEEN[read % 7] if read % 5 else ""

    result = translator.stream(endless(), DecodingOptions(), batch_size=8, window=20)
    for written in range(1, 61):
        next(result)
        assert written <= read <= (written + 19) // 20 * 20


@pytest.mark.parametrize("count", [pytest.param(30_000, marks=pytest.mark.nightly), 10_000])
def test_memory_does_not_grow_with_the_stream(count: int, translator: Translator) -> None:
    """Peak memory of Python for so many lines (few with text, for speed) is that for half of them."""

    def peak(lines: int) -> int:
        stream = (UNSEEN[n % 7] if n % 500 == 0 else " " * (n % 50) for n in range(lines))
        tracemalloc.start()
        assert sum(1 for _ in translator.stream(stream, DecodingOptions(), window=250)) == lines
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most

    peak(250)
    small, large = peak(count // 2), peak(count)
    assert large < 1.5 * small


def test_n_best_is_sorted_and_complete(dikkat: Command, trained: Path, translator: Translator, tmp_path: Path) -> None:
    """Ended hypotheses by falling score, after them those that the length cap cut off."""
    lines = [*UNSEEN[:12], "", "my cat"]
    text = tmp_path / "text"
    text.write_text("\n".join(lines), encoding="utf-8")
    code, output, _ = dikkat("translate", trained, text, "--beam", "5", "--n-best", "4")
    assert code == 0
    rows = [line.split("\t") for line in output.split("\n")[:-1]]
    best = dikkat("translate", trained, text)[1].split("\n")[:-1]
    ended = 0
    result = search_all(translator.engine, [*map(translator.encode, lines)], BeamOptions(beam_size=5, n_best=4))
    for number, hypotheses in enumerate(result, start=1):
        mine = [(float(score), words) for index, score, words in rows if int(index) == number]
        assert len(mine) == (1 if number == 13 else 4)
        assert mine[0][1] == best[number - 1]
        scores = [score for (score, _), hypothesis in zip(mine, hypotheses, strict=True) if hypothesis.finished]
        assert scores == sorted(scores, reverse=True)
        ended += len(scores)
    assert ended > 40
    assert [int(index) for index, *_ in rows] == sorted(int(index) for index, *_ in rows)


def test_sampling_is_repeatable_and_varied(dikkat: Command, trained: Path, tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("\n".join(UNSEEN[:10]), encoding="utf-8")
    options = ("translate", trained, text, "--sample", "--temperature", "1.5", "--seed")
    one, again, other = (dikkat(*options, seed) for seed in ("4", "4", "5"))
    assert one == again
    assert one[0] == other[0] == 0
    assert one[1] != other[1]


def test_evaluate_prints_scores_with_signatures_and_baselines(
    dikkat: Command, trained: Path, translator: Translator
) -> None:
    """The run's own test part, scored again here by sacreBLEU on our side of the program."""
    sources, references = (
        (trained / "held_out" / f"test.{side}.txt").read_text(encoding="utf-8").split("\n")[:-1]
        for side in ("source", "target")
    )
    assert len(sources) == 20
    result = [item.text for item in translator.translate(sources)]
    bleu, chrf = BLEU(force=True), CHRF()
    wanted = [(metric.corpus_score(result, [references]).score, metric.get_signature()) for metric in (bleu, chrf)]
    code, output, notes = dikkat("evaluate", trained, "--samples", "2")
    assert (code, notes) == (0, "")
    lines = output.split("\n")
    assert lines[0] == f"BLEU {wanted[0][0]:6.2f}  {wanted[0][1]}"
    assert lines[1] == f"chrF {wanted[1][0]:6.2f}  {wanted[1][1]}"
    assert "|version:" in lines[0]
    copied = CHRF().corpus_score(sources, [references]).score
    assert lines[2].endswith(f"chrF {copied:6.2f}  for copying the source")
    assert lines[3].endswith("for the most frequent translation seen in training")
    assert lines[4].startswith("20 sentences in ")
    assert lines[5:8] == [f"  source  {sources[0]}", f"  model  {result[0]}", f"  human  {references[0]}"]
    assert wanted[1][0] > copied + 15, "a trained model beats copying"
    numbers = json.loads(dikkat("evaluate", trained, "--json")[1])
    assert numbers["model"]["chrf"] == pytest.approx(wanted[1][0])
    assert numbers["model"]["chrf_signature"] == str(wanted[1][1])


def test_evaluate_on_named_data(dikkat: Command, trained: Path, tmp_path: Path) -> None:
    data = tmp_path / "more.tsv"
    data.write_text("".join(f"{source}\t{target}\n" for source, target in toy_sentences(480)[400:410]))
    code, output, _ = dikkat("evaluate", trained, data, "--beam", "1")
    assert code == 0
    assert "\n10 sentences in " in output
