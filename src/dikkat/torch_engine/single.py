"""Decode one hypothesis a sentence, token by token: the common part of greedy decoding and sampling."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from dikkat.torch_engine.hypothesis import Outcome, gather_hypotheses, length_penalties
from dikkat.torch_engine.ranking import NextTokens
from dikkat.torch_engine.stepper import CachedModel, Stepper, split_ended
from dikkat_runtime.engine.contract import Hypothesis
from dikkat_runtime.engine.options import DecodingOptions
from dikkat_runtime.special_tokens import EOS_ID, PAD_ID

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
            outcomes.append(_outcome(stepper, history[leaving], total[leaving], leaving, penalties))
            history, total = history[staying], total[staying]
            if len(staying) == 0:
                return [hypotheses[0] for hypotheses in gather_hypotheses(outcomes, batch_size)]
        stepper.advance(tokens.unsqueeze(1), torch.zeros_like(tokens).unsqueeze(1), staying)


def _outcome(
    stepper: Stepper,
    history: Int[Tensor, "N L"],
    total: Float[Tensor, "N"],
    leaving: Int[Tensor, "N"],
    penalties: Float[Tensor, "P"],
) -> Outcome:
    """The one hypothesis of each leaving sentence: (N, ...) -> (N, 1, ...)."""
    length = stepper.length
    emitted = history[:, :length].unsqueeze(1)
    log_probability = total.unsqueeze(1)
    return Outcome(
        sentences=stepper.sentences[leaving],
        tokens=emitted,
        lengths=torch.full_like(leaving, length).unsqueeze(1),
        log_probability=log_probability,
        scores=log_probability / penalties[length],
        finished=emitted[:, :, -1] == EOS_ID,
    )
