"""Choose the way of decoding by the type of the options."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from dikkat.torch_engine.beam_search import beam_search
from dikkat.torch_engine.ranking import NextTokens, top
from dikkat.torch_engine.stepper import (
    CachedModel,
    Outcome,
    Stepper,
    gather_hypotheses,
    length_caps,
    length_penalties,
    split_ended,
)
from dikkat_runtime.engine.hypotheses import Hypothesis
from dikkat_runtime.engine.options import BeamOptions, DecodingOptions, SamplingOptions
from dikkat_runtime.special_tokens import EOS_ID, PAD_ID

# Decode one hypothesis a sentence, token by token: the common part of greedy decoding and sampling.

Choose = Callable[[NextTokens, Stepper], Tensor]
"""Maps the model's output and the stepper to one token for each sentence (B,)."""


@torch.inference_mode()
def decode_single(
    model: CachedModel[Any],
    source: Int[Tensor, "B S"],
    source_mask: Bool[Tensor, "B S"],
    options: DecodingOptions,
    choose: Choose,
) -> list[Hypothesis]:
    """Follow the tokens that `choose` picks; a sentence leaves the batch at its end token or length cap."""
    if source.shape[0] == 0:
        return []
    stepper = Stepper(model, source, source_mask, options, scored=options.scores)
    batch_size, device = source.shape[0], source.device
    penalties = length_penalties(stepper.max_cap, options.alpha, device, stepper.forced)
    history = torch.full((batch_size, stepper.max_cap), PAD_ID, device=device)
    total = torch.full((batch_size,), 0.0 if stepper.scored else torch.nan, device=device)
    outcomes: list[Outcome] = []
    while True:
        following = stepper.next_tokens(history[:, : stepper.length])
        tokens = choose(following, stepper)
        if stepper.scored:
            total = total + following.log_probabilities(tokens.unsqueeze(1)).squeeze(1)
        history[:, stepper.length - 1] = tokens
        parts = split_ended((tokens == EOS_ID) | (stepper.caps <= stepper.length))
        staying = None
        if parts is not None:
            leaving, staying = parts
            # (N, ...) -> (N, 1, ...)
            emitted = history[leaving, None, : stepper.length]
            log_probability = total[leaving, None]
            outcomes.append(
                Outcome(
                    sentences=stepper.sentences[leaving],
                    tokens=emitted,
                    lengths=torch.full_like(leaving, stepper.length).unsqueeze(1),
                    log_probability=log_probability,
                    scores=log_probability / penalties[stepper.length],
                    finished=emitted[:, :, -1] == EOS_ID,
                )
            )
            history, total = history[staying], total[staying]
            if len(staying) == 0:
                return [hypotheses[0] for hypotheses in gather_hypotheses(outcomes, batch_size)]
        stepper.advance(tokens.unsqueeze(1), torch.zeros_like(tokens).unsqueeze(1), staying)


# Greedy decoding: always take the most probable next token.


def greedy(
    model: CachedModel[Any], source: Int[Tensor, "B S"], source_mask: Bool[Tensor, "B S"], options: DecodingOptions
) -> list[Hypothesis]:
    """Return one hypothesis a sentence, of the most probable token at each step, the lowest id of equals.

    `source_mask` is True at real tokens. The result of a sentence does not depend on the rest of its batch.
    """
    return decode_single(model, source, source_mask, options, lambda following, _: following.most_probable())


# Sample the next token from the model's distribution, sharpened and truncated by the options.


