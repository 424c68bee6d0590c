"""What the classes do beyond their shapes: dropout by its argument, first weights, clipping, losses and pictures."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.optim import optimizer
from torch.utils.data import DataLoader

from dikkat.lessons.classroom import KeyValueStore, load_data_nmt, nyu, show_heatmaps, textbook, train_seq2seq
from dikkat.lessons.classroom.translating import preprocess

ROWS = torch.randn(2, 6, 8)
IDS = torch.randint(2, 20, (2, 6))
D2L = (8, 8, 8, 8, [8], 8, 16, 2)


def textbook_block(p: float) -> Callable[[], Tensor]:
    block = textbook.EncoderBlock(*D2L, p)
    return lambda: block(ROWS, None)


def textbook_decoder_block(p: float) -> Callable[[], Tensor]:
    block = textbook.DecoderBlock(*D2L, p, 0)
    return lambda: block(ROWS, [ROWS, None, [None]])[0]


def textbook_attention(p: float) -> Callable[[], Tensor]:
    part = textbook.MultiHeadAttention(8, 8, 8, 8, 2, p)
    return lambda: part(ROWS, ROWS, ROWS, None)


def positions(p: float) -> Callable[[], Tensor]:
    part = textbook.PositionalEncoding(8, p)
    return lambda: part(ROWS)


def add_norm(p: float) -> Callable[[], Tensor]:
    part = textbook.AddNorm(8, p)
    return lambda: part(ROWS, ROWS.flip(0))


def nyu_attention(p: float) -> Callable[[], Tensor]:
    part = nyu.MultiHeadAttention(8, 2, p)
    return lambda: part(ROWS, ROWS, ROWS)[0]


def nyu_layer(p: float) -> Callable[[], Tensor]:
    part = nyu.EncoderLayer(8, 2, 16, p)
    return lambda: part(ROWS)


def nyu_classifier(p: float) -> Callable[[], Tensor]:
    part = nyu.TransformerClassifier(1, 8, 2, 16, 20, 2, p)
    return lambda: part(IDS)


PARTS = [textbook_block, textbook_decoder_block, textbook_attention, positions, add_norm,
         nyu_attention, nyu_layer, nyu_classifier]  # fmt: skip


@pytest.mark.parametrize("part", PARTS)
def test_a_part_drops_by_the_probability_that_it_is_given(part: Callable[[float], Callable[[], Tensor]]) -> None:
    quiet, loud = part(0.0), part(0.5)
    assert torch.equal(quiet(), quiet())
    assert not torch.equal(loud(), loud())


def test_half_of_the_sums_with_positions_are_dropped_and_the_others_doubled() -> None:
    part = textbook.PositionalEncoding(64, 0.5)
    dropped, whole = part(torch.ones(1, 100, 64)), part.eval()(torch.ones(1, 100, 64))
    zeros = dropped == 0
    assert 0.45 < zeros.double().mean() < 0.55
    torch.testing.assert_close(dropped[~zeros], 2 * whole[~zeros])


def test_attention_of_a_block_drops_weights_too() -> None:
    """Without the dropout of the sums, which the block has as well."""
    block = textbook.EncoderBlock(*D2L, 0.5).block
    for wrapper in (block.self_residual, block.feed_forward_residual):
        wrapper.dropout.probability = 0.0
    assert not torch.equal(block(ROWS), block(ROWS))


def network(words: int) -> textbook.EncoderDecoder:
    sizes = (32, 32, 32, 32, [32], 32, 64, 4, 1, 0.0)
    halves = textbook.TransformerEncoder(words, *sizes), textbook.TransformerDecoder(words, *sizes)
    return textbook.EncoderDecoder(*halves)


def test_the_first_weights_fill_the_range_of_glorot() -> None:
    """Glorot and Bengio 2010, formula 16: evenly between plus and minus √(6 / (inputs + outputs))."""
    data, source, _ = load_data_nmt([("a b a b", "a b a b")], 2, 6)
    net = network(len(source))
    next(train_seq2seq(net, data, 0.0, 1, source))
    for layer in (net.encoder.blks[0].feed_forward.inner, net.decoder.blks[0].feed_forward.outer):
        assert isinstance(layer, nn.Linear)
        bound, largest = math.sqrt(6 / sum(layer.weight.shape)), float(layer.weight.detach().abs().max())
        assert 0.98 * bound < largest <= bound


def test_gradients_are_those_of_one_batch_cut_to_a_norm_of_one() -> None:
    pairs = [("a b a b", "a b a b"), ("a", "b b"), ("b b", "a"), ("b a a b", "b")]
    loader, source, target = load_data_nmt(pairs, 2, 6)
    # the same batches in both epochs
    data = DataLoader(loader.dataset, 2)
    net = network(max(len(source), len(target)))
    with torch.no_grad():
        # so wrong that every gradient is longer than one
        net.decoder.dense.bias.copy_(torch.tensor([100.0, 0, 100, -100, -100, -100]))
    gradients = list[Tensor]()

    def measure(adam: torch.optim.Optimizer, *_: object) -> None:
        own = [p.grad.flatten() for group in adam.param_groups for p in group["params"] if p.grad is not None]
        gradients.append(torch.cat(own))

    handle = optimizer.register_optimizer_step_pre_hook(measure)
    try:
        # nothing is learned, so that both epochs have the same gradients, in any order
        list(train_seq2seq(net, data, 0.0, 2, target))
    finally:
        handle.remove()
    assert [float(gradient.norm()) for gradient in gradients] == pytest.approx([1.0] * 4, abs=1e-4)
    first, second = gradients[:2], gradients[2:]
    assert not torch.allclose(first[0], first[1], atol=1e-3)
    for gradient in second:
        assert any(torch.allclose(gradient, other, atol=1e-5) for other in first)


def test_the_loss_is_the_mean_over_all_words_but_padding() -> None:
    pairs = [("a b", "a"), ("a b a", "a b a b"), ("b", "b a"), ("a", "b b b")]
    data, source, target = load_data_nmt(pairs, 3, 6)
    net = network(max(len(source), len(target)))
    (loss,) = train_seq2seq(net, data, 0.0, 1, target)
    total, words = 0.0, 0
    for X, lens, Y, _ in data:
        begin = torch.full((len(Y), 1), target["<bos>"])
        logits, _ = net(X, torch.cat((begin, Y[:, :-1]), dim=1), lens)
        real = Y.ne(target["<pad>"])
        surprise = -logits.log_softmax(-1).gather(-1, Y[..., None])[..., 0]
        total, words = total + float(surprise[real].sum()), words + int(real.sum())
    assert loss == pytest.approx(total / words, rel=1e-5)


def test_a_word_that_occurs_once_is_not_kept() -> None:
    _, source, target = load_data_nmt([("a b a", "c d"), ("c", "d c d")], 2, 6)
    assert source.idx_to_token[4:] == ["a"]
    assert target.idx_to_token[4:] == ["d", "c"], "the more frequent one first"


def test_a_map_is_drawn_with_a_row_a_query() -> None:
    maps = torch.rand(2, 3, 4, 5)
    figure = show_heatmaps(maps, "Keys", "Queries")
    cells = [axes for axes in figure.axes if axes.get_label() != "<colorbar>"]
    drawn = [torch.tensor(np.asarray(axes.images[0].get_array()).tolist()) for axes in cells]
    assert len(drawn) == 6
    for image, expected in zip(drawn, maps.flatten(0, 1), strict=True):
        torch.testing.assert_close(image, expected)


def test_a_long_review_keeps_its_beginning_and_a_short_one_is_filled_up() -> None:
    batch = nyu.review_batch([[5, 6, 7, 8, 9], [4]], length=3)
    assert batch.tolist() == [[5, 6, 7], [4, nyu.PAD, nyu.PAD]]


def test_titles_are_compared_by_the_cosine_of_their_pairs_of_letters() -> None:
    store = KeyValueStore({"ab": 1, "abab abab": 2, "cd": 3})
    torch.testing.assert_close(store.keys.norm(dim=1), torch.ones(3))
    # " a", "ab" and "b " of one word; " a", "ab", "ba", "ab" and "b " of each of two
    shares = torch.tensor([1.0, 4 / math.sqrt(3 * 7), 0.0]).mul(5).softmax(0)
    assert [item.share for item in store.search("AB")] == pytest.approx(shares.tolist(), abs=1e-6)


def test_words_of_the_book_stand_apart_from_their_signs() -> None:
    assert preprocess("Who,\u202fme?! I\xa0am.") == ["who", ",", "me", "?", "!", "i", "am", "."]
