"""The book's helpers around its translator: vocabulary, data, training, writing a translation, its score and maps."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from dikkat.explain.pictures import new_figure
from dikkat.lessons.classroom.textbook import EncoderDecoder

if TYPE_CHECKING:
    from matplotlib.figure import Figure


# The book's pictures: heat maps of attention weights, and the columns of the positions.


def show_heatmaps(
    matrices: Tensor,
    xlabel: str,
    ylabel: str,
    titles: Sequence[str] | None = None,
    figsize: tuple[float, float] = (2.5, 2.5),
    cmap: str = "Reds",
) -> Figure:
    """Draw a grid of heat maps of (rows, columns, queries, keys).

    Each map has its own colour scale, as in the book's helper. Show it by naming it at the end of a notebook's cell,
    keep it with `.savefig("maps.png")`. Raises `ValueError` for matrices of another number of dimensions.
    """
    if matrices.dim() != 4:
        raise ValueError(f"matrices must be (rows, columns, queries, keys), but have {matrices.dim()} dimensions")
    figure = new_figure(figsize)
    rows, columns = matrices.shape[:2]
    cells: Any = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    image: Any = None
    for row, column in np.ndindex(rows, columns):
        axes = cells[row, column]
        image = axes.imshow(matrices[row, column].detach().cpu().float().numpy(), cmap=cmap)
        if row == rows - 1:
            axes.set_xlabel(xlabel)
        if column == 0:
            axes.set_ylabel(ylabel)
        if titles:
            axes.set_title(titles[column])
    figure.colorbar(image, ax=cells, shrink=0.6)
    return figure


def plot_positions(P: Tensor, columns: Sequence[int] = (6, 7, 8, 9), figsize: tuple[float, float] = (6, 2.5)) -> Figure:
    """Some columns of the table P (1, positions, num_hiddens) over the positions."""
    figure = new_figure(figsize)
    axes = figure.subplots()
    for column in columns:
        axes.plot(P[0, :, column].detach().cpu().numpy(), label=f"Col {column}")
    axes.set_xlabel("Row (position)")
    axes.legend()
    return figure


RESERVED = ("<unk>", "<pad>", "<bos>", "<eos>")
Maps = list[list[Tensor]]
"""Of one written word: self-attention and attention to the encoder, a tensor (num_heads, 1, keys) of each layer."""
Batches = DataLoader[tuple[Tensor, ...]]
"""Batches of source ids, their valid lengths, target ids, their valid lengths; drawn anew by each loop over them."""


class Vocab:
    """Words by number: first the four reserved ones, then by falling frequency, equals in the order of the text."""

    def __init__(self, tokens: Iterable[str] = (), min_freq: int = 0) -> None:
        counts = Counter(tokens)
        known = [token for token, count in counts.most_common() if count >= min_freq and token not in RESERVED]
        self.idx_to_token = [*RESERVED, *known]
        self.token_to_idx = {token: index for index, token in enumerate(self.idx_to_token)}

    def __len__(self) -> int:
        return len(self.idx_to_token)

    def __getitem__(self, token: str) -> int:
        return self.token_to_idx.get(token, 0)

    def padded(self, tokens: Sequence[str], num_steps: int) -> list[int]:
        """Ids of the tokens, cut so that `<eos>` stays (fault F40), filled up with `<pad>`."""
        ids = [*map(self.__getitem__, tokens[: num_steps - 1]), self["<eos>"]]
        return ids + [self["<pad>"]] * (num_steps - len(ids))

    def to_tokens(self, ids: Iterable[int]) -> list[str]:
        """Return the tokens of `ids`."""
        return [self.idx_to_token[index] for index in ids]


def preprocess(text: str) -> list[str]:
    """The book's words: lower case, no-break spaces as spaces, a space before each of `,.!?`."""
    text = text.replace("\u202f", " ").replace("\xa0", " ").lower()
    return re.sub(r"(?<=\S)([,.!?])", r" \1", text).split()


