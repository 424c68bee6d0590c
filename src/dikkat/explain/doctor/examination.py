"""The checks of the doctor, in the order of their dependencies, and the examination that runs them all."""

import math
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from dikkat.explain.doctor.specimen import EXTRA, ExaminableModel, Specimen, distance, draw, worst
from dikkat.kernels.query_blocks import BLOCK_WEIGHTS
from dikkat.models.encoder_decoder import EncoderDecoder
from dikkat.models.language_model import LanguageModel
from dikkat.nn.multi_head_attention import MultiHeadAttention, Observation, Observer
from dikkat.nn.recorder import MapName, name_of, record_attention
from dikkat_runtime.errors import msg
from dikkat_runtime.special_tokens import PAD_ID

# Check rows of attention weights: they sum to one, or are zero where nothing may be attended to.

SHORT, LONG = 5, math.isqrt(BLOCK_WEIGHTS) + 1
"""Lengths on either side of where attention stops keeping its weights, and in half precision changes its kernel."""


def uneven_rows(specimen: Specimen) -> tuple[float, str]:
    """Measure how far rows of weights are from a sum of one, as recorded and as used, or below zero."""
    with record_attention(specimen.model) as maps, _sums_as_used(specimen.model) as sums:
        specimen.logits(specimen.source, specimen.target, specimen.mask)
    violations: dict[str, float] = {}
    for name, (weights,) in maps.items():
        recorded, used = (_of_real_tokens(rows, name, specimen.mask) for rows in (weights, sums[name]))
        label = msg("{stack} layer {layer}, {kind}", msg(name.stack), name.layer, name.kind)
        violations[msg("{label}, recorded", label)] = max(
            float((recorded.sum(-1) - 1.0).abs().max()), -float(recorded.min())
        )
        violations[msg("{label}, used", label)] = float((used - 1.0).abs().max())
    return worst(violations)


def masked_rows_at_work(specimen: Specimen) -> tuple[float, str]:
    """Measure the output of attention for a query that may attend to nothing; infinite if a gradient is not finite."""
    return worst(
        {
            msg("{path}, {length} tokens", path, length): _masked_output(module, path, length)
            for path, module in _attentions(specimen.model)
            for length in (SHORT, LONG)
        }
    )


def _masked_output(module: MultiHeadAttention, path: str, length: int) -> float:
    weight, width = next(module.parameters()), module.widths[0]
    x = torch.randn(1, length, width, device=weight.device, dtype=weight.dtype, requires_grad=True)
    mask = torch.ones(1, 1, length, length, dtype=torch.bool, device=weight.device)
    mask[:, :, 1] = False
    memory = torch.randn_like(x)
    output: Tensor = module(x, memory, mask=mask) if name_of(path).kind == "cross" else module(x, mask=mask)
    gradients = torch.autograd.grad(output.square().sum(), [x, *module.parameters()], allow_unused=True)
    if not all(bool(gradient.isfinite().all()) for gradient in gradients if gradient is not None):
        return math.inf
    # the sum of nothing is zero, so only the bias of the output projection is left
    bias = None if isinstance(module.out_projection, nn.Identity) else module.out_projection.bias
    nothing = torch.zeros_like(output[:, 1]) if bias is None else bias
    return float((output[:, 1] - nothing).detach().abs().max())


@contextmanager
def _sums_as_used(model: nn.Module) -> Iterator[dict[MapName, Tensor]]:
    """Return (B, H, T, K), what an attention makes of values all one: the reference, where it has no weights."""
    sums: dict[MapName, Tensor] = {}

    def summing(name: MapName, module: MultiHeadAttention) -> Observer:
        def sum_rows(seen: Observation) -> None:
            sums[name] = module.comparison(seen.query, seen.key, torch.ones_like(seen.value), seen.mask, 0.0)

        return sum_rows

    with ExitStack() as handles:
        for path, module in _attentions(model):
            handles.enter_context(module.observe(summing(name_of(path), module)))
        yield sums


def _attentions(model: nn.Module) -> list[tuple[str, MultiHeadAttention]]:
    return [(path, module) for path, module in model.named_modules() if isinstance(module, MultiHeadAttention)]


def _of_real_tokens(rows: Tensor, name: MapName, mask: Tensor) -> Tensor:
    """Of (B, H, T, …): within a window, a padded source position may see nothing but padding."""
    # (B, H, T, …) -> (B, T, H, …)
    return rows.transpose(1, 2)[mask] if name.stack == "encoder" else rows


# Check what no result may depend on: later positions, padding, other sentences, what attention does not join.


