"""The gradients of a translator that are whole while those of its encoder are still computed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from torch import Tensor, nn

from dikkat.models.encoder_decoder import EncoderDecoder
from dikkat.training.distributed.exchanged_sum import take
from dikkat.training.parameters import FlatParameters


class EarlyGradients:
    """Hands over the gradients of a decoder in the middle of a backward pass; `spans` are theirs in the flat vector.

    Those of embeddings that the encoder shares are not among them.
    """

    def __init__(self, model: EncoderDecoder, parameters: FlatParameters) -> None:
        self._model, self._parameters = model, parameters
        self._indices = parameters.indices_of(model.decoder_parameters())
        self.spans = parameters.stretches(self._indices)

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


def early_gradients(model: nn.Module, parameters: FlatParameters) -> EarlyGradients | None:
    """Return the early gradients of a translator; None for any other model, where all end together."""
    return EarlyGradients(model, parameters) if isinstance(model, EncoderDecoder) else None
