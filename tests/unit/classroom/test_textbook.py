"""The textbook's classes with the arguments, shapes and numbers of its sections 11.5 to 11.7."""

from __future__ import annotations

import pytest
import torch

from dikkat.lessons.classroom import (
    Vocab,
    bleu,
    decoder_attention_weights,
    encoder_attention_weights,
    load_data_nmt,
    plot_positions,
    predict_seq2seq,
    show_heatmaps,
    textbook,
    train_seq2seq,
)
from dikkat.nn import SinusoidalPositions, valid_length_mask
from dikkat.nn.multi_head_attention import MultiHeadAttention

LENS = torch.tensor([3, 2])
BLOCK = (24, 24, 24, 24, [100, 24], 24, 48, 8, 0.5)
STACK = (24, 24, 24, 24, [100, 24], 24, 48, 8, 2, 0.5)


@pytest.mark.seed("C1")
def test_five_heads_over_valid_lengths() -> None:
    part = textbook.MultiHeadAttention(100, 100, 100, 100, 5, 0.5).eval()
    X = torch.ones(2, 4, 100)
    assert part(X, X, X, LENS).shape == (2, 4, 100)
    assert part.attention_weights.shape == (10, 4, 4)
    assert not part.attention_weights[:5, :, 3:].any()
    assert not part.attention_weights[5:, :, 2:].any()
    per_query = torch.tensor([[1, 2, 3, 4], [4, 3, 2, 1]])
    part(X, X, X, per_query)
    assert (part.attention_weights > 0).sum(-1).view(2, 5, 4)[:, 0].tolist() == per_query.tolist()


def test_attention_of_the_textbook_is_ours_with_the_same_weights() -> None:
    theirs, ours = textbook.MultiHeadAttention(8, 8, 8, 8, 2, 0.0), MultiHeadAttention(8, 2, bias=False)
    ours.load_state_dict(theirs.attention.state_dict())
    X = torch.randn(2, 4, 8)
    assert torch.equal(theirs(X, X, X, LENS), ours(X, X, X, valid_length_mask(LENS, 4)))


@pytest.mark.seed("C3", "C4")
def test_positions_and_their_table() -> None:
    part = textbook.PositionalEncoding(32, 0.0).eval()
    X = part(torch.zeros(1, 60, 32))
    assert part.P[:, : X.shape[1], :].shape == (1, 60, 32)
    assert torch.equal(X, SinusoidalPositions(32)(torch.zeros(1, 60, 32)))
    torch.testing.assert_close(X[0, 1, 6:10], torch.tensor([0.1769, 0.9842, 0.0998, 0.9950]), rtol=0, atol=5e-5)
    assert textbook.PositionalEncoding(33, 0.0, max_len=10)(torch.zeros(1, 12, 33)).shape == (1, 12, 33), "fault F27"


@pytest.mark.seed("E2")
def test_three_identical_rows() -> None:
    part = textbook.PositionWiseFFN(4, 4, 8)
    rows = part(torch.ones(2, 3, 4))[0]
    assert rows.shape == (3, 8)
    assert torch.equal(rows, rows[:1].expand(3, 8))
    inner, outer = part.ffn.inner, part.ffn.outer
    expected = (torch.ones(4) @ inner.weight.T + inner.bias).clamp(min=0) @ outer.weight.T + outer.bias
    torch.testing.assert_close(rows[0], expected)


@pytest.mark.seed("E4")
def test_add_and_norm_over_features_alone() -> None:
    part = textbook.AddNorm([3, 4], 0.5).eval()
    X, Y = torch.randn(2, 3, 4), torch.randn(2, 3, 4)
    torch.testing.assert_close(part(X, Y), torch.nn.functional.layer_norm(X + Y, (4,)))
    with pytest.raises(ValueError, match="a residual sum needs equal shapes"):
        part(X, Y[:, :2])


@pytest.mark.seed("E5", "E6", "E8")
def test_shapes_and_size() -> None:
    X, tokens = torch.ones(2, 100, 24), torch.ones(2, 100, dtype=torch.int64)
    block, encoder = textbook.EncoderBlock(*BLOCK).eval(), textbook.TransformerEncoder(200, *STACK).eval()
    assert block(X, LENS).shape == (2, 100, 24)
    assert sum(parameter.numel() for parameter in block.parameters()) == 4_776
    assert encoder(tokens, LENS).shape == (2, 100, 24)
    assert [tuple(weights.shape) for weights in encoder.attention_weights] == [(16, 100, 100)] * 2
    encoder(tokens, LENS)
    assert len(encoder.attention_weights) == 2, "those of the last call"
    decoder = textbook.DecoderBlock(*BLOCK, 0).eval()
    assert decoder(X, [block(X, LENS), LENS, [None]])[0].shape == (2, 100, 24)


