"""Where attention must look is planted: known alignments, and an antecedent; and `dikkat heads` on a trained run."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.system.test_tasks import learn
from tests.system.toy import Command, toy_sentences

from dikkat.config import ModelConfig
from dikkat.data.batching import collate
from dikkat.data.corpus import Corpus
from dikkat.evaluation.alignment_error import GoldAlignment
from dikkat.explain.head_analysis.alignment_head import Agreements, WordNumbers, choose_alignment_head
from dikkat.explain.head_analysis.importance import HeadName, Quality, gradient_times_input, head_costs, occlusion
from dikkat.models.encoder_decoder import EncoderDecoder
from dikkat.models.factory import build_model
from dikkat.nn.recorder import record_attention
from dikkat.training.translation import batch_loss
from dikkat_runtime.cli import progress
from dikkat_runtime.special_tokens import BOS_ID, EOS_ID


@pytest.fixture(autouse=True)
def _fast(unchecked_shapes: None) -> None:
    """Training: the checks of shapes would cost half of it."""


LENGTH = 6


def aligned(task: str, word: int) -> int:
    """The source word of an output word."""
    return word if task == "copying" else LENGTH - 1 - word


@pytest.mark.nightly
@pytest.mark.parametrize("task", ["copying", "reversing"])
def test_the_chosen_head_and_the_one_missed_most_are_the_known_alignment(task: str) -> None:
    """Two layers with one cross-attention head each: the AER of the one that agrees most, and of the one of worth."""
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
    chosen, errors = chosen_head(model, unseen, GoldAlignment(known, known, "known"))
    assert errors[chosen] < 0.05
    held_out = collate(Corpus.in_memory(unseen), np.arange(len(unseen)))

    def measure() -> Quality:
        with torch.no_grad():
            result = batch_loss(model, held_out, smoothing=0.0)
        return Quality(float(result.likelihood) / result.predictions, score=0.0)

    costs = head_costs(model, measure(), measure)
    cross = {head: cost.loss for head, cost in costs.items() if head.kind == "cross"}
    assert len(cross) == 2
    most = max(cross, key=lambda head: cross[head])
    assert cross[most] > 1.0, "nats a token: without it the model guesses"
    # both may have learned the alignment, and then either is chosen
    assert errors[most] < 0.05


def chosen_head(
    model: EncoderDecoder, pairs: list[tuple[list[int], list[int]]], gold: GoldAlignment
) -> tuple[HeadName, dict[HeadName, float]]:
    """Chosen without gold; the alignment errors of all with it."""
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
    scores = {name: result.scores for name, result in judged.results().items()}
    return choose_alignment_head(blind.results()), {
        name: item.error for name, item in scores.items() if item is not None
    }


NOUNS, KINDS = 30, 3
FIRST_NOUN, FIRST_NAMED, FIRST_PRONOUN, FIRST_FILLER = 60, 160, 40, 50


def sentences(count: int, seed: int) -> list[tuple[list[int], list[int], int, int]]:
    """Two nouns of two kinds and a pronoun that agrees in kind with one of them, among other words.

    The translation repeats every word, but for the pronoun it names the noun. With the place of the pronoun and of its
    noun. A kind has so many nouns that knowing the answer for each noun by heart is harder than looking at it.
    """
    generator = random.Random(seed)
    result: dict[tuple[int, ...], tuple[list[int], int, int]] = {}
    while len(result) < count:
        kinds = generator.sample(range(KINDS), 2)
        meant = generator.randrange(2)
        nouns = [FIRST_NOUN + NOUNS * kind + generator.randrange(NOUNS) for kind in kinds]
        words: list[int] = []
        for word in (*nouns, FIRST_PRONOUN + kinds[meant]):
            words += [FIRST_FILLER + generator.randrange(6) for _ in range(generator.randint(0, 2))] + [word]
        pronoun = len(words) - 1
        target = [*words[:-1], nouns[meant] - FIRST_NOUN + FIRST_NAMED]
        result[tuple(words)] = (target, pronoun, words.index(nouns[meant]))
    return [(list(words), *rest) for words, rest in result.items()]


@pytest.mark.nightly
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
    result = []
    for source, _, pronoun, noun in data:
        ids = torch.tensor([[*source, EOS_ID]])
        with torch.no_grad(), record_attention(model, lambda name: name.stack == "encoder") as maps:
            model.encode(ids, torch.ones_like(ids, dtype=torch.bool))
        ((weights,),) = maps.values()
        result.append((weights[0, :, pronoun].argmax(dim=-1) == noun).numpy())
    return np.stack(result)


def test_heads_of_a_trained_run(
    dikkat: Command, trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The toy language says words backwards, so its alignments are known."""
    pairs = toy_sentences(480)[400:416]
    data, gold = tmp_path / "toy.tsv", tmp_path / "toy.gold"
    data.write_text("".join(f"{source}\t{target}\n" for source, target in pairs), encoding="utf-8")
    lengths = [len(source.split()) for source, _ in pairs]
    lines = [" ".join(f"{length - 1 - index}-{index}" for index in range(length)) for length in lengths]
    gold.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")

    options = ("heads", trained, data, "--gold", gold, "--sentences", "8", "--prune", "3")
    with monkeypatch.context() as patch:
        patch.setattr(progress, "WORK_EVERY", 0.0)
        code, output, notes = dikkat(*options, "--json")
    assert code == 0
    # six heads, and one, two and three of them
    assert re.search(r"^6/6  heads switched off, 0:0\d left$", notes, re.MULTILINE), notes
    assert re.search(r"^3/3  groups of heads switched off", notes, re.MULTILINE), notes
    result = json.loads(output, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert (result["sentences"], result["other_sentences"], len(result["heads"])) == (8, 8, 6)
    chosen = result["alignment_head"]
    (best,) = [item for item in result["heads"] if all(item[key] == chosen[key] for key in chosen)]
    errors = [item["agreement"]["scores"]["error"] for item in result["heads"] if item["agreement"]]
    assert best["agreement"]["scores"]["error"] == min(errors) < 0.6
    assert [len(item["off"]) for item in result["pruned"]] == [1, 2, 3]

    code, output, _ = dikkat(*options, "--language", "tr")
    assert code == 0
    lines = output.split("\n")
    assert lines[0].startswith(f"{trained}: 8 çift; ")
    stacks = [line.partition(",")[0] for line in lines[3:9]]
    assert stacks == ["kodlayıcı öz"] * 2 + ["kodçözücü öz"] * 2 + ["çapraz"] * 2
    assert f"{gold} dosyasına göre AER %" in output
    assert "3 kapalı (son kapatılan: " in output


def test_without_data_the_run_has_its_own(dikkat: Command, trained: Path) -> None:
    code, output, _ = dikkat("heads", trained, "--sentences", "3")
    assert code == 0
    assert output.startswith(f"{trained}: 3 pairs; all heads on: loss ")
    assert "Nearest to an alignment: cross, layer 1, head " in output


class TestBadInput:
    def test_a_language_there_is_not(self, dikkat: Command, trained: Path) -> None:
        assert (
            dikkat.fails(2, "heads", trained, "--language", "de") == 'there are no messages in "de"; choose from en, tr'
        )

    def test_no_such_run(self, dikkat: Command, tmp_path: Path) -> None:
        assert dikkat.fails(66, "heads", tmp_path / "no") == f"{tmp_path / 'no'}: there is no such run directory"

    def test_a_link_that_is_none(self, dikkat: Command, trained: Path, toy_data: Path, tmp_path: Path) -> None:
        gold = tmp_path / "gold"
        gold.write_text("0-0\n0:1\n", encoding="utf-8")
        message = dikkat.fails(65, "heads", trained, toy_data, "--gold", gold)
        assert message.startswith(f'{gold}:2: "0:1" is not a link; write 0-2')

    def test_no_sentences(self, dikkat: Command, trained: Path) -> None:
        assert "--sentences" in dikkat.fails(2, "heads", trained, "--sentences", "0")
