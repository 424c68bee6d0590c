"""The contract of an engine over the modules of classifiers, language models and sentence encoders, as they are."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from dikkat.config import ClassifierConfig, ModelConfig
from dikkat.models.classifier import EncoderClassifier
from dikkat.models.encoder_decoder import EncoderDecoder
from dikkat.models.language_model import LanguageModel
from dikkat.nn.cache import StackCache
from dikkat.nn.masks import causal_mask, key_mask, length_mask
from dikkat.nn.pooling import MeanPooling
from dikkat.torch_engine.engine import TorchEngine, in_range
from dikkat_runtime.engine.choose import COMPUTED, why_not_native
from dikkat_runtime.engine.contract import ClassifyingEngine, Engine, EngineInfo, Rows, WritingEngine
from dikkat_runtime.engine.hypotheses import Memory, require_finite
from dikkat_runtime.engine.native import NativeEngine
from dikkat_runtime.engine.native_texts import MAX_LOGITS, NativeClassifier, NativeLanguageModel, padded
from dikkat_runtime.engine.options import Precision
from dikkat_runtime.engine.settings import ModelSettings, model_settings
from dikkat_runtime.engine.weights import Weights
from dikkat_runtime.native.arrays import Array
from dikkat_runtime.run.parts import WEIGHTS

# The engine for a model in memory, whose weights may still change.


_WHERE = "the model"


def engine_in_memory(model: EncoderDecoder, config: ModelConfig, precision: Precision = "float32") -> Engine:
    """Return the native engine with the weights that `model`, built by `config`, has now; else the torch engine."""
    if why := _why_not(model, config, "translator"):
        return TorchEngine(model, why_not_native=why)
    weights = Weights(_arrays(model), _WHERE, precision == "int8", torch.get_num_threads())
    return NativeEngine(_settings(config, "translator"), weights)


def classifier_in_memory(
    model: EncoderClassifier, config: ModelConfig, head_config: ClassifierConfig, precision: Precision = "float32"
) -> ClassifyingEngine:
    """Return an engine for a classifier in memory, built by `config` and `head_config`; see `engine_in_memory`."""
    if why := _why_not(model, config, "classifier"):
        return TorchClassifier(model, why_not_native=why)
    outputs: nn.Linear = model.output
    return NativeClassifier(
        _settings(config, "classifier"),
        _arrays(model),
        _WHERE,
        pooling=head_config.pooling,
        outputs=outputs.weight.shape[0],
        is_binary=model.is_binary,
        per_token=model.per_token,
        transform=head_config.transform,
        transform_norm=head_config.transform_norm,
        precision=precision,
        threads=torch.get_num_threads(),
    )


def language_model_in_memory(
    model: LanguageModel, config: ModelConfig, precision: Precision = "float32"
) -> WritingEngine:
    """Return an engine for a language model in memory, built by `config`; see `engine_in_memory`."""
    if why := _why_not(model, config, "lm"):
        return TorchLanguageModel(model, why_not_native=why)
    settings, threads = _settings(config, "lm"), torch.get_num_threads()
    arrays = _arrays(model)
    return NativeLanguageModel(
        settings, arrays, _WHERE, objective=model.objective, precision=precision, threads=threads
    )


def _why_not(model: nn.Module, config: ModelConfig, task: str) -> str:
    """Why the native engine cannot compute the model; empty where it can."""
    why = why_not_native({"model": config.model_dump(), "task": task}, _WHERE)
    device = next(model.parameters()).device.type
    return why or ("" if device == "cpu" else f"the model is on {device}")


def _settings(config: ModelConfig, task: str) -> ModelSettings:
    settings: dict[str, Any] = {"model": config.model_dump()}
    return model_settings(settings, _WHERE, COMPUTED[task])


def _arrays(model: nn.Module) -> dict[str, Array]:
    # a model in training may be computed with in bfloat16, which numpy does not have
    return {name: parameter.detach().float().numpy() for name, parameter in model.named_parameters()}


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
        self._device = next(model.parameters()).device
        outer = (own for name, own in model.named_parameters() if name.endswith("feed_forward.outer.weight"))
        self.width = next(outer).shape[0]
        """D, the numbers of a vector."""
        name = "torch" if self._device.type == "cpu" else f"torch:{self._device.type}"
        self.info = EngineInfo(name, "float32", torch.get_num_threads(), why_not_native=why_not_native)

    @torch.inference_mode()
    def hidden(self, rows: Rows) -> Memory:
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
        tokens, mask = self._padded(rows)
        mask = mask if shown is None else mask & torch.from_numpy(shown).to(self._device)
        return require_finite(self._model(tokens, mask).float().cpu().numpy(), self.where)


class TorchLanguageModel(TorchTexts):
    """The engine of a language model."""

    reads_ahead = False

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

    def start_cache(self) -> StackCache:
        return StackCache(len(self._model.decoder.blocks))

    @torch.inference_mode()
    def next_logits(self, tokens: Array, cache: StackCache, count: int = 1) -> Array:
        """Return logits (R, V) of the token after `tokens` (R, T). Raises `DataError` where they are not finite."""
        logits = self._model.read(torch.from_numpy(tokens).to(self._device), cache)
        return np.asarray(in_range(logits, self.where).float().cpu().numpy())
