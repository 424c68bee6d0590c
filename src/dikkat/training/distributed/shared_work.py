"""The work that the ranks of a training share: the gradient of an update, and a look at held-out data."""

import hashlib
import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from dikkat.config import TrainingConfig
from dikkat.models.encoder_decoder import EncoderDecoder
from dikkat.training.distributed.exchanged_sum import take
from dikkat.training.distributed.ranks import EarlyPart, Ranks
from dikkat.training.low_rank import LowRankParameters
from dikkat.training.parameters import FlatParameters
from dikkat.training.precision import Precision
from dikkat.training.state import TrainingState
from dikkat.training.task import BatchLoss, Observer, Part, Stop, Task, Validation, ValidationStoppedError


class EarlyGradients:
    """Hands over the gradients of a decoder in the middle of a backward pass; `spans` are theirs in the flat vector.

    Those of embeddings that the encoder shares are not among them.
    """

    def __init__(self, model: EncoderDecoder, parameters: FlatParameters) -> None:
        self._model, self._parameters = model, parameters
        self._indices = parameters.indices_of(model.decoder_parameters())
        self.spans = parameters.ranges(self._indices)

    @contextmanager
    def handed(self, hand_over: Callable[[Tensor], None], sum_before: Tensor | None) -> Iterator[None]:
        """Hand over the early gradients (E,), in float32, of one backward pass in the body, as soon as they are there.

        They are added to their entries in `sum_before` (N,), where there is one. Nothing is handed over in a body
        without a backward pass.
        """

        def collect() -> None:
            self._parameters.collect_early(self._indices)
            entries = take(self._parameters.gradient, self.spans)
            hand_over(entries.float() if sum_before is None else take(sum_before, self.spans).add_(entries))

        with self._model.watched_memory(collect):
            yield


def seed_dropout(seed: int, update: int, micro_step: int, part: int = 0) -> None:
    """Seed PyTorch's generators as a pure function of the position, so that dropout needs no saved state."""
    digest = hashlib.blake2b(f"{seed} {update} {micro_step} {part}".encode(), digest_size=8).digest()
    number = int.from_bytes(digest, "little") >> 1
    torch.default_generator.manual_seed(number)
    if torch.cuda.is_initialized():
        # torch.manual_seed describes the stack of its call to every device that nobody has begun to use
        torch.cuda.manual_seed_all(number)


class GradientSum(NamedTuple):
    """The gradient of one update over all micro-batches of all ranks, and what they lost."""

    gradient: Tensor
    """(N,)"""
    likelihoods: Tensor
    """Of the micro-batches, or of their parts, one after the other."""
    predictions: int
    """The number of predictions that the likelihoods are of."""


