"""Rows E13 to E17 of seed 004: the maps of the textbook's model, as the padded tensors that it draws."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from matplotlib.figure import Figure
from PIL import Image
from torch import Tensor

from dikkat import Translator, translator_of
from dikkat.config import TokenizerConfig, build_config, merge, preset
from dikkat.explain import plots
from dikkat.explain.attention_map import AttentionMap, Kind, SentenceMaps, Stack
from dikkat.explain.pictures import save_figure
from dikkat.explain.plots import plot_heads
from dikkat.models.factory import build_model
from dikkat.nn.recorder import MapName, record_attention
from dikkat.tasks.translation.attention import Attending
from dikkat_runtime.special_tokens import BOS_ID, EOS_ID, PAD_ID
from dikkat_runtime.text.tokenizer import Tokenizer

SOURCE, TARGET = "i'm home .", "je suis chez moi ."
STEPS, LAYERS, HEADS = 10, 2, 4
READS = ("i'm", "home", ".", "<eos>")
WRITES = ("<bos>", "je", "suis", "chez", "moi", ".")


@pytest.fixture(scope="module")
def translator() -> Translator:
    """The textbook's model with its words; the rows are about shapes and zeros, which training does not change."""
    tokenizer = Tokenizer.train([SOURCE], TokenizerConfig(kind="words", min_frequency=1), target_texts=[TARGET])
    config = build_config(merge(preset("d2l"), {"model": {"vocab_size": tokenizer.vocab_size}}))
    return translator_of(build_model(config.model, seed=1), tokenizer, config)


@pytest.fixture(scope="module")
def padded(translator: Translator) -> dict[MapName, Tensor]:
    """The maps of a batch of ten source tokens, the second sentence longer than the first."""
    source = torch.tensor(
        [[*translator.encode(SOURCE), EOS_ID] + [PAD_ID] * 6, [4, 5, 6, 4, 5, 6, EOS_ID] + [PAD_ID] * 3]
    )
    target = torch.tensor([[BOS_ID, *translator.tokenizer.encode(TARGET)], [BOS_ID, 7, 8, 9, 7, 8]])
    with torch.inference_mode(), record_attention(translator.model) as maps:
        translator.model(source, target, source != PAD_ID)
    return {name: weights for name, (weights,) in maps.items()}


def stacked(padded: dict[MapName, Tensor], stack: Stack, kind: Kind, sentence: int = 0) -> Tensor:
    """(layers, heads, T, S) of one sentence."""
    return torch.stack([padded[MapName(stack, layer, kind)][sentence] for layer in range(LAYERS)])


def assembled(found: SentenceMaps, stack: Stack, kind: Kind) -> Tensor:
    """The same from the maps of one sentence alone, filled with zeros to ten keys."""
    maps = found.select(stack, kind)
    whole = torch.zeros(LAYERS, HEADS, len(maps[0].query_tokens), STEPS)
    for item in maps:
        assert item.head is not None
        whole[item.layer, item.head, :, : item.weights.shape[1]] = torch.from_numpy(item.weights)
    return whole


@pytest.mark.seed("E13")
def test_encoder_weights_are_one_tensor(translator: Translator, padded: dict[MapName, Tensor]) -> None:
    weights = stacked(padded, "encoder", "self")
    assert weights.shape == (2, 4, 10, 10)
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 4, 10), rtol=0, atol=1e-5)
    own = assembled(Attending(translator).forced(SOURCE, TARGET), "encoder", "self")
    assert own.shape == (2, 4, 4, 10)
    torch.testing.assert_close(own, weights[:, :, :4], rtol=0, atol=1e-5)


