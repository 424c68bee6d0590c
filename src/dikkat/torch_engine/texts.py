"""The contract of an engine over the modules of classifiers, language models and sentence encoders, as they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from dikkat.models.classifier import EncoderClassifier
from dikkat.models.language_model import LanguageModel
from dikkat.models.sentence_encoder import SentenceEncoder
from dikkat.nn.cache import StackCache
from dikkat.nn.masks import causal_mask, key_mask, length_mask
from dikkat.nn.pooling import MeanPooling
from dikkat.torch_engine.engine import in_range
from dikkat.torch_engine.generation import Generation
from dikkat_runtime.engine.contract import EngineInfo, Rows
from dikkat_runtime.engine.hypotheses import Memory, require_finite
from dikkat_runtime.engine.native_texts import MAX_LOGITS, padded
from dikkat_runtime.engine.options import GenerationOptions
from dikkat_runtime.native.arrays import Array
from dikkat_runtime.run.parts import WEIGHTS

Hidden = Callable[[Tensor, Tensor], Tensor]
"""Ids (B, S) and a mask that is True at real ones to hidden states (B, S, D), or states to vectors (B, D)."""


class TorchTexts:
    """Base of the engines that read texts: states by `compute`, a vector by `pooling`; module hooks see every call."""

    def __init__(
        self, model: nn.Module, compute: Hidden, pooling: Hidden, *, why_not_native: str = "", where: str = WEIGHTS
    ) -> None:
        """`why_not_native` is shown where nobody asked for this engine; `where` names the weights in messages."""
        self.module, self.where = model.eval(), where
        self._compute, self._pooling = compute, pooling
        weight = next(model.parameters())
        self._device = weight.device
        name = "torch" if self._device.type == "cpu" else f"torch:{self._device.type}"
        self.info = EngineInfo(name, "float32", torch.get_num_threads(), why_not_native=why_not_native)

    @property
    def width(self) -> int:
        """D, the numbers of a vector."""
        embedding: Tensor = self.module.get_parameter("embedding.weight")
        return int(embedding.shape[1])

    @torch.inference_mode()
    def hidden(self, rows: Rows) -> Memory:
        """The state of every id."""
        states = self._compute(*self._padded(rows))
        return Memory(states.float().cpu().numpy(), tuple(map(len, rows)))

    @torch.inference_mode()
    def pool(self, memory: Memory) -> Array:
        """Pool the states of each text to one vector, (B, D)."""
        states = torch.from_numpy(memory.states).to(self._device)
        mask = length_mask(torch.tensor(memory.lengths), states.shape[1]).to(self._device)
        return require_finite(self._pooling(states, mask).float().cpu().numpy(), self.where)

    def _padded(self, rows: Rows) -> tuple[Int[Tensor, "B S"], Bool[Tensor, "B S"]]:
        tokens, mask = padded(rows)
        return torch.from_numpy(tokens).to(self._device), torch.from_numpy(mask).to(self._device)


class TorchClassifier(TorchTexts):
    """The engine of a classifier."""

    def __init__(self, model: EncoderClassifier, *, why_not_native: str = "", where: str = WEIGHTS) -> None:
        super().__init__(model, model.encode, model.pooling, why_not_native=why_not_native, where=where)
        self._model = model

    @torch.inference_mode()
    def logits(self, rows: Rows, shown: Array | None = None) -> Array:
        """Compute the logits of each text, (B, C)."""
        tokens, mask = self._padded(rows)
        mask = mask if shown is None else mask & torch.from_numpy(shown).to(self._device)
        return require_finite(self._model(tokens, mask).float().cpu().numpy(), self.where)


class TorchLanguageModel(TorchTexts):
    """The engine of a language model."""

    def __init__(self, model: LanguageModel, *, why_not_native: str = "", where: str = WEIGHTS) -> None:
        def compute(tokens: Int[Tensor, "B S"], mask: Bool[Tensor, "B S"]) -> Float[Tensor, "B S D"]:
            seen = key_mask(mask)
            if model.objective == "causal":
                seen = seen & causal_mask(tokens.shape[1], device=tokens.device)
            return model.hidden(tokens, seen)

        super().__init__(model, compute, MeanPooling(), why_not_native=why_not_native, where=where)
        self._model = model

    @torch.inference_mode()
    def nats(self, windows: Array, skipped: Sequence[int]) -> float:
        """Negative log-likelihood of ids (B, T+1) after the first of each window and those `skipped`."""
        model, tokens = self._model, torch.from_numpy(windows).to(self._device)
        states = model.hidden(tokens[:, :-1])
        fresh = torch.arange(states.shape[1])[None, :] >= torch.tensor(list(skipped))[:, None]
        fresh = fresh.to(self._device)
        states, wanted, total = states[fresh], tokens[:, 1:][fresh], 0.0
        some = max(1, MAX_LOGITS // model.output_weight.shape[0])
        for rows, right in zip(torch.split(states, some), torch.split(wanted, some), strict=True):
            likelihoods = model.project(rows).float().log_softmax(dim=-1)
            total -= float(likelihoods.gather(1, right[:, None]).double().sum())
        return total

    def write(
        self,
        prompts: Array,
        context: int,
        options: GenerationOptions,
        *,
        forbidden: Sequence[int] = (),
        numbers: Sequence[int] | None = None,
    ) -> Generation:
        """Begin to write on from prompts (R, P); see `WritingEngine`."""
        tokens = torch.from_numpy(prompts).to(self._device)
        model = _FiniteModel(self._model, self.where)
        return Generation(model, tokens, context, options, forbidden=forbidden, numbers=numbers)


class _FiniteModel:
    """A language model whose logits are checked."""

    def __init__(self, model: LanguageModel, where: str) -> None:
        self._model, self._where = model, where

    def start_cache(self) -> StackCache:
        """Return the cache of the model."""
        return self._model.start_cache()

    def read(self, tokens: Int[Tensor, "R T"], cache: StackCache) -> Float[Tensor, "R V"]:
        """Return the logits of the next token. Raises `DataError` where they are not finite."""
        return in_range(self._model.read(tokens, cache), self._where)


class TorchEncoder(TorchTexts):
    """The engine of an imported sentence encoder, pooled as its makers did."""

    def __init__(self, model: SentenceEncoder, pooling: Hidden, *, why_not_native: str = "") -> None:
        super().__init__(model, model, pooling, why_not_native=why_not_native)