def met_outside_attention(specimen: Specimen) -> tuple[float, str]:
    """Measure what another token at one position changes at the others while all attention is off."""
    model, full, violations = specimen.model, specimen.every_token, {}
    with ExitStack() as hooks, torch.no_grad():
        for _, attention in _attentions(model):
            hooks.enter_context(
                attention.register_forward_hook(lambda module, inputs, output: torch.zeros_like(output))
            )
        if isinstance(model, LanguageModel):
            return worst({"decoder": _changed_elsewhere(specimen, specimen.target, model.hidden)})
        violations["encoder"] = _changed_elsewhere(specimen, specimen.source, lambda tokens: model.encode(tokens, full))
        if isinstance(model, EncoderDecoder):
            decode = partial(model.decode, memory=model.encode(specimen.source, full), source_mask=full)
            violations["decoder"] = _changed_elsewhere(specimen, specimen.target, decode)
    return worst(violations)


def _changed_elsewhere(specimen: Specimen, tokens: Tensor, hidden: Callable[[Tensor], Tensor]) -> float:
    """What another token in the middle changes in the hidden states (B, T, D) of all the others."""
    position = specimen.target.shape[1] // 2
    elsewhere = torch.arange(tokens.shape[1], device=tokens.device) != position
    changed = _replaced(specimen, tokens, position, position + 1)
    return distance(hidden(changed)[:, elsewhere], hidden(tokens)[:, elsewhere])


def seen_future(specimen: Specimen) -> tuple[float, str]:
    """Measure what other tokens from position t on change in the logits before t, for every t."""
    logits = specimen.logits(specimen.source, specimen.target, specimen.mask)
    violations = {}
    for position in range(1, specimen.target.shape[1]):
        changed = _replaced(specimen, specimen.target, position, None)
        other = specimen.logits(specimen.source, changed, specimen.mask)
        violations[f"tokens from position {position} on"] = distance(other[:, :position], logits[:, :position])
    return worst(violations)


def seen_future_in_training(specimen: Specimen) -> tuple[float, str]:
    """Measure `seen_future` in training mode, with dropout as configured and the same each time."""
    specimen.model.train()
    return seen_future(specimen)


def _replaced(specimen: Specimen, tokens: Tensor, start: int, end: int | None) -> Tensor:
    result = tokens.clone()
    result[:, start:end] = specimen.others(tokens[:, start:end])
    return result


def changed_by_padding(specimen: Specimen) -> tuple[float, str]:
    """Measure what more padding changes, and what other tokens that the mask hides change, in float64.

    More padding is another shape, and in float32 that alone regroups sums; float64 leaves only what is really seen.
    """
    exact = specimen.of_type(torch.float64)
    full = exact.every_token
    alone = exact.logits(exact.source, exact.target, full)
    longer, longer_mask = F.pad(exact.source, (0, EXTRA), value=PAD_ID), F.pad(full, (0, EXTRA), value=False)
    appended = distance(exact.logits(longer, exact.target, longer_mask), alone)
    ragged = exact.logits(exact.source, exact.target, exact.mask)
    hidden = torch.where(exact.mask, exact.source, exact.others(exact.source))
    others = distance(exact.logits(hidden, exact.target, exact.mask), ragged)
    return worst(
        {msg("{count} more columns of padding", EXTRA): appended, msg("other tokens that the mask hides"): others}
    )


def changed_by_batch(specimen: Specimen) -> tuple[float, str]:
    """Measure what reading each sentence alone changes; all have one length, so that no padding is involved."""
    together = specimen.logits(specimen.source, specimen.target, specimen.every_token)
    rows = [
        specimen.logits(specimen.source[row, None], specimen.target[row, None], specimen.every_token[row, None])
        for row in range(specimen.source.shape[0])
    ]
    return worst({msg("sentence {number}", row): distance(alone[0], together[row]) for row, alone in enumerate(rows)})


# The result of one check: the claim, the measured violation, and the outcome.

Outcome = Literal["pass", "fail", "follows"]


@dataclass(frozen=True, slots=True)
class Proof:
    """Hold the result of one claim on one model."""

    name: str
    says: str
    """The claim, in one sentence."""
    violation: float
    """Distance of the model from the claim: 0 is exact, NaN cannot be compared, infinity is a crash."""
    limit: float
    """Largest violation that passes."""
    where: str = ""
    """Where the violation is."""
    because: str | None = None
    """The failed claim that this one rests on and that explains the violation."""

    @property
    def passed(self) -> bool:
        """Return whether the violation is within the limit; NaN never is."""
        return self.violation <= self.limit

    @property
    def outcome(self) -> Outcome:
        """Return the outcome: `fail` names a fault; `follows` is a violation that another failed claim explains."""
        if self.passed:
            return "pass"
        return "fail" if self.because is None else "follows"


