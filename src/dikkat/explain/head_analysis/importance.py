"""Measure how much a model loses when heads are switched off, one by one and the least useful ones together."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Literal, NamedTuple, cast

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from dikkat.models.encoder_decoder import EncoderDecoder
from dikkat.nn.multi_head_attention import MultiHeadAttention
from dikkat.nn.recorder import MapName, name_of
from dikkat_runtime.errors import UsageError, joined, msg
from dikkat_runtime.notices import counted

# Switch heads off and let the model run without them.


class HeadName(NamedTuple):
    """Name one head; layer and head are counted from 0, shown from 1."""

    stack: str
    layer: int
    kind: Literal["self", "cross"]
    head: int

    def __str__(self) -> str:
        return msg(
            "{stack} layer {layer}, {kind}, head {head}", msg(self.stack), self.layer + 1, self.kind, self.head + 1
        )


def head_names(model: nn.Module) -> list[HeadName]:
    """Return every head of `model`, in the order of its modules."""
    return [HeadName(*name, head) for name, module in attentions_of(model).items() for head in range(module.num_heads)]


@contextmanager
def without_heads(model: nn.Module, heads: Collection[HeadName]) -> Iterator[None]:
    """Set the outputs of `heads` to zero, before the output projection, while the body runs.

    The same as zeros in the columns of that projection which read these heads (Michel et al. 2019, section 2.3), in
    training, evaluation and stepwise decoding; no weight is touched, and the other heads compute what they always do.
    Raises `UsageError` for a head that `model` does not have.
    """
    attentions = attentions_of(model)
    known = head_names(model)
    off: dict[MapName, list[int]] = {}
    for head in heads:
        if head not in known:
            raise UsageError("there is no head {head}; choose from {choices}", head, _choices(known))
        off.setdefault(MapName(head.stack, head.layer, head.kind), []).append(head.head)
    with ExitStack() as handles:
        for name, numbers in off.items():
            module = attentions[name]
            handles.enter_context(module.out_projection.register_forward_pre_hook(_silencer(module, numbers)))
        yield


def _silencer(module: MultiHeadAttention, heads: list[int]) -> Callable[[nn.Module, tuple[Tensor, ...]], Tensor]:
    off = torch.zeros(module.num_heads, dtype=torch.bool, device=next(module.parameters()).device)
    off[heads] = True
    # (H,) -> (H * K,)
    columns = off.repeat_interleave(module.head_dim)
    # filled, not multiplied: zero times infinity is not a number
    return lambda _, inputs: inputs[0].masked_fill(columns, 0.0)


def attentions_of(model: nn.Module) -> dict[MapName, MultiHeadAttention]:
    """Return every attention of `model` by its name, in the order of its modules."""
    return {name_of(path): module for path, module in model.named_modules() if isinstance(module, MultiHeadAttention)}


def _choices(known: list[HeadName]) -> str:
    """For example: encoder self (3 layers of 4 heads), decoder self (3 layers of 4 heads), …"""
    last: dict[tuple[str, str], HeadName] = {(name.stack, name.kind): name for name in known}
    return joined(
        ", ",
        (
            msg("{stack} {kind} ({layer} layers of {head} heads)", msg(stack), kind, name.layer + 1, name.head + 1)
            for (stack, kind), name in last.items()
        ),
    )


@dataclass(frozen=True, slots=True)
class Quality:
    """Hold how good a model is on a sample."""

    loss: float
    """Negative log-likelihood in nats: per token under teacher forcing, or per text of a classifier."""
    score: float
    """Score from 0 to 100: chrF of a translator's own output, accuracy or micro F1 of a classifier, else NaN."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Hold the loss of quality against the whole model; negative where the model does better without."""

    loss: float
    """Nats."""
    score: float
    """Points of the score."""


Measure = Callable[[], Quality]
"""Measures the model as it is now, on the same sample each time."""


def cost_without(model: nn.Module, heads: Sequence[HeadName], whole: Quality, measure: Measure) -> Cost:
    """Measure what `model` loses while `heads` are switched off. Raises `UsageError` for an unknown head."""
    with without_heads(model, heads):
        quality = measure()
    return Cost(loss=quality.loss - whole.loss, score=whole.score - quality.score)


def head_costs(model: nn.Module, whole: Quality, measure: Measure) -> dict[HeadName, Cost]:
    """Measure the cost of each head alone (Michel et al. 2019, section 3.2)."""
    heads = counted(head_names(model), msg("heads switched off"))
    return {head: cost_without(model, [head], whole, measure) for head in heads}


def least_useful(costs: Mapping[HeadName, Cost], count: int) -> list[HeadName]:
    """Return the `count` heads with the smallest loss, the least useful first; ties keep their order."""
    return sorted(costs, key=lambda head: costs[head].loss)[:count]


# Compute attention rollout: through how many layers of attention a token reaches another one.

Array = NDArray[np.float64]


