"""The engines of PyTorch for the models of the runtime, registered as an entry point of `dikkat.engines`."""

from functools import partial
from typing import Any, cast

import torch
from torch import nn

from dikkat.config import RunConfig
from dikkat.explain.attention_map import SentenceMaps
from dikkat.kernels.processor import keep_freed_memory
from dikkat.models.classifier import EncoderClassifier, SentenceEncoder
from dikkat.models.encoder_decoder import EncoderDecoder
from dikkat.models.factory import Factory, build_classifier, build_language_model, build_model
from dikkat.models.language_model import LanguageModel
from dikkat.run_directory import RunDirectory
from dikkat.tasks.common.device import find_device
from dikkat.tasks.common.settings import run_config
from dikkat.tasks.common.weights import build_checked, load_weights
from dikkat.tasks.embedding import encoder_engine, new_encoder
from dikkat.tasks.inspection.reader_attention import AttendingReader
from dikkat.tasks.translation.attention import Attending
from dikkat.torch_engine.engine import TorchContexts, TorchEngine
from dikkat.torch_engine.graph_engine import GraphEngine
from dikkat.torch_engine.static_search import why_not_static
from dikkat.torch_engine.texts import TorchClassifier, TorchLanguageModel, TorchTexts
from dikkat_runtime.engine.choose import EngineChoice, EngineRequest
from dikkat_runtime.errors import UsageError, msg
from dikkat_runtime.tasks.classifier import Classifier
from dikkat_runtime.tasks.embedder import Embedder
from dikkat_runtime.tasks.generator import Generator
from dikkat_runtime.tasks.opening import OpenedModel
from dikkat_runtime.tasks.translator import Translator

__all__ = ["attention_maps", "config_of", "contexts", "open_engine", "open_module"]

TorchModelEngine = TorchEngine | TorchTexts


def open_engine(request: EngineRequest, choice: EngineChoice) -> TorchModelEngine:
    """Return the torch engine with the weights of a run.

    Raises `UsageError` for a device that is not to be had, and for float16 where graphs do not compute the model.
    """
    if request.threads is not None:
        torch.set_num_threads(request.threads)
    # a batch frees what the next one asks for again
    keep_freed_memory()
    model, why = open_module(request, None), choice.shown_reason
    where = str(RunDirectory(request.run).weights)
    if isinstance(model, EncoderClassifier):
        return TorchClassifier(model, why_not_native=why, where=where)
    if isinstance(model, LanguageModel):
        return TorchLanguageModel(model, why_not_native=why, where=where)
    if isinstance(model, SentenceEncoder):
        return encoder_engine(model, RunDirectory(request.run), why)
    assert isinstance(model, EncoderDecoder)  # there are four kinds of models that compute by an engine
    return translation_engine(model, choice, find_device(request.device), where)


def translation_engine(model: EncoderDecoder, choice: EngineChoice, device: torch.device, where: str) -> TorchEngine:
    """Return the engine of a translator; on a GPU that with fixed buffers, where it computes the model unless asked.

    Raises `UsageError` for float16 where it does not.
    """
    reason = choice.shown_reason
    if choice.is_asked or device.type == "cpu":
        return TorchEngine(model, why_not_native=reason, where=where)
    why = why_not_static(model)
    if not why:
        return GraphEngine(model, precision=choice.precision, why_not_native=reason, where=where)
    if choice.precision == "float16":
        raise UsageError("float16 cannot be computed here: {reason}; leave out --precision", why)
    return TorchEngine(model, why_not_native=msg("{reason}; without graphs: {cause}", reason, why), where=where)


def open_module(request: EngineRequest, engine: Any) -> nn.Module:
    """Return the module that a torch `engine` computes with, or a new one with the weights of the run."""
    if isinstance(engine, TorchEngine):
        return engine.model
    if isinstance(engine, TorchTexts):
        return engine.module
    device = find_device(request.device)
    run, config = RunDirectory(request.run), config_of(request)
    new_model = NEW_MODELS[request.config["task"]]
    model = build_checked(run, config.model, partial(new_model, run, config))
    load_weights(model, run)
    return model.to(device).eval()


def config_of(request: EngineRequest) -> RunConfig:
    """Return the settings of a run. Raises `UsageError` for a key that dikkat does not know."""
    return run_config(dict(request.config), str(RunDirectory(request.run).config))


def contexts(engine: TorchEngine) -> TorchContexts:
    """Return what each target token reads from the source, by the modules of a torch engine."""
    return TorchContexts(engine.model)


def attention_maps(model: OpenedModel, text: str, translation: str | None) -> SentenceMaps:
    """Return the attention maps of reading `text` and, of a translator, writing `translation`, or the greedy one.

    Raises `UsageError` for a `translation` of a model that writes none.
    """
    if isinstance(model, Translator):
        attending = Attending(model)
        return attending.greedy(text) if translation is None else attending.forced(text, translation)
    if translation is not None:
        raise UsageError("only a translator writes a translation; leave it out")
    return AttendingReader.of(cast(Classifier | Generator | Embedder, model)).read(text)


def new_translator(run: RunDirectory, config: RunConfig) -> EncoderDecoder:
    """Build the model of a translator with random weights. Raises `UsageError` for settings that fit no model."""
    return build_model(config.model, 0)


def new_classifier(run: RunDirectory, config: RunConfig) -> EncoderClassifier:
    """Build the model of a classifier with random weights. Raises `UsageError` for settings that fit no model."""
    return build_classifier(config.model, config.classifier, len(run.labels()), 0)


def new_language_model(run: RunDirectory, config: RunConfig) -> LanguageModel:
    """Build a language model with random weights. Raises `UsageError` for settings that fit no model."""
    return build_language_model(config.model, config.language_model.objective, 0)


NEW_MODELS = {
    "translator": new_translator,
    "classifier": new_classifier,
    "lm": new_language_model,
    "encoder": new_encoder,
    "tagger": lambda run, config: Factory(config.model).classifier(
        config.classifier, len(run.labels()), per_token=True
    ),
    "regressor": new_classifier,
}
"""What builds a model, by the name of its kind in config.json."""
