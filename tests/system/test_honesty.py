"""Where attention must look is planted: known alignments, and an antecedent; and `dikkat heads` on a trained run."""

from __future__ import annotations

import json
import random
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.system.test_tasks import learn
from tests.system.toy import Command, toy_sentences

from dikkat.config import ModelConfig
from dikkat.data.corpus import Corpus
from dikkat.evaluation.alignment_error import GoldAlignment
from dikkat.explain.honesty.ablation import HeadName, head_names, without_heads
from dikkat.explain.honesty.alignment_head import Agreements, WordNumbers, choose_alignment_head
from dikkat.explain.honesty.saliency import gradient_times_input, occlusion
from dikkat.models.encoder_decoder import EncoderDecoder
from dikkat.models.factory import build_model
from dikkat.nn.recorder import MapName, record_attention
from dikkat.text.tokenizer import BOS_ID, EOS_ID


@pytest.fixture(autouse=True)
def _fast(unchecked_shapes: None) -> None:
    """Training: the checks of shapes would cost half of it."""


def tiny_model(vocab_size: int, encoder_layers: int, feed_forward_dim: int, seed: int) -> EncoderDecoder:
    config = ModelConfig(
        vocab_size=vocab_size, model_dim=64, num_heads=2, feed_forward_dim=feed_forward_dim,
        encoder_layers=encoder_layers, decoder_layers=1, dropout=0.0,
    )  # fmt: skip
    return build_model(config, seed)


def recorded(model: EncoderDecoder, source: list[int], target: list[int]) -> dict[MapName, np.ndarray]:
    """The maps (H, T, S) of one pair."""
    read, fed = torch.tensor([[*source, EOS_ID]]), torch.tensor([[BOS_ID, *target]])
    with torch.no_grad(), record_attention(model) as maps:
        model(read, fed, torch.ones_like(read, dtype=torch.bool))
    return {name: weights[0].double().numpy() for name, (weights,) in maps.items()}


def loss(model: EncoderDecoder, pairs: list[tuple[list[int], list[int]]]) -> float:
    """Nats a written token."""
    found = []
    for source, target in pairs:
        read, fed = torch.tensor([[*source, EOS_ID]]), torch.tensor([[BOS_ID, *target]])
        with torch.no_grad():
            rows = model(read, fed, torch.ones_like(read, dtype=torch.bool))[0].log_softmax(-1)
        found.append(-rows.gather(1, torch.tensor([*target, EOS_ID])[:, None]))
    return float(torch.cat(found).mean())


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("task", ["copying", "reversing"])
def test_the_alignment_head_aligns_and_is_missed_most(task: str, seed: int) -> None:
    """Four to eight different letters of twenty; the head is chosen without a look at the gold alignment."""
    generator = random.Random(seed)
    words = list(dict.fromkeys(tuple(generator.sample(range(4, 24), generator.randint(4, 8))) for _ in range(2000)))
    step = -1 if task == "reversing" else 1
    pairs = [(list(word), list(word[::step])) for word in words]
    unseen, seen = pairs[:60], pairs[60:]
    model = tiny_model(24, 1, 128, seed)
    learn(model, Corpus.in_memory(seen), 400, 64, seed, 0.005)

    gold = []
    for source, _ in unseen:
        links = frozenset(zip(range(len(source))[::step], range(len(source)), strict=True))
        gold.append(GoldAlignment(links, links, task))
    judged, blind = Agreements(gold), Agreements()
    for source, target in unseen:
        read, written = torch.tensor([*source, EOS_ID]), torch.tensor([BOS_ID, *target, EOS_ID])
        needs = occlusion(model, read, written), gradient_times_input(model, read, written).source
        one_token_words = WordNumbers(tuple(range(len(source))), tuple(range(len(target))))
        weights = recorded(model, source, target)[cross := MapName("decoder", 0, "cross")]
        for agreements in (judged, blind):
            agreements.add(cross, weights, *needs, one_token_words)
    chosen = choose_alignment_head(blind.found())
    scores = judged.found()[chosen].scores
    assert scores is not None
    assert scores.error < 0.05

    whole, lost = loss(model, unseen), {}
    for head in head_names(model):
        if head.kind == "cross":
            with without_heads(model, [head]):
                lost[head] = loss(model, unseen) - whole
    assert whole < 0.05
    assert max(lost, key=lost.__getitem__) == chosen
    assert lost[chosen] > 0.1


GROUPS, MEMBERS, FORMS, PRONOUN = 6, 4, 3, 5
"""Kinds of nouns, nouns of a kind, forms of the pronoun, and its place in every sentence."""


def planted_sentence(generator: random.Random) -> tuple[list[int], list[int], int]:
    """noun verb noun conjunction adverb IT was attribute: ids, their translation, and the place of the antecedent.

    The attribute goes with one kind of noun, and the two nouns are of two kinds. Every word has one translation but the
    pronoun, which has one for each of its forms and each place of a noun among its kind: to know the attribute is not
    enough, and neither is to know the nouns.
    """
    kinds = generator.sample(range(GROUPS), 2)
    members = [generator.randrange(MEMBERS) for _ in kinds]
    which = generator.randrange(2)
    form, (verb, conjunction, adverb, copula) = generator.randrange(FORMS), (generator.randrange(6) for _ in range(4))
    first, second = (10 + MEMBERS * kind + member for kind, member in zip(kinds, members, strict=True))
    attribute = 70 + 3 * kinds[which] + generator.randrange(3)
    source = [first, 40 + verb, second, 46 + conjunction, 52 + adverb, 64 + form, 58 + copula, attribute]
    target = [100 + token for token in source]
    target[PRONOUN] = 200 + MEMBERS * form + members[which]
    return source, target, 2 * which