def load_data_nmt(
    pairs: Iterable[tuple[str, str]], batch_size: int, num_steps: int, num_examples: int = 600, seed: int = 0
) -> tuple[Batches, Vocab, Vocab]:
    """Return batches of the first `num_examples` pairs, and a vocabulary of each side with the words that occur twice.

    A batch holds ids (batch_size, num_steps) and their numbers (batch_size,) for each side. As in the book, each epoch
    puts other pairs together; the orders follow from `seed` alone. Raises `ValueError` without pairs.
    """
    token_rows = zip(
        *((preprocess(source), preprocess(target)) for source, target in islice(pairs, num_examples)), strict=True
    )
    vocabs, columns = [], []
    for texts in token_rows:
        vocab = Vocab((token for text in texts for token in text), min_freq=2)
        ids = torch.tensor([vocab.padded(text, num_steps) for text in texts])
        vocabs.append(vocab)
        columns += [ids, (ids != vocab["<pad>"]).sum(dim=1)]
    if not columns:
        raise ValueError("there are no pairs to learn from")
    order = torch.Generator().manual_seed(seed)
    batches = DataLoader(TensorDataset(*columns), batch_size, shuffle=True, generator=order)
    return batches, vocabs[0], vocabs[1]


def train_seq2seq(
    net: EncoderDecoder, data_iter: Batches, lr: float, num_epochs: int, tgt_vocab: Vocab
) -> Iterator[float]:
    """Train by Adam with teacher forcing; yields the loss of each epoch, per token that is not padding (fault F40)."""
    for part in net.modules():
        if isinstance(part, nn.Linear):
            nn.init.xavier_uniform_(part.weight)
    optimizer = torch.optim.Adam(net.parameters(), lr=lr)
    pad = tgt_vocab["<pad>"]
    for _ in range(num_epochs):
        net.train()
        total, words = 0.0, 0
        for X, X_valid_len, Y, Y_valid_len in data_iter:
            dec_X = F.pad(Y[:, :-1], (1, 0), value=tgt_vocab["<bos>"])
            logits, _ = net(X, dec_X, X_valid_len)
            loss = F.cross_entropy(logits.flatten(0, 1), Y.flatten(), ignore_index=pad)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            optimizer.step()
            count = int(Y_valid_len.sum())
            total, words = total + loss.item() * count, words + count
        yield total / words


@torch.no_grad()
def predict_seq2seq(
    net: EncoderDecoder,
    src_sentence: str,
    src_vocab: Vocab,
    tgt_vocab: Vocab,
    num_steps: int,
    save_attention_weights: bool = False,
) -> tuple[str, list[Maps]]:
    """A translation, word by word, each at its own position (fault F35), and the weights it was written with."""
    net.eval()
    enc_X = torch.tensor([src_vocab.padded(src_sentence.lower().split(), num_steps)])
    valid_len = (enc_X != src_vocab["<pad>"]).sum(dim=1)
    state = net.decoder.init_state(net.encoder(enc_X, valid_len), valid_len)
    token, output, weights = tgt_vocab["<bos>"], [], []
    for _ in range(num_steps):
        logits, state = net.decoder(torch.tensor([[token]]), state)
        if save_attention_weights:
            weights.append(net.decoder.attention_weights)
        token = int(logits.argmax(dim=2))
        if token == tgt_vocab["<eos>"]:
            break
        output.append(token)
    return " ".join(tgt_vocab.to_tokens(output)), weights


def encoder_attention_weights(net: EncoderDecoder, num_layers: int, num_heads: int) -> Tensor:
    """Return the weights (num_layers, num_heads, num_steps, num_steps) of the sentence that was read last."""
    whole = torch.cat(net.encoder.attention_weights)
    return whole.reshape(num_layers, num_heads, -1, whole.shape[-1])


def decoder_attention_weights(sequence: Sequence[Maps], num_steps: int) -> tuple[Tensor, Tensor]:
    """Self-attention and attention to the encoder, each (num_layers, num_heads, words, num_steps), zeros to the end."""
    weights = []
    for kind in range(2):
        steps = [
            torch.stack([F.pad(layer, (0, num_steps - layer.shape[-1])) for layer in step[kind]]) for step in sequence
        ]
        # (num_layers, num_heads, 1, num_steps) a word
        weights.append(torch.cat(steps, dim=2))
    return weights[0], weights[1]