def test_widths_that_cannot_be_summed_are_refused() -> None:
    with pytest.raises(ValueError, match="every width of a block must be num_hiddens = 24, not 12"):
        textbook.EncoderBlock(24, 12, 24, 24, [24], 24, 48, 8, 0.5)


def small(source: int = 11, target: int = 13) -> textbook.EncoderDecoder:
    sizes = (32, 32, 32, 32, [32], 32, 64, 4, 2, 0.0)
    halves = textbook.TransformerEncoder(source, *sizes), textbook.TransformerDecoder(target, *sizes)
    return textbook.EncoderDecoder(*halves)


@pytest.mark.seed("E7", "F35", "F36")
@pytest.mark.parametrize("training", [True, False])
def test_word_by_word_is_teacher_forcing_at_every_position(training: bool) -> None:
    net = small().train(training)
    source, target, lens = torch.randint(0, 11, (2, 6)), torch.randint(0, 13, (2, 7)), torch.tensor([6, 2])
    whole, _ = net(source, target, lens)
    state = net.decoder.init_state(net.encoder(source, lens), lens)
    steps = torch.cat([net.decoder(target[:, step : step + 1], state)[0] for step in range(7)], dim=1)
    torch.testing.assert_close(steps, whole, rtol=0, atol=1e-5)
    gradients = [torch.autograd.grad(logits.sin().sum(), net.encoder.embedding.weight) for logits in (steps, whole)]
    torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-4)


@pytest.mark.seed("E16", "E17")
@pytest.mark.parametrize("training", [True, False])
def test_a_whole_target_sees_neither_what_follows_nor_the_padding_of_the_source(training: bool) -> None:
    net = small().train(training)
    net(torch.randint(0, 11, (2, 6)), torch.randint(0, 13, (2, 7)), torch.tensor([6, 2]))
    own, inter = (torch.stack(maps).view(2, 2, 4, 7, -1) for maps in net.decoder.attention_weights)
    assert not own.triu(1).any()
    assert (own.tril() > 0).sum() == 2 * 2 * 4 * 28
    assert not inter[:, 1, ..., 2:].any()
    assert (inter[:, 0] > 0).all()


ENGLISH = ["go .", "i lost .", "he's calm .", "i'm home ."]
FRENCH = ["va !", "j'ai perdu .", "il est calme .", "je suis chez moi ."]


@pytest.fixture(scope="module")
def trained() -> tuple[textbook.EncoderDecoder, Vocab, Vocab, list[float]]:
    torch.manual_seed(0)
    data, source, target = load_data_nmt([*zip(ENGLISH, FRENCH, strict=True)] * 2, 64, 10)
    net = small(len(source), len(target))
    return net, source, target, list(train_seq2seq(net, data, 0.01, 30, target))


Trained = tuple[textbook.EncoderDecoder, Vocab, Vocab, list[float]]


@pytest.mark.seed("E11")
def test_four_sentences_are_learned_and_scored(trained: Trained) -> None:
    net, source, target, losses = trained
    assert losses[-1] < 0.05 < losses[0]
    for english, french in zip(ENGLISH, FRENCH, strict=True):
        translation, _ = predict_seq2seq(net, english, source, target, 10)
        assert bleu(translation, french, k=2) == 1.0


@pytest.mark.seed("E13", "E15", "E16", "E17")
def test_maps_of_the_last_sentence(trained: Trained) -> None:
    net, source, target, _ = trained
    translation, sequence = predict_seq2seq(net, ENGLISH[-1], source, target, 10, True)
    read = encoder_attention_weights(net, 2, 4)
    assert read.shape == (2, 4, 10, 10)
    assert not read[..., 4:].any(), "i'm home . <eos>"
    own, inter = decoder_attention_weights(sequence, 10)
    assert own.shape == inter.shape == (2, 4, len(translation.split()) + 1, 10) == (2, 4, 6, 10)
    assert not own.triu(1).any()
    assert not inter[..., 4:].any()
    for maps in (read, own, inter):
        torch.testing.assert_close(maps.sum(-1), torch.ones(maps.shape[:-1]))