def antecedents_found(seed: int) -> float:
    """Share of unseen sentences in which "it" looks most at the right noun, in the best head on other sentences."""
    generator = random.Random(seed)
    sentences = list({tuple(each[0]): each for each in (planted_sentence(generator) for _ in range(4000))}.values())
    validation, test, training = sentences[:100], sentences[100:400], sentences[400:]
    model = tiny_model(220, 2, FF, seed)
    model.encoder.blocks[0].self_attention.window = 2  # type: ignore[union-attr]
    model.encoder.blocks[1].self_attention.window = W1
    learn(model, Corpus.in_memory([(source, target) for source, target, _ in training]), 800, 64, seed, 0.005)
    assert loss(model, [(source, target) for source, target, _ in test]) < 0.05

    def right(head: HeadName, part: list[tuple[list[int], list[int], int]]) -> float:
        name = MapName("encoder", head.layer, "self")
        looks = [recorded(model, source, target)[name][head.head, PRONOUN].argmax() for source, target, _ in part]
        return float(np.mean([look == noun for look, (*_, noun) in zip(looks, part, strict=True)]))

    heads = [head for head in head_names(model) if head.stack == "encoder"]
    return right(max(heads, key=lambda head: right(head, validation)), test)


@pytest.mark.slow
def test_it_looks_at_its_antecedent() -> None:
    """The lower encoder layer sees two places to each side, so that "it" sees the attribute there but no noun."""
    assert antecedents_found(seed=1) >= 0.95


def test_heads_of_a_trained_run(dikkat: Command, trained: Path, tmp_path: Path) -> None:
    """The toy language says words backwards, so its alignments are known."""
    pairs = toy_sentences(480)[400:416]
    data, gold = tmp_path / "toy.tsv", tmp_path / "toy.gold"
    data.write_text("".join(f"{source}\t{target}\n" for source, target in pairs), encoding="utf-8")
    lengths = [len(source.split()) for source, _ in pairs]
    lines = [" ".join(f"{length - 1 - place}-{place}" for place in range(length)) for length in lengths]
    gold.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")

    options = ("heads", trained, data, "--gold", gold, "--sentences", "8", "--prune", "3")
    code, output, notes = dikkat(*options, "--json")
    assert code == 0
    assert notes.startswith("1/11  reading the maps\n")
    found = json.loads(output, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert (found["sentences"], found["other_sentences"], len(found["heads"])) == (8, 8, 6)
    chosen = found["alignment_head"]
    (best,) = [each for each in found["heads"] if all(each[key] == chosen[key] for key in chosen)]
    errors = [each["agreement"]["scores"]["error"] for each in found["heads"] if each["agreement"]]
    assert best["agreement"]["scores"]["error"] == min(errors) < 0.6
    assert [len(each["off"]) for each in found["pruned"]] == [1, 2, 3]

    code, output, _ = dikkat(*options, "--language", "tr")
    assert code == 0
    lines = output.split("\n")
    assert lines[0].startswith(f"{trained}: 8 çift; ")
    assert [line[:12].rstrip() for line in lines[3:9]] == ["kodlayıcı öz"] * 2 + ["kodçözücü ö"[:12]] * 2 + [
        "çapraz, katm"
    ] * 2
    assert f"{gold} dosyasına göre AER %" in output
    assert "3 kapalı (son kapatılan: " in output


def test_without_data_the_run_has_its_own(dikkat: Command, trained: Path) -> None:
    code, output, _ = dikkat("heads", trained, "--sentences", "3")
    assert code == 0
    assert output.startswith(f"{trained}: 3 pairs; all heads on: loss ")
    assert "Nearest to an alignment: cross, layer 1, head " in output


class TestBadInput:
    def test_a_language_there_is_not(self, dikkat: Command, trained: Path) -> None:
        assert dikkat.fails(2, "heads", trained, "--language", "de") == 'there is no table in "de"; choose from en, tr'

    def test_no_such_run(self, dikkat: Command, tmp_path: Path) -> None:
        assert dikkat.fails(66, "heads", tmp_path / "no") == f"{tmp_path / 'no'}: there is no such run directory"

    def test_a_link_that_is_none(self, dikkat: Command, trained: Path, toy_data: Path, tmp_path: Path) -> None:
        gold = tmp_path / "gold"
        gold.write_text("0-0\n0:1\n", encoding="utf-8")
        message = dikkat.fails(65, "heads", trained, toy_data, "--gold", gold)
        assert message.startswith(f'{gold}:2: "0:1" is no link; write 0-2')

    def test_no_sentences(self, dikkat: Command, trained: Path) -> None:
        assert "--sentences" in dikkat.fails(2, "heads", trained, "--sentences", "0")