@pytest.mark.seed("E14")
def test_padding_is_never_attended_to_and_the_heat_maps_are_the_books(
    padded: dict[MapName, Tensor], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for sentence, length in ((0, 4), (1, 7)):
        weights = stacked(padded, "encoder", "self", sentence)
        assert (weights[..., length:] == 0).all()
        assert (weights[..., :length] > 0).all()
    tokens = (*READS, *["<pad>"] * 6)
    maps = [
        AttentionMap(item.numpy(), tokens, tokens, "encoder", layer, head, "self")
        for layer, heads in enumerate(stacked(padded, "encoder", "self"))
        for head, item in enumerate(heads)
    ]
    drawn: list[Figure] = []

    def keep(figure: Figure, path: Path) -> None:
        drawn.append(figure)
        save_figure(figure, path)

    monkeypatch.setattr(plots, "save_figure", keep)
    plot_heads(maps, tmp_path / "heads.png", inches=(7, 3.5))
    (figure,) = drawn
    assert figure.get_size_inches().tolist() == [7, 3.5]
    with Image.open(tmp_path / "heads.png") as image:
        assert image.size == (1050, 525)
    panels = [axes for axes in figure.axes if axes.images]
    assert [axes.get_title().split("\n")[-1] for axes in panels] == [f"Head {head}" for head in (1, 2, 3, 4)] * 2
    assert {axes.images[0].get_cmap().name for axes in panels} == {"Reds"}
    # white is 0, so padding is white
    assert {axes.images[0].get_clim()[0] for axes in panels} == {0.0}
    assert figure.get_supxlabel() == "key: attended to"
    assert figure.get_supylabel() == "query: attending"


@pytest.mark.seed("E15")
def test_decoder_weights_filled_with_zeros(translator: Translator, padded: dict[MapName, Tensor]) -> None:
    result = Attending(translator).forced(SOURCE, TARGET)
    own, cross = assembled(result, "decoder", "self"), assembled(result, "decoder", "cross")
    assert own.shape == cross.shape == (2, 4, 6, 10)
    torch.testing.assert_close(own[..., :6], stacked(padded, "decoder", "self"), rtol=0, atol=1e-5)
    torch.testing.assert_close(cross, stacked(padded, "decoder", "cross"), rtol=0, atol=1e-5)


@pytest.mark.seed("E16")
def test_decoder_rows_start_at_bos_and_see_nothing_later(translator: Translator) -> None:
    result = Attending(translator).forced(SOURCE, TARGET)
    weights = assembled(result, "decoder", "self")
    assert (weights.triu(1) == 0).all()
    assert (weights[..., :6].tril() > 0).sum() == 2 * 4 * 21
    for item in result.select("decoder", "self"):
        assert item.query_tokens == item.key_tokens == WRITES


@pytest.mark.seed("E17")
def test_no_weight_on_source_padding(translator: Translator, padded: dict[MapName, Tensor]) -> None:
    for sentence, length in ((0, 4), (1, 7)):
        weights = stacked(padded, "decoder", "cross", sentence)
        assert weights.shape == (2, 4, 6, 10)
        assert (weights[..., length:] == 0).all()
        torch.testing.assert_close(weights[..., :length].sum(-1), torch.ones(2, 4, 6), rtol=0, atol=1e-5)
    for item in Attending(translator).forced(SOURCE, TARGET).select("decoder", "cross"):
        assert (item.query_tokens, item.key_tokens) == (WRITES, READS)


@pytest.mark.seed("E17")
def test_a_picture_of_cross_attention_names_rows_by_what_they_wrote(
    translator: Translator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[Figure] = []
    monkeypatch.setattr(plots, "save_figure", lambda figure, path: drawn.append(figure))
    result = Attending(translator).forced(SOURCE, TARGET)
    plot_heads(result.select("decoder", "cross", 1), tmp_path / "cross.png")
    plot_heads(result.select("decoder", "self", 1), tmp_path / "self.png")
    cross, own = ([label.get_text() for label in figure.axes[0].get_yticklabels()] for figure in drawn)
    assert cross == [*WRITES[1:], "<eos>"]
    assert drawn[0].get_supylabel() == "query: attending, to write this"
    # what is attended to here are the tokens that were read, so both axes carry them
    assert own == list(WRITES)