@dataclass(frozen=True)
class SharedWork:
    """Lets every rank do its share of an update and of a validation, and gives all of them the whole."""

    task: Task
    parameters: FlatParameters
    config: TrainingConfig
    ranks: Ranks
    validation_precision: torch.dtype
    """The type of the weights that are validated."""
    early: EarlyGradients | None
    """Gradients that other ranks are sent in the middle of a backward pass."""
    total: Tensor | None
    """(N,): a sum of several micro-batches has more digits than each of them."""

    @classmethod
    def of(
        cls, task: Task, parameters: FlatParameters, config: TrainingConfig, ranks: Ranks, precision: Precision
    ) -> "SharedWork":
        """Divide the work on `task` among `ranks`."""
        model, early = task.model, None
        # in other models than translators all gradients end together
        if ranks.count > 1 and isinstance(model, EncoderDecoder) and not isinstance(parameters, LowRankParameters):
            early = EarlyGradients(model, parameters)
        total = torch.zeros_like(parameters.master) if config.accumulate > 1 else None
        return cls(task, parameters, config, ranks, precision.validation, early, total)

    def sum_gradients(self, state: TrainingState, progress: float) -> GradientSum:
        """Give the device the gradients of the update after `state`, and ask nothing of it."""
        losses: list[BatchLoss] = []
        config, parts = self.config, self.ranks.parts(self.config.micro_batches)
        compute = partial(self._gradient, state, progress, losses)
        early = None if self.early is None else EarlyPart(self.early.spans, compute)
        gradient = self.ranks.sum_parts(config.micro_batches, compute, early)
        likelihoods = torch.stack([loss.likelihood for loss in losses])
        total = config.micro_batches * config.accumulate
        likelihoods = self.ranks.gather(likelihoods, parts.start * config.accumulate, total)
        return GradientSum(gradient, likelihoods, self.ranks.sum_count(sum(loss.predictions for loss in losses)))

    def _gradient(
        self,
        state: TrainingState,
        progress: float,
        losses: list[BatchLoss],
        part: int,
        hand_over: Callable[[Tensor], None] | None = None,
    ) -> Tensor:
        """Add up the gradients of one part of each micro-batch of an update, and append their losses to `losses`.

        `hand_over` is given the early ones of the sum as soon as the last backward pass has them. The vector (N,) holds
        the gradient of the next part after the next call.
        """
        for micro_step in range(self.config.accumulate):
            seed_dropout(self.config.seed, state.updates, micro_step, part)
            with self.parameters.collect_gradients(), self._on_gradients_ready(hand_over, micro_step):
                share = Part(part, self.config.micro_batches)
                loss = self.task.loss(state.position + micro_step, progress, share)
                if loss.predictions:
                    loss.objective.backward()
            if self.total is not None:
                # the first is copied, which spares a pass of zeros
                (self.total.copy_ if micro_step == 0 else self.total.add_)(self.parameters.gradient)
            losses.append(BatchLoss(loss.objective.detach(), loss.likelihood, loss.predictions))
        return self.parameters.gradient if self.total is None else self.total

    def _on_gradients_ready(
        self, hand_over: Callable[[Tensor], None] | None, micro_step: int
    ) -> AbstractContextManager[None]:
        if self.early is None or hand_over is None or micro_step + 1 < self.config.accumulate:
            return nullcontext()
        return self.early.handed(hand_over, self.total)

    def validate(self, number: int, weights: Tensor, should_stop: Stop) -> Validation:
        """Validate `weights` (N,), in evaluation mode, by all ranks; loss and score are those of the first.

        Raises `ValidationStoppedError` on all ranks.
        """
        # the first rank may have more to show of it than the others
        with self.ranks.leading() if self.ranks.is_first else nullcontext():
            validation = self._own_share(number, weights, should_stop)
        if not self.ranks.is_first:
            self.ranks.await_first()
        numbers = (math.nan, math.nan, 1.0, 0.0)
        if validation is not None:
            numbers = (validation.loss, validation.score, 0.0, float(validation.is_meaningful))
        loss, score, is_stopped, is_meaningful = self.ranks.share(numbers)
        self.ranks.tick(False)
        if is_stopped:
            raise ValidationStoppedError
        own = Validation(loss, {}, score, ()) if validation is None else validation
        return replace(own, loss=loss, score=score, is_meaningful=bool(is_meaningful))

    def observe(self, updates: int, observer: Observer) -> None:
        """Let `observer` look at the weights of this update, in float32 as a checkpoint has them."""
        self.task.model.eval()
        try:
            with self.parameters.swapped(self.parameters.master, torch.float32), torch.no_grad():
                observer.observe(updates, self.task.model)
        finally:
            self.task.model.train()

    def _own_share(self, number: int, weights: Tensor, should_stop: Stop) -> Validation | None:
        """Do this rank's share of a validation; returns None where any of them was asked to stop."""
        self.task.model.eval()
        try:
            with self.parameters.swapped(weights, self.validation_precision):
                return self.task.validate(number, should_stop, self.ranks)
        except ValidationStoppedError:
            return None
        finally:
            self.task.model.train()
