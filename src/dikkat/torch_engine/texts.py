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
from dikkat.nn.masks import causal_mask, key_mask, length_mask
from dikkat.nn.pooling import MeanPooling
from dikkat.torch_engine.engine import TorchEngine, in_range
from dikkat.torch_engine.stepper import completing_ngrams, penalized
from dikkat.torch_engine.strategies import candidates, draw
from dikkat_runtime.engine.choose import COMPUTED, why_not_native
from dikkat_runtime.engine.contract import ClassifyingEngine, Engine, EngineInfo, Rows, WritingEngine
from dikkat_runtime.engine.hypotheses import Memory, require_finite
from dikkat_runtime.engine.native import NativeEngine
from dikkat_runtime.engine.native_texts import MAX_LOGITS, NativeClassifier, NativeLanguageModel, padded
from dikkat_runtime.engine.options import GenerationOptions, Precision
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
        ngram_rows=head_config.ngram_rows,
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
    ) -> "Generation":
        """Begin to write on from prompts (R, P); see `WritingEngine`."""
        tokens = torch.from_numpy(prompts).to(self._device)
        return Generation(self._model, tokens, context, options, forbidden=forbidden, numbers=numbers, where=self.where)


# Generate text: rows of tokens grow side by side, one token a step, in constant memory.


class Generation:
    """Continue R rows that begin with `prompts` (R, P).

    A row sees at most `context` tokens. When one more would exceed it, the older half is forgotten and the newer half
    read again from position 0: the model meets only positions that it was trained on, and its output is the same as
    without a cache. `forbidden` ids are never written. The random numbers of a row depend on the seed and on its number
    in `numbers`, by default 0, not on its neighbours. Raises `ValueError` for prompts without tokens or longer than the
    context.
    """

    def __init__(
        self,
        model: LanguageModel,
        prompts: Int[Tensor, "R P"],
        context: int,
        options: GenerationOptions,
        *,
        forbidden: Sequence[int] = (),
        numbers: Sequence[int] | None = None,
        where: str = WEIGHTS,
    ) -> None:
        """`where` names the weights in messages."""
        if not 1 <= prompts.shape[1] <= context:
            raise ValueError(f"a prompt must have 1 to {context} tokens, but has {prompts.shape[1]}")
        self._model, self._context, self._options = model, context, options
        self._forbidden = torch.tensor(list(forbidden), dtype=torch.int64, device=prompts.device)
        self._in_sight = self._unread = prompts
        self._cache, self._where = model.start_cache(), where
        numbers = [0] * len(prompts) if numbers is None else numbers
        self._streams = [np.random.default_rng((options.seed, number)) for number in numbers]

    def step(self) -> list[int]:
        """Generate one more token for every row. Raises `DataError` for logits that are not finite."""
        with torch.inference_mode():
            if self._cache.length + self._unread.shape[1] > self._context:
                self._unread = self._in_sight = self._in_sight[:, -(self._context // 2) :]
                self._cache = self._model.start_cache()
            logits = in_range(self._model.read(self._unread, self._cache), self._where).float()
            if self._options.repetition_penalty != 1.0:
                logits = penalized(logits, self._in_sight, self._options.repetition_penalty)
            if size := self._options.no_repeat_ngram:
                logits.masked_fill_(completing_ngrams(self._in_sight, size, logits.shape[1]), -torch.inf)
            logits[:, self._forbidden] = -torch.inf
            chosen = self._choose(logits)
            self._unread = chosen[:, None]
            self._in_sight = torch.cat([self._in_sight, self._unread], dim=1)
        tokens: list[int] = chosen.tolist()
        return tokens

    def keep(self, rows: Sequence[int]) -> None:
        """Keep only the rows with these indices."""
        index = torch.tensor(list(rows), dtype=torch.int64, device=self._unread.device)
        self._unread, self._in_sight = self._unread[index], self._in_sight[index]
        self._cache.reorder(index)
        self._streams = [self._streams[row] for row in rows]

    def _choose(self, logits: Float[Tensor, "R V"]) -> Int[Tensor, "R"]:
        if self._options.temperature == 0:
            # argmax promises the first of equal entries
            return logits.argmax(dim=-1)
        probabilities, ids = candidates(logits, self._options)
        uniforms = torch.tensor([stream.random(dtype=np.float32) for stream in self._streams], device=logits.device)
        return ids.gather(1, draw(probabilities, uniforms)[:, None])[:, 0]
