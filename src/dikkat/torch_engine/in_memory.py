"""The engine for a model in memory, whose weights may still change."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from dikkat.config import ClassifierConfig, ModelConfig
from dikkat.models.classifier import EncoderClassifier
from dikkat.models.encoder_decoder import EncoderDecoder
from dikkat.models.language_model import LanguageModel
from dikkat.torch_engine.engine import TorchEngine
from dikkat.torch_engine.texts import TorchClassifier, TorchLanguageModel
from dikkat_runtime.engine.choose import COMPUTED, why_not_native
from dikkat_runtime.engine.contract import ClassifyingEngine, Engine, WritingEngine
from dikkat_runtime.engine.native import NativeEngine
from dikkat_runtime.engine.native_texts import NativeClassifier, NativeLanguageModel
from dikkat_runtime.engine.options import Precision
from dikkat_runtime.engine.settings import ModelSettings, model_settings
from dikkat_runtime.native.arrays import Array

_WHERE = "the model"


def engine_in_memory(model: EncoderDecoder, config: ModelConfig, precision: Precision = "float32") -> Engine:
    """Return the native engine with the weights that `model`, built by `config`, has now; else the torch engine."""
    if why := _why_not(model, config, "translator"):
        return TorchEngine(model, why_not_native=why)
    settings, threads = _settings(config, "translator"), torch.get_num_threads()
    return NativeEngine(settings, _arrays(model), _WHERE, precision=precision, threads=threads)


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