ROWS = 2
"""Hypotheses of one sentence, as in beam search."""
FIRST = MapName("decoder", 0, "self")


def misplaced_steps(specimen: Specimen) -> tuple[float, str]:
    """Compare the attention of the first decoder layer at step t with teacher forcing of t+1 tokens.

    The sentence is one token over and over, so that nothing but its position tells one place from another. Teacher
    forcing ends at t, so it has no future that it could see.
    """
    target = specimen.target[:, :1].expand_as(specimen.target)
    length = target.shape[1]
    with torch.no_grad():
        steps = specimen.begin()
        with record_attention(specimen.model, lambda name: name == FIRST) as maps:
            for position in range(length):
                steps.step(target[:, position])
            for position in range(length):
                specimen.forced(target[:, : position + 1])
    # (B, H, 1, S) of the steps, (B, H, T, S) of teacher forcing -> (B, H, S)
    rows = [weights[:, :, -1] for weights in maps[FIRST]]
    stepped, forced = rows[:length], rows[length:]
    return worst(
        {msg("step {position}", position): distance(stepped[position], forced[position]) for position in range(length)}
    )


def cached_steps_difference(specimen: Specimen) -> tuple[float, str]:
    """Compare the logits of cached steps with teacher forcing; two hypotheses a sentence are swapped half-way."""
    targets = specimen.tokens(specimen.source.shape[0] * ROWS, specimen.target.shape[1])
    half = targets.shape[1] // 2
    swapped = torch.arange(len(targets), device=targets.device).view(-1, ROWS).flip(1).flatten()
    # row r begins as the hypothesis next to it
    joined = torch.cat((targets[swapped, :half], targets[:, half:]), dim=1)
    with torch.no_grad():
        forced = specimen.forced(joined, ROWS)
        stepped = _walk(specimen, targets, half, swapped)
    return worst(
        {
            msg("step {position}", position): distance(stepped[:, position], forced[:, position])
            for position in range(targets.shape[1])
        }
    )


def _walk(specimen: Specimen, targets: Tensor, half: int, swapped: Tensor) -> Float[Tensor, "R T V"]:
    steps = specimen.begin(ROWS)
    before = [steps.step(targets[:, position])[swapped] for position in range(half)]
    steps.reorder(swapped)
    after = [steps.step(targets[:, position]) for position in range(half, targets.shape[1])]
    return torch.stack([*before, *after], dim=1)


def not_finite(specimen: Specimen) -> tuple[float, str]:
    """Count entries that are NaN or infinite in weights, logits, steps and gradients, in float32 and bfloat16."""
    counts: dict[str, int] = {}
    for dtype in (torch.float32, torch.bfloat16):
        for part, tensors in _numbers(specimen.of_type(dtype)).items():
            counts[f"{part} in {str(dtype).removeprefix('torch.')}"] = sum(
                int((~tensor.isfinite()).sum()) for tensor in tensors
            )
    # not the largest: what comes first is nearest to the cause
    first = next((part for part, count in counts.items() if count), "")
    return float(sum(counts.values())), first


def without_gradient(specimen: Specimen) -> tuple[float, str]:
    """Count parameters that one training step would leave unchanged."""
    still = [name for name, gradient in _gradients(specimen).items() if gradient is None or bool((gradient == 0).all())]
    return float(len(still)), still[0] if still else ""


def _numbers(specimen: Specimen) -> dict[str, list[Tensor]]:
    logits = specimen.logits(specimen.source, specimen.target, specimen.mask)
    gradients = [gradient for gradient in _gradients(specimen).values() if gradient is not None]
    # the sentences use few of the embeddings, so the weights are looked at themselves
    weights = [parameter.detach() for parameter in specimen.model.parameters()]
    steps = {"logits of the steps": _steps(specimen)} if specimen.writes else {}
    return {"weights": weights, "logits": [logits], **steps, "gradients": gradients}


def _steps(specimen: Specimen) -> list[Tensor]:
    with torch.no_grad():
        steps = specimen.begin()
        return [steps.step(specimen.target[:, position]) for position in range(specimen.target.shape[1])]


def _gradients(specimen: Specimen) -> dict[str, Tensor | None]:
    """Of the cross-entropy of a padded batch, in training mode. `grad` of the parameters is left alone."""
    model = specimen.model.train()
    logits = specimen.with_gradient(specimen.source, specimen.target[:, :-1], specimen.mask)
    # a classifier has fewer classes than the vocabulary has tokens, and one answer a sentence
    wanted = specimen.target[:, 1 : 1 + logits.shape[1]] % logits.shape[2]
    loss = F.cross_entropy(logits.flatten(0, 1).float(), wanted.flatten())
    named = dict(model.named_parameters())
    gradients = torch.autograd.grad(loss, list(named.values()), allow_unused=True)
    model.eval()
    return dict(zip(named, gradients, strict=True))


