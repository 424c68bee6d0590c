"""The documents' networks, written out from their formulas in plain PyTorch, with the names of their parameters."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from dikkat.nn.positions import sinusoids


def weighted(q: Tensor, k: Tensor, v: Tensor, allowed: Tensor, heads: int) -> tuple[Tensor, Tensor]:
    """softmax(q kᵀ / √d) v head by head, where `allowed` (B, T, S); output (B, T, D), weights (B, H, T, S)."""
    outputs, maps = [], []
    for q_i, k_i, v_i in zip(q.chunk(heads, -1), k.chunk(heads, -1), v.chunk(heads, -1), strict=True):
        scores = q_i @ k_i.transpose(1, 2) / math.sqrt(q_i.shape[-1])
        maps.append(scores.masked_fill(~allowed, -torch.inf).softmax(-1))
        outputs.append(maps[-1] @ v_i)
    return torch.cat(outputs, -1), torch.stack(maps, 1)


class D2lAttention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(width, width, bias=False) for _ in range(4))

    def forward(self, q: Tensor, kv: Tensor, allowed: Tensor) -> Tensor:
        output, self.maps = weighted(self.W_q(q), self.W_k(kv), self.W_v(kv), allowed, self.heads)
        return self.W_o(output)


class D2lAddNorm(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.ln = nn.LayerNorm(width)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return self.ln(x + y)


class D2lFeedForward(nn.Module):
    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.dense1, self.dense2 = nn.Linear(width, hidden), nn.Linear(hidden, width)

    def forward(self, x: Tensor) -> Tensor:
        return self.dense2(self.dense1(x).clamp(min=0))


class D2lEncoderBlock(nn.Module):
    def __init__(self, width: int, hidden: int, heads: int) -> None:
        super().__init__()
        self.attention, self.ffn = D2lAttention(width, heads), D2lFeedForward(width, hidden)
        self.addnorm1, self.addnorm2 = D2lAddNorm(width), D2lAddNorm(width)

    def forward(self, x: Tensor, allowed: Tensor) -> Tensor:
        x = self.addnorm1(x, self.attention(x, x, allowed))
        return self.addnorm2(x, self.ffn(x))


class D2lDecoderBlock(nn.Module):
    def __init__(self, width: int, hidden: int, heads: int) -> None:
        super().__init__()
        self.attention1, self.attention2 = D2lAttention(width, heads), D2lAttention(width, heads)
        self.ffn = D2lFeedForward(width, hidden)
        self.addnorm1, self.addnorm2, self.addnorm3 = (D2lAddNorm(width) for _ in range(3))

    def forward(self, x: Tensor, memory: Tensor, past: Tensor, source: Tensor) -> Tensor:
        x = self.addnorm1(x, self.attention1(x, x, past))
        x = self.addnorm2(x, self.attention2(x, memory, source))
        return self.addnorm3(x, self.ffn(x))


class D2lHalf(nn.Module):
    def __init__(self, vocab: int, width: int, blocks: list[nn.Module]) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocab, width)
        self.blks = nn.Sequential()
        for number, block in enumerate(blocks):
            self.blks.add_module(f"block{number}", block)

    def embedded(self, tokens: Tensor) -> Tensor:
        x = self.embedding(tokens) * math.sqrt(self.embedding.embedding_dim)
        return x + sinusoids(tokens.shape[1], x.shape[-1])


class D2lTranslator(nn.Module):
    """Two vocabularies, and a bias on the output layer."""

    def __init__(self, source: int, target: int, width: int = 32, hidden: int = 64, heads: int = 4) -> None:
        super().__init__()
        sizes = width, hidden, heads
        self.encoder = D2lHalf(source, width, [D2lEncoderBlock(*sizes) for _ in range(2)])
        self.decoder = D2lHalf(target, width, [D2lDecoderBlock(*sizes) for _ in range(2)])
        self.decoder.dense = nn.Linear(width, target)

    def forward(self, source: Tensor, target: Tensor, valid_lens: Tensor) -> Tensor:
        real = torch.arange(source.shape[1]) < valid_lens[:, None, None]
        past = torch.ones(target.shape[1], target.shape[1]).tril().bool()[None]
        memory, x = self.encoder.embedded(source), self.decoder.embedded(target)
        for block in self.encoder.blks:
            memory = block(memory, real)
        for block in self.decoder.blks:
            x = block(x, memory, past, real)
        logits: Tensor = self.decoder.get_submodule("dense")(x)
        return logits


class NyuAttention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.W_q, self.W_k, self.W_v = (nn.Linear(width, width, bias=False) for _ in range(3))
        self.W_h = nn.Linear(width, width)


class NyuFeedForward(nn.Module):
    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.k1convL1, self.k1convL2 = nn.Linear(width, hidden), nn.Linear(hidden, width)


class NyuLayer(nn.Module):
    def __init__(self, width: int, heads: int, hidden: int) -> None:
        super().__init__()
        self.mha, self.cnn = NyuAttention(width, heads), NyuFeedForward(width, hidden)
        self.layernorm1, self.layernorm2 = nn.LayerNorm(width, eps=1e-6), nn.LayerNorm(width, eps=1e-6)

    def forward(self, x: Tensor) -> Tensor:
        a, c = self.mha, self.cnn
        allowed = torch.ones(1, x.shape[1], x.shape[1], dtype=torch.bool)
        x = self.layernorm1(x + a.W_h(weighted(a.W_q(x), a.W_k(x), a.W_v(x), allowed, a.heads)[0]))
        return self.layernorm2(x + c.k1convL2(c.k1convL1(x).clamp(min=0)))


class NyuEmbeddings(nn.Module):
    def __init__(self, vocab: int, width: int, positions: int) -> None:
        super().__init__()
        self.word_embeddings, self.position_embeddings = nn.Embedding(vocab, width), nn.Embedding(positions, width)
        self.position_embeddings.weight = nn.Parameter(sinusoids(positions, width), requires_grad=False)
        self.LayerNorm = nn.LayerNorm(width, eps=1e-12)


class NyuEncoder(nn.Module):
    def __init__(self, layers: int, width: int, heads: int, hidden: int, vocab: int) -> None:
        super().__init__()
        self.embedding = NyuEmbeddings(vocab, width, 10000)
        self.enc_layers = nn.ModuleList(NyuLayer(width, heads, hidden) for _ in range(layers))


class NyuClassifier(nn.Module):
    def __init__(self, layers: int, width: int, heads: int, hidden: int, vocab: int, answers: int) -> None:
        super().__init__()
        self.encoder = NyuEncoder(layers, width, heads, hidden, vocab)
        self.dense = nn.Linear(width, answers)

    def forward(self, tokens: Tensor) -> Tensor:
        e = self.encoder.embedding
        x = e.LayerNorm(e.word_embeddings(tokens) + e.position_embeddings.weight[: tokens.shape[1]])
        for layer in self.encoder.enc_layers:
            x = layer(x)
        answers: Tensor = self.dense(x.max(dim=1).values)
        return answers