def sample(
    model: CachedModel[Any],
    source: Int[Tensor, "B S"],
    source_mask: Bool[Tensor, "B S"],
    options: SamplingOptions,
    numbers: Sequence[int] | None = None,
) -> list[Hypothesis]:
    """Return one sampled hypothesis a sentence, decided by the seed and its own number, not by its batch.

    `numbers` are the sentences' numbers, by default their indices in the batch. Scores are the model's own
    log-probabilities, whatever was truncated or sharpened for sampling.
    """
    caps = length_caps(source_mask, options)
    uniforms = _uniforms(options.seed, range(len(caps)) if numbers is None else numbers, caps).to(source.device)

    def draw_next(following: NextTokens, stepper: Stepper) -> Tensor:
        probabilities, ids = candidates(following.logits, options)
        indices = draw(probabilities, uniforms[stepper.sentences, stepper.length - 1])
        return ids.gather(1, indices.unsqueeze(1)).squeeze(1)

    return decode_single(model, source, source_mask, options, draw_next)


def candidates(
    logits: Float[Tensor, "B V"], options: SamplingOptions
) -> tuple[Float[Tensor, "B C"], Int[Tensor, "B C"]]:
    """Return probabilities to sample with, and their ids; what top-p and min-p cut has probability 0.

    They sum to 1 before top-p and are not normalised again after it. Temperature 0 leaves the one best.
    """
    width = logits.shape[-1]
    kept = 1 if options.temperature == 0 else min(options.top_k or width, width)
    if kept < width or options.top_p < 1:
        logits, ids = top(logits, kept)
    else:
        ids = torch.arange(width, device=logits.device).expand_as(logits)
    # The largest becomes 0 before the division, so that no temperature overflows into inf - inf.
    distances = logits - logits.amax(dim=-1, keepdim=True)
    probabilities = (distances / max(options.temperature, 1e-30)).softmax(dim=-1)
    if options.top_p < 1:
        # sorted here: a token stays while those before it hold less than the share wanted
        before = probabilities.cumsum(dim=-1) - probabilities
        probabilities = probabilities.masked_fill(before >= options.top_p, 0.0)
    if options.min_p > 0:
        least = options.min_p * probabilities.amax(dim=-1, keepdim=True)
        probabilities = probabilities.masked_fill(probabilities < least, 0.0)
    return probabilities, ids


def draw(probabilities: Float[Tensor, "B C"], uniforms: Float[Tensor, "B"]) -> Int[Tensor, "B"]:
    """Return the index that each uniform number of [0, 1) falls on when the probabilities lie end to end.

    Their sum may be any positive number.
    """
    ends = probabilities.cumsum(dim=-1)
    total = ends[:, -1]
    # uniform * total may round up to total, after which lies nothing
    target = torch.minimum(uniforms * total, torch.nextafter(total, torch.zeros_like(total)))
    return torch.searchsorted(ends, target.unsqueeze(1), right=True).squeeze(1)


def _uniforms(seed: int, numbers: Sequence[int], caps: Sequence[int]) -> Float[Tensor, "B L"]:
    """A random stream for each sentence: one number in [0, 1) for every token it may emit."""
    streams = np.zeros((len(caps), max(caps, default=0)), dtype=np.float32)
    for stream, number, cap in zip(streams, numbers, caps, strict=True):
        stream[:cap] = np.random.default_rng((seed, number)).random(cap, dtype=np.float32)
    return torch.from_numpy(streams)


DecodeBatch = Callable[[Tensor, Tensor, Sequence[int]], list[list[Hypothesis]]]
"""Maps source (B, S), source mask (B, S) and the numbers of the sentences to the hypotheses of each, best first."""


def batch_decoder(model: CachedModel[Any], options: DecodingOptions) -> DecodeBatch:
    """Return the function that decodes a batch: beam search for `BeamOptions`, sampling for `SamplingOptions`.

    Plain options, or a beam of one, are greedy.
    """

    def decode(source: Tensor, source_mask: Tensor, numbers: Sequence[int]) -> list[list[Hypothesis]]:
        if isinstance(options, BeamOptions) and options.beam_size > 1:
            return beam_search(model, source, source_mask, options)
        if isinstance(options, SamplingOptions):
            return [[hypothesis] for hypothesis in sample(model, source, source_mask, options, numbers)]
        return [[hypothesis] for hypothesis in greedy(model, source, source_mask, options)]

    return decode
