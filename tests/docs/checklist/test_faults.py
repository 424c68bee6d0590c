"""Faults of the seed documents in data and scores that have no test where the part lives.

Every test states a property, shows that the faulty form, written out here, lacks it, and that ours has it. Faults of
text and of names stand in test_text_faults.py, the others beside the part (docs/checklist.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from tests.unit.models.small import small_model, some_tokens
from tests.unit.training.toy import toy_trainer
from torch.nn import functional as F

from dikkat.config import DataConfig
from dikkat.data.batching import Batch, collate
from dikkat.data.corpus import Corpus
from dikkat.data.pairs import Pair
from dikkat.data.splitting import split_pairs
from dikkat.evaluation import bleu_k, score_translations
from dikkat.models.encoder_decoder import EncoderDecoder
from dikkat.run_directory import RunDirectory
from dikkat.training.translation import batch_loss
from dikkat_runtime.errors import DataError
from dikkat_runtime.special_tokens import PAD_ID


def raises(action: Callable[[], object]) -> bool:
    try:
        action()
    except Exception:
        return True
    return False


# F12, F13, F39, F40: data and scores ----------------------------------------------------------------------------------


@pytest.mark.seed("F12")
def test_every_row_of_metrics_carries_the_hash_of_its_settings(tmp_path: Path) -> None:
    """A score that was measured before the settings were changed is found out; one written down bare is not."""

    def stale_row_is_found(run: RunDirectory, append: Callable[[dict[str, Any]], None]) -> bool:
        run.write_config({"model": {"encoder_layers": 3}})
        append({"step": 1, "chrf": 40.0})
        try:
            if run.foreign_metrics():
                return False
        except DataError:
            # a row without its digest is refused, whatever settings it was measured under
            return False
        run.write_config({"model": {"encoder_layers": 1}})
        append({"step": 2, "chrf": 30.0})
        return run.foreign_metrics() == [1]

    runs = [RunDirectory.create(tmp_path / name) for name in ("bare", "ours")]

    def bare(row: dict[str, Any]) -> None:
        with runs[0].metrics.open("a", encoding="utf-8") as lines:
            lines.write(f'{{"step": {row["step"]}, "chrf": {row["chrf"]}}}\n')

    assert not stale_row_is_found(runs[0], bare)
    assert stale_row_is_found(runs[1], runs[1].append_metrics)
    # the order of the keys is not a setting
    runs[1].write_config({"a": 1, "b": 2})
    runs[1].append_metrics({"step": 3})
    runs[1].write_config({"b": 2, "a": 1})
    assert runs[1].foreign_metrics() == [1, 2]
    assert runs[1].read_metrics() == [{"step": 1, "chrf": 40.0}, {"step": 2, "chrf": 30.0}, {"step": 3}]


@pytest.mark.seed("F12")
def test_a_training_run_writes_the_hash(tmp_path: Path) -> None:
    trainer = toy_trainer(tmp_path)
    trainer.train(_Nobody(), lambda: False)
    assert trainer.run.read_metrics()
    assert trainer.run.foreign_metrics() == []
    trainer.run.write_config({"task": "another"})
    assert trainer.run.foreign_metrics() == list(range(1, len(trainer.run.read_metrics()) + 1))


class _Nobody:
    """Watches and says nothing."""

    def step(self, report: object) -> None: ...

    def note(self, text: str) -> None: ...

    def validation(self, row: dict[str, float], found: object, is_best: bool) -> None: ...


@pytest.fixture
def uneven(tmp_path: Path) -> tuple[EncoderDecoder, list[Batch]]:
    """A model and two batches: nine short pairs, one long pair."""
    generator = np.random.default_rng(1)
    pairs = [(generator.integers(4, 23, n).tolist(), generator.integers(4, 23, n).tolist()) for n in [2] * 9 + [12]]
    corpus = Corpus.build(tmp_path, "uneven", pairs)
    return small_model(), [collate(corpus, np.arange(9)), collate(corpus, np.array([9]))]


def per_token(model: EncoderDecoder, batches: Iterable[Batch]) -> float:
    """Ours, as validation does it: sums over all tokens."""
    result = [batch_loss(model, batch, smoothing=0.0) for batch in batches]
    return sum(float(item.likelihood) for item in result) / sum(item.predictions for item in result)


def by_batch(model: EncoderDecoder, batches: Iterable[Batch]) -> float:
    """The faulty mean of batch means."""
    return float(np.mean([per_token(model, [batch]) for batch in batches]))


@pytest.mark.seed("F13")
def test_a_mean_is_over_examples_and_not_over_batches(uneven: tuple[EncoderDecoder, list[Batch]]) -> None:
    model, batches = uneven

    def depends_on_the_batches(mean: Callable[[EncoderDecoder, Iterable[Batch]], float]) -> bool:
        def only(batch: Batch, row: slice) -> Batch:
            ids = (batch.source[row], batch.target_input[row], batch.target_output[row])
            return Batch(*ids, batch.indices[row])

        singles = [only(batch, slice(row, row + 1)) for batch in batches for row in range(len(batch.indices))]
        return abs(mean(model, batches) - mean(model, singles)) > 1e-4

    assert depends_on_the_batches(by_batch)
    assert not depends_on_the_batches(per_token)


@pytest.mark.seed("F13")
def test_validation_builds_no_graph(tmp_path: Path) -> None:
    def no_graph(evaluate: Callable[[EncoderDecoder], object]) -> bool:
        model, watched = small_model(), []
        handle = model.encoder.register_forward_hook(lambda _, __, output: watched.append(output.requires_grad))
        evaluate(model)
        handle.remove()
        return bool(watched) and not any(watched)

    from dikkat.config import TokenizerConfig
    from dikkat.training.translation import Validator
    from dikkat_runtime.text.tokenizer import Tokenizer

    words = ["a b c", "b c a", "c a b"]
    tokenizer = Tokenizer.train(words, TokenizerConfig(kind="words", min_frequency=1), ("", ""), words)
    corpus = Corpus.build(tmp_path, "validation", [(tokenizer.encode(text), tokenizer.encode(text)) for text in words])
    validator = Validator(corpus, tokenizer, words, words)
    source = some_tokens(2, 5)
    assert not no_graph(lambda model: model.encode(source, torch.ones(2, 5, dtype=torch.bool)))
    assert no_graph(lambda model: validator(model, 0))


def bleu_of_the_helper(prediction: str, reference: str, k: int) -> float:
    """The seed's: each share is divided by the number of n-grams of the prediction, whatever it is."""
    predicted, expected = prediction.split(" ") if prediction else [], reference.split(" ")
    score = float(np.exp(min(0.0, 1 - len(expected) / len(predicted))))
    for n in range(1, k + 1):
        left = [tuple(expected[start : start + n]) for start in range(len(expected) - n + 1)]
        matches = 0
        for start in range(len(predicted) - n + 1):
            if (gram := tuple(predicted[start : start + n])) in left:
                left.remove(gram)
                matches += 1
        score *= (matches / (len(predicted) - n + 1)) ** (0.5**n)
    return score


