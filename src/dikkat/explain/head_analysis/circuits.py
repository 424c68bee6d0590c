"""Measure what the parts of a language model do: scores of heads, logit lens, attribution, activation patching."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from dikkat.explain.head_analysis.importance import MAX_ENTRIES, Array, HeadName
from dikkat.models.language_model import LanguageModel
from dikkat.nn.blocks import EncoderBlock, PreNormResidual
from dikkat.nn.recorder import record_attention
from dikkat_runtime.errors import UsageError
from dikkat_runtime.special_tokens import SPECIAL_TOKENS

PATTERNS = ("previous", "duplicate", "induction")
REPEATED = 25
"""Random tokens that are read twice: what an induction head is for, and nothing else helps with."""
SEQUENCES = 4


def detection_patterns(tokens: Sequence[int]) -> dict[str, NDArray[np.bool_]]:
    """Return for each of `PATTERNS` the cells (T, T) that such a head attends to.

    They are the token before; earlier positions of the same token; and the tokens after those (Elhage et al. 2021;
    Olsson et al. 2022), as TransformerLens has them.
    """
    ids, length = np.asarray(tokens), len(tokens)
    duplicate = np.tril(ids[:, None] == ids[None, :], -1)
    induction = np.zeros_like(duplicate)
    induction[:, 1:] = duplicate[:, :-1]
    return {"previous": np.eye(length, k=-1, dtype=bool), "duplicate": duplicate, "induction": np.tril(induction)}


def detection_scores(weights: Array, tokens: Sequence[int]) -> dict[str, Array]:
    """Return for each of `PATTERNS` the share (H,) of the attention (H, T, T) that lies on its cells."""
    total = weights.sum(axis=(1, 2))
    return {name: (weights * cells).sum(axis=(1, 2)) / total for name, cells in detection_patterns(tokens).items()}


def repeated_tokens(vocabulary: int, length: int, seed: int = 0) -> Tensor:
    """Return `SEQUENCES` rows of random ids, each of which is read twice: (B, 2 * length)."""
    generator = torch.Generator().manual_seed(seed)
    first = min(len(SPECIAL_TOKENS), vocabulary - 1)
    return torch.randint(first, vocabulary, (SEQUENCES, length), generator=generator).repeat(1, 2)


@torch.no_grad()
def head_scores(model: LanguageModel, longest: int) -> dict[HeadName, dict[str, float]]:
    """Return the scores of each head on repeated random tokens, which are at most `longest` together."""
    tokens = repeated_tokens(model.output_weight.shape[0], max(1, min(REPEATED, longest // 2)))
    with record_attention(model) as recorded:
        model.hidden(tokens.to(model.output_weight.device))
    scores: dict[HeadName, dict[str, float]] = {}
    for name, (weights,) in recorded.items():
        rows = [
            detection_scores(maps, ids)
            for maps, ids in zip(weights.double().cpu().numpy(), tokens.tolist(), strict=True)
        ]
        for head in range(weights.shape[1]):
            mean = {pattern: float(np.mean([row[pattern][head] for row in rows])) for pattern in PATTERNS}
            scores[HeadName(name.stack, name.layer, name.kind, head)] = mean
    return scores


@torch.no_grad()
def logit_lens(model: LanguageModel, tokens: Tensor) -> Tensor:
    """Return the log-probabilities (L, T, V) that each layer's residual stream gives (nostalgebraist 2020)."""
    layers: list[Tensor] = []
    with _hooked(model, lambda block: block.register_forward_hook(lambda _, args, output: layers.append(output))):
        model.hidden(tokens[None])
    return torch.stack([model.project(model.decoder.final_norm(layer[0])).log_softmax(-1) for layer in layers])


@dataclass(frozen=True, slots=True, eq=False)
class Attribution:
    """Hold what each part adds to one logit; the parts sum to it (Elhage et al. 2021, "direct logit attribution")."""

    logit: float
    embedding: float
    heads: Array
    """(L, H)"""
    feed_forwards: Array
    """(L,)"""
    rest: float
    """Biases, which no part is to be thanked for."""


