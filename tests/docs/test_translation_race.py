"""The race of two translators: the recurrent one computes what it should, and both learn the same few pairs."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from benchmarks.translation_race import (
    Look,
    Race,
    Racer,
    RaceSettings,
    RecurrentTranslator,
    TranslatorCell,
    count_parameters,
    race,
    recurrent_translator,
    time_rows,
)

from dikkat.torch_engine.strategies import greedy
from dikkat_runtime.engine.options import DecodingOptions

SOURCE = torch.tensor([[5, 6, 7, 2], [8, 2, 0, 0]])
MASK = SOURCE != 0
TARGET = torch.tensor([[1, 9, 10, 11, 12], [1, 9, 4, 4, 6]])


def model(cell: TranslatorCell) -> RecurrentTranslator:
    torch.manual_seed(3)
    return RecurrentTranslator(20, 8, 12, cell, dropout=0.1).eval()


@pytest.mark.parametrize("cell", ["gru", "lstm"])
def test_steps_are_teacher_forcing(cell: TranslatorCell) -> None:
    net = model(cell)
    with torch.inference_mode():
        hidden = net.decode(TARGET, net.encode(SOURCE, MASK), MASK)
        wanted = hidden @ net.output_weight.T + net.output_bias
        cache = net.start_cache(net.encode(SOURCE, MASK), MASK)
        steps = [net.step(TARGET[:, t], cache) for t in range(TARGET.shape[1])]
    torch.testing.assert_close(torch.stack(steps, dim=1), wanted, atol=1e-6, rtol=1e-5)
    # the source is read: another one gives other logits
    with torch.inference_mode():
        other = net.decode(TARGET, net.encode(SOURCE.roll(1, 0), MASK.roll(1, 0)), MASK.roll(1, 0))
    assert (other - hidden).abs().max() > 1e-3


@pytest.mark.parametrize("cell", ["gru", "lstm"])
def test_padding_and_the_rest_of_the_batch_change_nothing(cell: TranslatorCell) -> None:
    net = model(cell)
    with torch.inference_mode():
        both = net.decode(TARGET, net.encode(SOURCE, MASK), MASK)[1]
        short = SOURCE[1:, :2]
        alone = net.decode(TARGET[1:], net.encode(short, short != 0), short != 0)[0]
    torch.testing.assert_close(both, alone, atol=1e-6, rtol=1e-5)


def test_attention_is_the_weighted_sum_of_luong_et_al() -> None:
    net = model("gru")
    with torch.inference_mode():
        memory = net.encode(SOURCE, MASK).double()
        states = net.decoder(net.embedding(TARGET), net._start)[0].double()
        row, real = states[1, 2], memory[1, :2]
        weights = torch.softmax(real @ (net.score.weight.double() @ row), dim=0)
        wanted = torch.tanh(net.joined.weight.double() @ torch.cat((weights @ real, row)) + net.joined.bias.double())
        ours = net.decode(TARGET, net.encode(SOURCE, MASK), MASK)[1, 2].double()
    torch.testing.assert_close(ours, wanted, atol=1e-5, rtol=1e-4)


def test_greedy_decoding_drops_what_has_ended_and_keeps_the_others() -> None:
    net = model("lstm")
    options = DecodingOptions(scores=False, max_length_factor=1.0, max_length_offset=4)
    together = [hypothesis.tokens for hypothesis in greedy(net, SOURCE, MASK, options)]
    alone = [greedy(net, SOURCE[r : r + 1, :n], MASK[r : r + 1, :n], options)[0].tokens for r, n in ((0, 4), (1, 2))]
    assert together == alone


@pytest.mark.parametrize("cell", ["gru", "lstm"])
@pytest.mark.parametrize("parameters", [50_000, 900_000])
def test_the_size_is_the_one_asked_for(cell: TranslatorCell, parameters: int) -> None:
    built = recurrent_translator(parameters, 300, 64, cell, 0.1, seed=1)
    assert count_parameters(built) == pytest.approx(parameters, rel=0.03)


def test_times_are_those_of_the_first_look_that_scored_as_much() -> None:
    first = Racer("Transformer", 10, 1000.0, (Look(10, 1.0, 20.0), Look(20, 2.0, 55.0), Look(30, 3.0, 52.0)))
    second = Racer("GRU", 11, 500.0, (Look(10, 4.0, 10.0), Look(20, 8.0, 31.0)))
    both = Race("x.tsv", 5, 2, 64, 300, 0, (first, second))
    assert [first.seconds_to(mark) for mark in (30.0, 55.0, 56.0)] == [2.0, 2.0, None]
    # 8.0 / 2.0; nobody reached 70
    assert time_rows(both) == [("30", "2.0", "8.0", "4.0"), ("50", "2.0", "–", "–")]
    assert both.as_dict()["seconds_to_chrf"]["30"] == [2.0, 8.0]  # type: ignore[index]


# a race of a benchmark takes seconds; its parts are tested by day
@pytest.mark.nightly
def test_both_learn_a_language_of_two_dozen_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    enough = 60.0
    ones, twos = ["ada", "bora", "cem", "deniz", "eda", "fuat"], ["runs", "sleeps", "reads", "sings", "eats", "waits"]
    lines = [f"{one} {two} {where}\t{where.upper()} {one.upper()} {two.upper()}"
             for one in ones for two in twos for where in ("here", "there", "now", "today", "again")]  # fmt: skip
    path = tmp_path / "pairs.tsv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    result = race(
        RaceSettings((str(path),), held_out=20, enough=enough, updates=120, every=20),
    )
    transformer, recurrent = result.racers
    assert abs(transformer.parameters - recurrent.parameters) / transformer.parameters < 0.02
    assert min(transformer.best, recurrent.best) > enough
    names = {line.partition(":")[0] for line in capsys.readouterr().err.splitlines()}
    assert names == {"Transformer", "GRU"}
    for racer in result.racers:
        assert [look.seconds for look in racer.looks] == sorted(look.seconds for look in racer.looks)
