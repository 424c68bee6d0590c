"""Training of a tiny encoder-decoder by nothing but PyTorch's Adam, for demonstrations that need a trained one."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from dikkat.config import ModelConfig
from dikkat.models.encoder_decoder import EncoderDecoder
from dikkat.models.factory import build_model
from dikkat_runtime.special_tokens import BOS_ID, EOS_ID, PAD_ID


def tiny_model(vocab_size: int, seed: int, *, width: int = 32, dropout: float = 0.1) -> EncoderDecoder:
    """One block a side, one head each, so that there is one map to look at and no second place to look."""
    config = ModelConfig(
        vocab_size=vocab_size, model_dim=width, num_heads=1, feed_forward_dim=2 * width, encoder_layers=1,
        decoder_layers=1, dropout=dropout,
    )  # fmt: skip
    return build_model(config, seed)


def padded(rows: Sequence[Sequence[int]]) -> Tensor:
    """(B, S): ids, end mark, padding."""
    size = 1 + max(map(len, rows))
    return torch.tensor([[*row, EOS_ID, *([PAD_ID] * (size - len(row) - 1))] for row in rows])


def fit(model: EncoderDecoder, source: Tensor, target: Tensor, updates: int, seed: int, rate: float = 5e-3) -> float:
    """Teacher forcing on random batches of 64 with a linear decay; returns the last loss in nats a token."""
    optimizer = torch.optim.Adam(model.train().parameters(), betas=(0.9, 0.98))
    generator, loss = torch.Generator().manual_seed(seed), torch.zeros(())
    for update in range(updates):
        optimizer.param_groups[0]["lr"] = rate * min(1.0, (update + 1) / 20) * (1.0 - update / updates)
        some = torch.randint(len(source), (64,), generator=generator)
        read, written = source[some], target[some]
        fed_in = torch.cat((torch.full((64, 1), BOS_ID), written[:, :-1]), dim=1)
        logits = model(read, fed_in, read != PAD_ID)
        loss = F.cross_entropy(logits.flatten(0, 1), written.flatten(), ignore_index=PAD_ID)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    return loss.item()


@torch.no_grad()
def written_by(model: EncoderDecoder, source: Tensor, most: int = 12) -> list[int]:
    """What the model writes for one (1, S) sentence, greedily, its end mark included."""
    ids = [BOS_ID]
    while ids[-1] != EOS_ID and len(ids) <= most:
        ids.append(int(model(source, torch.tensor([ids]), source != PAD_ID)[0, -1].argmax()))
    return ids[1:]