Measure = Callable[[Specimen], tuple[float, str]]
"""Returns the violation, and where it is. The model is in evaluation mode and the generator seeded."""


@dataclass(frozen=True, slots=True)
class Claim:
    """Hold a property of a sound model, and the function that measures its violation."""

    name: str
    says: str
    measure: Measure
    limit: float
    rests_on: tuple[str, ...] = ()
    """Claims that this one depends on; when one of them fails, a violation here is not a fault of its own."""
    of_writing: bool = False
    """Whether the claim is about predicting each next token; models that do not are skipped."""
    of_attending: bool = False
    """Whether the claim is about positions that only attention connects; a recurrent decoder is skipped."""
    of_source: bool = False
    """Whether the claim is about a padded source; a language model reads texts of one length and is skipped."""


_FINITE = (msg("no NaN"),)
_APART = (*_FINITE, msg("positions meet only in attention"))
CLAIMS = (
    Claim("no NaN", "weights, logits and gradients are finite in float32 and bfloat16", not_finite, 0.0),
    Claim(
        "positions meet only in attention",
        "with attention silenced, a token changes nothing at another position",
        met_outside_attention,
        1e-6,
        _FINITE,
        of_attending=True,
    ),
    Claim(
        "no future in evaluation",
        "later target tokens do not change earlier logits",
        seen_future,
        1e-6,
        _APART,
        of_writing=True,
    ),
    Claim(
        "no future in training",
        "later target tokens do not change earlier logits, with dropout on and drawn alike",
        seen_future_in_training,
        1e-6,
        _APART,
        of_writing=True,
    ),
    Claim(
        "padding changes nothing",
        "neither more padding nor what the mask hides changes a logit (float64)",
        changed_by_padding,
        1e-6,
        _APART,
        of_source=True,
    ),
    Claim(
        "batch changes nothing",
        "a sentence has the same logits alone and among others",
        changed_by_batch,
        1e-5,
        _FINITE,
    ),
    Claim(
        "positions advance",
        "at step t the first decoder layer weighs a repeated token as teacher forcing does at t",
        misplaced_steps,
        1e-5,
        _APART,
        of_writing=True,
        of_attending=True,
    ),
    Claim(
        "step = teacher forcing",
        "cached steps of two hypotheses that are exchanged give the logits of teacher forcing",
        cached_steps_difference,
        1e-5,
        (*_APART, msg("no future in evaluation"), msg("padding changes nothing"), msg("positions advance")),
        of_writing=True,
    ),
    Claim(
        "fully masked rows",
        "a query that may attend to nothing gives zero, with finite gradients",
        masked_rows_at_work,
        1e-6,
        _FINITE,
    ),
    Claim(
        "weights sum to one",
        "every row of weights sums to one, as recorded and as used; none is negative",
        uneven_rows,
        1e-5,
        _FINITE,
    ),
    Claim("every parameter learns", "a training step has a gradient for each parameter", without_gradient, 0.0),
)
"""A claim may only rest on earlier ones."""


def examine(model: ExaminableModel, seed: int = 1) -> list[Proof]:
    """Check every claim that applies to `model`, on sentences drawn from `seed`; nothing is left changed.

    Raises `UsageError` for a model with fewer learned positions than the sentences need.
    """
    was_training = model.training
    proofs: list[Proof] = []
    with torch.random.fork_rng(devices=[]):
        specimen = draw(model, seed)
        for claim in CLAIMS:
            if (
                specimen.writes >= claim.of_writing
                and specimen.reads_source >= claim.of_source
                and specimen.only_attends >= claim.of_attending
            ):
                proofs.append(_try(claim, specimen, proofs))
    model.train(was_training)
    return proofs


def _try(claim: Claim, specimen: Specimen, earlier: list[Proof]) -> Proof:
    specimen.model.eval()
    torch.manual_seed(specimen.seed)
    try:
        violation, where = claim.measure(specimen)
    except (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError) as error:
        # a model that cannot even be run with these sentences has the fault that is looked for, or another
        violation, where = float("inf"), f"{type(error).__name__}: {' '.join(str(error).split())}"
    culprits = [proof.name for proof in earlier if proof.name in claim.rests_on and proof.outcome == "fail"]
    cause = () if violation <= claim.limit else (where, next(iter(culprits), None))
    return Proof(msg(claim.name), msg(claim.says), violation, claim.limit, *cause)
