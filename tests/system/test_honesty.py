"""Attention where the truth is known: alignments of copies and reversals, and a pronoun with its noun."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.system.test_tasks import learn
from tests.system.toy import Command

from dikkat.config import ModelConfig
from dikkat.data.batching import collate
from dikkat.data.corpus import Corpus
from dikkat.evaluation.alignment_error import GoldAlignment
from dikkat.explain.honesty import HeadName, gradient_times_input, occlusion
from dikkat.explain.honesty.alignment_head import Agreements, WordNumbers, choose_alignment_head
from dikkat.explain.honesty.importance import Quality, head_costs
from dikkat.models.encoder_decoder import EncoderDecoder
from dikkat.models.factory import build_model
from dikkat.nn.recorder import record_attention
from dikkat.text.tokenizer import BOS_ID, EOS_ID
from dikkat.training.validation import batch_loss

LENGTH = 6


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Such small products are slower on two."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def aligned(task: str, word: int) -> int:
    """The source word of an output word."""
    return word if task == "copying" else LENGTH - 1 - word


@pytest.mark.slow
@pytest.mark.parametrize("task", ["copying", "reversing"])
def test_the_chosen_head_is_the_known_alignment_and_missed_most(task: str) -> None:
    """Two layers with one cross-attention head each: the AER of the one that agrees most, and its worth."""
    generator = random.Random(seed := 1)
    rows = sorted({tuple(generator.randrange(4, 24) for _ in range(LENGTH)) for _ in range(3000)})
    generator.shuffle(rows)
    pairs = [(list(row), [row[aligned(task, word)] for word in range(LENGTH)]) for row in rows]
    unseen, seen = pairs[:100], pairs[100:]
    config = ModelConfig(
        vocab_size=24, model_dim=64, num_heads=1, feed_forward_dim=128, encoder_layers=1, decoder_layers=2, dropout=0.0
    )
    model = build_model(config, seed)
    assert learn(model, Corpus.in_memory(seen), 400, 64, seed, 0.005) < 0.02
    known = frozenset((aligned(task, word), word) for word in range(LENGTH))
    chosen, error = chosen_head(model, unseen, GoldAlignment(known, known, "known"))
    assert error < 0.05
    held_out = collate(Corpus.in_memory(unseen), np.arange(len(unseen)))

    def measure() -> Quality:
        with torch.no_grad():
            found = batch_loss(model, held_out, smoothing=0.0)
        return Quality(float(found.likelihood) / found.predictions, chrf=0.0)

    costs = head_costs(model, measure(), measure, lambda what: None)
    cross = {head: cost.loss for head, cost in costs.items() if head.kind == "cross"}
    assert len(cross) == 2
    assert chosen == max(cross, key=lambda head: cross[head])
    assert cross[chosen] > 1.0, "nats a token: without it the model guesses"


def chosen_head(
    model: EncoderDecoder, pairs: list[tuple[list[int], list[int]]], gold: GoldAlignment
) -> tuple[HeadName, float]:
    """Chosen without gold; its alignment error with it."""
    words = WordNumbers(tuple(range(LENGTH)), tuple(range(LENGTH)))
    blind, judged = Agreements(), Agreements([gold] * len(pairs))
    for source, target in pairs:
        read, written = torch.tensor([*source, EOS_ID]), torch.tensor([BOS_ID, *target, EOS_ID])
        occluded, gradient = occlusion(model, read, written), gradient_times_input(model, read, written).source
        with torch.no_grad(), record_attention(model, lambda name: name.kind == "cross") as maps:
            model(read[None], written[None, :-1], torch.ones(1, len(read), dtype=torch.bool))
        for name, (weights,) in maps.items():
            for agreements in (blind, judged):
                agreements.add(name, weights[0].double().numpy(), occluded, gradient, words)
    chosen = choose_alignment_head(blind.found())
    scores = judged.found()[chosen].scores
    assert scores is not None
    return chosen, scores.error


NOUNS, KINDS = 30, 3
FIRST_NOUN, FIRST_NAMED, FIRST_PRONOUN, FIRST_FILLER = 60, 160, 40, 50


def sentences(count: int, seed: int) -> list[tuple[list[int], list[int], int, int]]:
    """Two nouns of two kinds and a pronoun that agrees in kind with one of them, among other words.

    The translation repeats every word, but for the pronoun it names the noun. With the place of the pronoun and of its
    noun. A kind has so many nouns that knowing the answer for each noun by heart is harder than looking at it.
    """
    generator = random.Random(seed)
    found: dict[tuple[int, ...], tuple[list[int], int, int]] = {}
    while len(found) < count:
        kinds = generator.sample(range(KINDS), 2)
        meant = generator.randrange(2)
        nouns = [FIRST_NOUN + NOUNS * kind + generator.randrange(NOUNS) for kind in kinds]
        words: list[int] = []
        for word in (*nouns, FIRST_PRONOUN + kinds[meant]):
            words += [FIRST_FILLER + generator.randrange(6) for _ in range(generator.randint(0, 2))] + [word]
        pronoun = len(words) - 1
        target = [*words[:-1], nouns[meant] - FIRST_NOUN + FIRST_NAMED]
        found[tuple(words)] = (target, pronoun, words.index(nouns[meant]))
    return [(list(words), *rest) for words, rest in found.items()]


@pytest.mark.slow
def test_the_pronoun_looks_at_its_noun() -> None:
    """The head is chosen on one held-out part, its argmax judged on another."""
    data = sentences(3000, seed := 1)
    config = ModelConfig(
        vocab_size=FIRST_NAMED + NOUNS * KINDS, model_dim=64, num_heads=2, feed_forward_dim=8, encoder_layers=1,
        decoder_layers=1, dropout=0.0,
    )  # fmt: skip
    model = build_model(config, seed)
    corpus = Corpus.in_memory([(source, target) for source, target, *_ in data[400:]])
    assert learn(model, corpus, 600, 64, seed, 0.005) < 0.05
    choosing, judging = (hits(model, part) for part in (data[:200], data[200:400]))
    head = int(choosing.mean(axis=0).argmax())
    assert judging[:, head].mean() >= 0.95


def hits(model: EncoderDecoder, data: list[tuple[list[int], list[int], int, int]]) -> np.ndarray:
    """(N, H): whether each encoder head looks most at the right noun from the pronoun."""
    found = []
    for source, _, pronoun, noun in data:
        ids = torch.tensor([[*source, EOS_ID]])
        with torch.no_grad(), record_attention(model, lambda name: name.stack == "encoder") as maps:
            model.encode(ids, torch.ones_like(ids, dtype=torch.bool))
        ((weights,),) = maps.values()
        found.append((weights[0, :, pronoun].argmax(dim=-1) == noun).numpy())
    return np.stack(found)


def test_heads_of_a_run_are_told(dikkat: Command, trained: Path, tmp_path: Path) -> None:
    code, told, notes = dikkat("heads", trained, "--sentences", "6", "--prune", "2")
    assert code == 0, notes
    for wanted in ("encoder", "decoder", "cross", "entropy"):
        assert wanted in told
    code, turkish, _ = dikkat("heads", trained, "--sentences", "6", "--language", "tr")
    assert code == 0
    assert turkish != told
    assert "AER" not in told
    gold = tmp_path / "gold"
    gold.write_text("0-x\n", encoding="utf-8")
    assert f'{gold}:1: "0-x" is no link' in dikkat.fails(65, "heads", trained, "--gold", gold)
    assert "--prune 99: this model has only" in dikkat.fails(2, "heads", trained, "--prune", "99")