def attention_rollout(layers: Sequence[ArrayLike]) -> list[Array]:
    """Return the rollout (S, S) up to each layer, from the self-attention (H, S, S) of each, lowest first.

    Row t tells how much of every input token is in position t above that layer, if nothing but attention and its
    residual sum moved information: the product of 0.5 A + 0.5 I, A being the mean of the heads with rows that sum to
    one (Abnar and Zuidema 2020, section 3). Raises `ValueError` for maps of another shape.
    """
    rollouts: list[Array] = []
    for layer in layers:
        heads = np.asarray(layer, dtype=np.float64)
        if heads.ndim != 3 or heads.shape[1] != heads.shape[2]:
            raise ValueError(f"rollout needs self-attention of shape (H, S, S) for each layer, not {heads.shape}")
        mixed = 0.5 * heads.mean(axis=0) + 0.5 * np.eye(heads.shape[1])
        # a query that may attend to nothing has a row of zeros: it keeps itself alone
        mixed /= mixed.sum(axis=1, keepdims=True)
        rollouts.append(mixed @ rollouts[-1] if rollouts else mixed)
    return rollouts


MAX_ENTRIES = 1 << 22
"""Logits of one batch of copies of a sentence: 16 MiB of float32."""


@dataclass(frozen=True, slots=True, eq=False)
class Influence:
    """Hold how much each token moves the log-probability of each written token, in nats, with its sign."""

    source: Array
    """(T, S)"""
    target: Array
    """(T, T), by the tokens that the decoder is fed; zero above the diagonal."""


def gradient_times_input(model: EncoderDecoder, source: Int[Tensor, "S"], target: Int[Tensor, "T+1"]) -> Influence:
    """Compute the gradient of the log-probability of every written token times the embedding of each token read.

    `source` ends in `<eos>` if the model reads one; `target` begins with `<bos>` and ends in `<eos>`, so that row t
    explains its token t + 1, as row t of a decoder's attention map does. The sum over the D entries of one token is the
    derivative of the log-probability by a factor on that token's embedding, without its position (Denil et al. 2014,
    section 4; Ding et al. 2019 for translation). `model` must be in evaluation mode.
    """
    fed, written = target[:-1], target[1:]
    with torch.no_grad():
        embedded = model.source_embedding(source), model.target_embedding(fed)
    size = max(1, MAX_ENTRIES // (max(len(source), len(fed)) * embedded[0].shape[-1]))
    chunks = torch.split(torch.arange(len(fed), device=source.device), size)
    parts = [_gradient_rows(model, embedded, chunk, written[chunk]) for chunk in chunks]
    return Influence(*(exact(torch.cat(side)) for side in zip(*parts, strict=True)))


def occlusion(model: EncoderDecoder, source: Int[Tensor, "S"], target: Int[Tensor, "T+1"]) -> Array:
    """Compute (T, S): the log-probability, in nats, that a written token loses when a source token is hidden.

    The source mask hides the token in the encoder and in the decoder; cutting it out would move every later token to
    another position. The result is negative where the token spoke against what was written. The arguments are those of
    `gradient_times_input`.
    """
    length, steps = len(source), len(target) - 1
    seen = torch.ones(1, length, dtype=torch.bool, device=source.device)
    # row s sees everything but token s
    masks = ~torch.eye(length, dtype=torch.bool, device=source.device)
    size = max(1, MAX_ENTRIES // (steps * model.output_weight.shape[0]))
    with torch.no_grad():
        whole = _log_probabilities(model, source, target, seen)
        hidden = torch.cat([_log_probabilities(model, source, target, chunk) for chunk in torch.split(masks, size)])
    # (S, T) -> (T, S)
    return exact((whole - hidden).T)


def _gradient_rows(
    model: EncoderDecoder, embedded: tuple[Tensor, Tensor], rows: Tensor, wanted: Tensor
) -> tuple[Tensor, Tensor]:
    """Row n of a batch of copies is asked about step `rows[n]` only, so one pass back gives every step's gradient."""
    # (S, D) -> (N, S, D), (T, D) -> (N, T, D)
    x, y = (tensor.expand(len(rows), -1, -1).clone().requires_grad_() for tensor in embedded)
    with torch.enable_grad():
        read, fed = (model.embedding_norm(model.positions(tensor)) for tensor in (x, y))
        hidden = model.decoder(fed, model.encoder(read))
        # (N, T, D) -> (N, V)
        logits = model.project(hidden[torch.arange(len(rows), device=rows.device), rows])
        chosen = logits.log_softmax(dim=-1).gather(1, wanted[:, None])
        of_x, of_y = torch.autograd.grad(chosen.sum(), (x, y))
    return (of_x * x).sum(-1).detach(), (of_y * y).sum(-1).detach()


def _log_probabilities(model: EncoderDecoder, source: Tensor, target: Tensor, masks: Tensor) -> Float[Tensor, "N T"]:
    """Of what was written, under each of N source masks (N, S)."""
    copies = len(masks)
    logits = model(source.expand(copies, -1), target[:-1].expand(copies, -1), masks)
    written = target[1:].expand(copies, -1)
    return cast(Tensor, logits.log_softmax(dim=-1).gather(2, written[..., None])[..., 0])


def exact(tensor: Tensor) -> Array:
    """Return the numbers of a tensor in float64, without their graph."""
    array: Array = tensor.detach().double().cpu().numpy()
    return array