@torch.no_grad()
def attribution(model: LanguageModel, tokens: Tensor, answer: int) -> Attribution:
    """Return what each head and feed-forward network adds to the logit of `answer` after the last of `tokens` (T,).

    The scale of the final norm is that of the whole. Raises `UsageError` for a model whose logits are no such sum.
    """
    blocks: list[Any] = list(model.decoder.blocks)
    plain = all(type(block) is EncoderBlock and type(block.self_residual) is PreNormResidual for block in blocks)
    if not plain or model.logit_softcap is not None or not isinstance(model.output_transform, nn.Identity):
        raise UsageError(
            "a logit of this model is not the sum of what its layers add, since its norms come after the layers"
        )
    entered: list[Tensor] = []
    mixed: list[Tensor] = []
    fed: list[Tensor] = []
    with ExitStack() as handles:
        handles.enter_context(blocks[0].register_forward_pre_hook(lambda _, args: entered.append(args[0][0, -1])))
        for block in blocks:
            projection, network = block.self_attention.out_projection, block.feed_forward
            handles.enter_context(projection.register_forward_pre_hook(lambda _, args: mixed.append(args[0][0, -1])))
            handles.enter_context(network.register_forward_hook(lambda _, args, output: fed.append(output[0, -1])))
        hidden = model.hidden(tokens[None])[0, -1]
    added: list[Tensor] = []
    biases = torch.zeros_like(entered[0], dtype=torch.float64)
    for block, row in zip(blocks, mixed, strict=True):
        heads, projection = block.self_attention.num_heads, block.self_attention.out_projection
        # (D, H * K), (H * K,) -> (H, D)
        products = (projection.weight * row).double().unflatten(1, (heads, -1)).sum(-1).T
        added.append(products)
        biases += 0 if projection.bias is None else projection.bias.double()
    parts = torch.stack([entered[0].double(), *torch.cat(added), *(row.double() for row in fed), biases])
    norm: Any = model.decoder.final_norm
    centred = parts - parts.mean(-1, keepdim=True) if isinstance(norm, nn.LayerNorm) else parts
    scale = torch.rsqrt(centred.sum(0).square().mean() + norm.eps) * norm.weight.double()
    logits = (centred * scale) @ model.output_weight[answer].double()
    constant = torch.zeros((), dtype=torch.float64)
    if getattr(norm, "bias", None) is not None:
        constant = constant + norm.bias.double() @ model.output_weight[answer].double()
    if model.output_bias is not None:
        constant = constant + model.output_bias[answer].double()
    values, layers = logits.cpu().numpy(), len(blocks)
    return Attribution(
        float(model.project(hidden)[answer]),
        float(values[0]),
        values[1 : -1 - layers].reshape(layers, -1),
        values[-1 - layers : -1],
        float(values[-1] + constant),
    )


@torch.no_grad()
def patching(model: LanguageModel, clean: Tensor, other: Tensor, answers: tuple[int, int]) -> Array:
    """Return (L, T): how much of the answer comes back when the residual stream of `clean` is restored at one position.

    While `other` is read, the input of a layer at one position is that of `clean` (Meng et al. 2022, section 2.1). 1 is
    the difference between the logits of both `answers` as after `clean`, 0 that as after `other`.
    """
    streams: list[Tensor] = []
    with _hooked(model, lambda block: block.register_forward_pre_hook(lambda _, args: streams.append(args[0]))):
        whole = _difference(model, clean[None], answers)
    nothing = _difference(model, other[None], answers)
    length, rows = len(clean), []
    size = max(1, MAX_ENTRIES // (length * model.output_weight.shape[1]))
    for block, stream in zip(model.decoder.blocks, streams, strict=True):
        patched = []
        for positions in (torch.arange(at, min(at + size, length)) for at in range(0, length, size)):
            with block.register_forward_pre_hook(partial(_restore, stream[0], positions)):
                patched.append(_difference(model, other.expand(len(positions), -1), answers))
        rows.append(torch.cat(patched))
    effects: Array = ((torch.stack(rows) - nothing) / (whole - nothing)).double().cpu().numpy()
    return effects


def _restore(stream: Tensor, positions: Tensor, _: nn.Module, args: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    patched = args[0].clone()
    patched[torch.arange(len(positions)), positions] = stream[positions]
    return (patched, *args[1:])


def _difference(model: LanguageModel, tokens: Tensor, answers: tuple[int, int]) -> Tensor:
    """(B,), between the logits of two answers after the last token."""
    logits = model.project(model.hidden(tokens)[:, -1])
    return logits[:, answers[0]] - logits[:, answers[1]]


@contextmanager
def _hooked(model: LanguageModel, hook: Callable[[Any], Any]) -> Iterator[None]:
    with ExitStack() as handles:
        for block in model.decoder.blocks:
            handles.enter_context(hook(block))
        yield