@pytest.mark.seed("F39")
def test_a_short_or_empty_output_has_a_score() -> None:
    def scores_everything(bleu: Callable[[str, str, int], float]) -> bool:
        return not any(raises(lambda t=text: bleu(t, "va !", 2)) for text in ("", "va"))  # type: ignore[misc]

    for bleu in (bleu_of_the_helper, bleu_k):
        assert bleu("il est mouillé .", "il est calme .", 2) == pytest.approx(0.658, abs=5e-4)
    assert not scores_everything(bleu_of_the_helper)
    assert scores_everything(bleu_k)
    # and beside it the score to report, which says how it was computed
    assert "|tok:13a|smooth:exp|version:" in score_translations(["", "va"], ["va !", "va !"]).bleu_signature


def one_too_many(pairs: Sequence[Pair], count: int) -> list[Pair]:
    taken = []
    for number, pair in enumerate(pairs):
        if number > count:
            break
        taken.append(pair)
    return taken


def held_out(pairs: Sequence[Pair], count: int) -> list[Pair]:
    """Ours: the only place where a number of examples is asked for."""
    split = split_pairs(pairs, DataConfig(validation_pairs=count, test_pairs=0), seed=1)
    return [pairs[index] for index in split.validation]


@pytest.mark.seed("F40")
def test_a_number_of_examples_is_exact() -> None:
    letters = [chr(97 + a) + chr(97 + b) for a in range(26) for b in range(26)]
    pairs = [Pair(f"source {name}", f"target {name}", line) for line, name in enumerate(letters, start=1)]

    def is_exact(take: Callable[[Sequence[Pair], int], list[Pair]]) -> bool:
        return [len(take(pairs, count)) for count in (1, 20, 30)] == [1, 20, 30]

    assert not is_exact(one_too_many)
    assert is_exact(held_out)


def over_padded_steps(model: EncoderDecoder, batch: Batch) -> float:
    """The faulty mean: masked losses are zero, but are counted."""
    source, target, wanted = (torch.from_numpy(x) for x in (batch.source, batch.target_input, batch.target_output))
    losses = F.cross_entropy(model(source, target, source != PAD_ID).transpose(1, 2), wanted, reduction="none")
    return (losses * (wanted != PAD_ID)).mean().item()


@pytest.mark.seed("F40")
def test_the_loss_is_per_token_whatever_the_padding(uneven: tuple[EncoderDecoder, list[Batch]]) -> None:
    model, (short, _) = uneven

    def padding_changes_nothing(mean: Callable[[EncoderDecoder, Batch], float]) -> bool:
        def wider(ids: NDArray[np.int64]) -> NDArray[np.int64]:
            return np.pad(ids, ((0, 0), (0, 5)))

        padded = Batch(wider(short.source), wider(short.target_input), wider(short.target_output), short.indices)
        return abs(mean(model, short) - mean(model, padded)) < 1e-4

    assert not padding_changes_nothing(over_padded_steps)
    assert padding_changes_nothing(lambda model, batch: per_token(model, [batch]))
