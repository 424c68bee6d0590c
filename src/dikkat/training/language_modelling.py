"""The task of a language model: windows of text, validated by the likelihood of text that was held out."""

import math
from collections.abc import Callable

import numpy as np
import torch
from jaxtyping import Bool
from torch import Tensor

from dikkat.config import LanguageModelConfig, TrainingConfig
from dikkat.data.packing import Example, Packed, Windows, after_prefix, hidden_tokens, next_tokens
from dikkat.kernels.cross_entropy import smoothed_cross_entropy
from dikkat.kernels.processor import to_device
from dikkat.models.language_model import LanguageModel
from dikkat.nn.layers import training_products
from dikkat.nn.masks import causal_mask
from dikkat.training.distributed.ranks import ONE_PROCESS, Ranks
from dikkat.training.task import WHOLE, Baseline, BatchLoss, Part, Stop, Validation, never, share_out
from dikkat_runtime.errors import msg

MAX_VALIDATION_TOKENS, MIN_VALIDATION_TOKENS = 1 << 18, 1 << 13

Show = Callable[[LanguageModel, int], tuple[tuple[str, str], ...]]
"""Something to look at, as labelled lines, of a model at a validation of that number."""


class LanguageModelTask:
    """Learns the windows of a stream of documents; see `Task`.

    `bits_factor` turns nats a token into bits a byte: tokens a byte of the held-out text, divided by log 2.
    """

    unit = "tokens"

    def __init__(
        self,
        model: LanguageModel,
        windows: Windows,
        held_out: Windows,
        config: LanguageModelConfig,
        training: TrainingConfig,
        bits_factor: float,
        show: Show,
    ) -> None:
        self.model = model
        self.windows, self.batches_per_epoch = windows, windows.batches_per_epoch
        self.held_out = held_out
        self._config = config
        self._seed, self._smoothing = training.seed, training.label_smoothing
        self._bits_factor = bits_factor
        self._show = show
        self._validation_tokens = MAX_VALIDATION_TOKENS

    def loss(self, position: int, progress: float, part: Part = WHOLE) -> BatchLoss:
        """Compute the smoothed cross-entropy of the predicted tokens of a batch."""
        example = self._example(self.windows.at(position), (self._seed, position))
        if part != WHOLE:
            example = example.select(part.of(np.arange(len(example.tokens))))
            if not (len(example.tokens) if example.predicted is None else example.predicted.any()):
                return BatchLoss.of_nothing(self.model.output_weight.device)
        return batch_loss(self.model, example, self._smoothing)

    def baseline(self) -> Baseline:
        """Return minus the loss of predicting by the frequency of tokens."""
        vocabulary = self.model.output_weight.shape[0]
        # one more of each, so that none is impossible
        counts = self.windows.token_counts(vocabulary) + 1.0
        asked = self.held_out.token_counts(vocabulary)
        loss = -float((np.log(counts / counts.sum()) * asked).sum() / asked.sum())
        return Baseline(-loss, 0.01 * loss, msg("predicting each token by its frequency (loss {loss:.4f})", loss))

    def limit_validation(self, share: float) -> float:
        most = min(MAX_VALIDATION_TOKENS, self.held_out.num_tokens)
        self._validation_tokens = min(most, max(MIN_VALIDATION_TOKENS, round(share * most)))
        return self._validation_tokens / most

    def validate(self, number: int, should_stop: Stop = never, ranks: Ranks = ONE_PROCESS) -> Validation:
        """Compute loss, perplexity and bits a byte of held-out text; see `Task`."""
        batches = list(self.held_out.in_order(self._validation_tokens))

        def loss_of(index: int) -> tuple[float, int]:
            # the same question each time
            part = batch_loss(self.model, self._example(batches[index], (0, index)), smoothing=0.0)
            return float(part.likelihood), part.predictions

        with torch.inference_mode():
            total, tokens = map(sum, zip(*share_out(ranks, len(batches), loss_of, should_stop), strict=True))
        loss = total / tokens
        if not math.isfinite(loss):
            return Validation.broken(loss)
        scores = {"perplexity": math.exp(min(loss, 700.0))}
        if self._config.objective != "masked":
            scores["bits_per_byte"] = loss * self._bits_factor
        return Validation(loss, scores, -loss, self._show(self.model, number))

    def _example(self, packed: Packed, seed: tuple[int, int]) -> Example:
        if self._config.objective == "causal":
            return next_tokens(packed)
        generator = np.random.default_rng((seed[0] % 2**64, seed[1]))
        if self._config.objective == "prefix":
            return after_prefix(packed, generator)
        return hidden_tokens(packed, self._config.masked_share, self.model.output_weight.shape[0], generator)


def batch_loss(model: LanguageModel, example: Example, smoothing: float) -> BatchLoss:
    """Compute the losses of a batch, counted in predicted tokens; only their hidden states reach the vocabulary."""
    device = model.output_weight.device
    position_ids = None if example.position_ids is None else to_device(example.position_ids, device)
    # (B, T, D) -> (B * T, D)
    rows = model.hidden(to_device(example.tokens, device), visible(example, model), position_ids).flatten(0, 1)
    wanted = example.wanted.reshape(-1)
    if example.predicted is not None:
        real = np.flatnonzero(example.predicted)
        rows, wanted = rows.index_select(0, to_device(real, device)), wanted[real]
    objective, likelihood = smoothed_cross_entropy(
        rows,
        model.output_weight,
        to_device(wanted, device),
        smoothing,
        model.output_bias,
        products=training_products(model),
    )
    return BatchLoss(objective, likelihood, len(wanted))


def visible(example: Example, model: LanguageModel) -> Bool[Tensor, "B 1 T T"] | None:
    """Return the mask of each token's own document, as far as the objective allows; None is the model's default."""
    if example.documents is None and example.prefix is None:
        return None
    device, length = model.output_weight.device, example.tokens.shape[1]
    mask = torch.ones(1, 1, length, length, dtype=torch.bool, device=device)
    if model.objective != "masked":
        mask = causal_mask(length, device=device)
    if example.prefix is not None:
        prefix = to_device(example.prefix, device)
        mask = mask | (torch.arange(length, device=device) < prefix[:, None, None, None])
    if example.documents is not None:
        documents = to_device(example.documents, device)
        mask = mask & (documents[:, None, :, None] == documents[:, None, None, :])
    return mask