@pytest.mark.seed("E14")
def test_a_grid_of_heat_maps_with_the_book_s_labels(trained: Trained) -> None:
    titles = [f"Head {head}" for head in range(1, 5)]
    figure = show_heatmaps(
        torch.rand(2, 4, 10, 10), "Key positions", "Query positions", titles=titles, figsize=(7, 3.5)
    )
    cells = [axes for axes in figure.axes if axes.get_label() != "<colorbar>"]
    assert [axes.get_title() for axes in cells[:4]] == titles
    assert [axes.get_xlabel() for axes in cells] == [""] * 4 + ["Key positions"] * 4
    assert [bool(axes.get_ylabel()) for axes in cells] == [True, False, False, False] * 2
    assert cells[0].images[0].get_cmap().name == "Reds"
    assert figure.get_size_inches().tolist() == [7, 3.5]
    with pytest.raises(ValueError, match=r"matrices must be \(rows, columns, queries, keys\), but have 2 dimensions"):
        show_heatmaps(torch.rand(2, 2), "", "")


@pytest.mark.seed("C5")
def test_columns_of_the_positions_are_drawn() -> None:
    part = textbook.PositionalEncoding(32, 0.0)
    axes = plot_positions(part.P[:, :60]).axes[0]
    legend = axes.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["Col 6", "Col 7", "Col 8", "Col 9"]
    assert axes.get_xlabel() == "Row (position)"
    drawn = torch.tensor(axes.lines[1].get_ydata())
    torch.testing.assert_close(drawn, part.P[0, :60, 7])


@pytest.mark.seed("E10")
def test_words_and_batches_are_those_of_the_book() -> None:
    pairs = [("Go.", "Va !"), ("Go!", "Va\xa0!"), *[("Stop it now, please.", "x")] * 2, ("never", "jamais")]
    data, source, target = load_data_nmt(pairs, 3, 5, num_examples=4)
    assert source.idx_to_token[:4] == ["<unk>", "<pad>", "<bos>", "<eos>"]
    assert "never" not in source.token_to_idx
    assert [len(batch[0]) for batch in data] == [3, 1]
    columns = [torch.cat(column).tolist() for column in zip(*data, strict=True)]
    rows = [
        (" ".join(source.to_tokens(X)), length, " ".join(target.to_tokens(Y)), target_length)
        for X, length, Y, target_length in zip(*columns, strict=True)
    ]
    assert sorted(rows) == [
        ("go . <eos> <pad> <pad>", 3, "va ! <eos> <pad> <pad>", 3),
        ("go <unk> <eos> <pad> <pad>", 3, "va ! <eos> <pad> <pad>", 3),
        *[("stop it now , <eos>", 5, "x <eos> <pad> <pad> <pad>", 2)] * 2,  # cut, and ended all the same
    ]
    with pytest.raises(ValueError, match="there are no pairs to learn from"):
        load_data_nmt([], 3, 5)


def test_each_epoch_puts_other_pairs_together_and_a_seed_repeats_them() -> None:
    letters = "abcdefghijkl"

    def epochs(seed: int) -> list[list[str]]:
        data, source, _ = load_data_nmt([(letter, letter) for letter in letters] * 2, 4, 2, seed=seed)
        assert len(data) == 6
        return [["".join(source.to_tokens(X[:, 0].tolist())) for X, *_ in data] for _ in range(3)]

    for order in (first := epochs(0)):
        assert sorted("".join(order)) == sorted(letters * 2), "each pair once an epoch"
    together = [frozenset(map(frozenset, order)) for order in first]
    assert len(set(together)) == 3, "not the same batches in another order"
    torch.rand(7)
    assert epochs(0) == first
    assert epochs(1) != first


def test_one_sentence_without_a_batch_axis_takes_a_valid_length() -> None:
    part = textbook.MultiHeadAttention(8, 8, 8, 8, 2, 0.0).eval()
    X = torch.randn(4, 8)
    torch.testing.assert_close(part(X, X, X, torch.tensor([3])), part(X[None], X[None], X[None], torch.tensor([3]))[0])


def test_a_word_that_was_not_kept_is_unknown() -> None:
    vocab = Vocab(["b", "a", "b", "c"], min_freq=2)
    assert len(vocab) == 5
    assert (vocab["b"], vocab["a"]) == (4, 0)
