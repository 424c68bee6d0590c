"""The language model with its module of PyTorch: the start of a text in, its continuation out."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch

from dikkat.config import RunConfig
from dikkat.models import language_model
from dikkat.models.factory import build_language_model
from dikkat.run_directory import RunDirectory
from dikkat.tasks.common.device import find_device
from dikkat.tasks.common.engines import choose_engine
from dikkat.tasks.common.settings import settings_of
from dikkat.tasks.common.weights import build_checked, load_weights
from dikkat.tasks.common.with_model import WithModel
from dikkat.torch_engine.in_memory import language_model_in_memory
from dikkat.torch_engine.texts import TorchLanguageModel
from dikkat_runtime.engine.contract import EngineName, WritingEngine
from dikkat_runtime.engine.options import Device
from dikkat_runtime.engine.precision import PrecisionName
from dikkat_runtime.tasks.generator import Continuation, Generator
from dikkat_runtime.tasks.opening import open_language_engine
from dikkat_runtime.text.foreign_tokenizer import AnyTokenizer, load_tokenizer, special_tokens_of

__all__ = ["TASK", "Continuation", "LanguageModel"]

TASK = "lm"
"""Of config.json."""


class LanguageModel(WithModel[language_model.LanguageModel], Generator):
    """A trained language model with its tokenizer; an engine computes, the model shows what it attends to."""

    tokenizer: AnyTokenizer

    def __init__(
        self,
        model: language_model.LanguageModel | Callable[[], language_model.LanguageModel],
        tokenizer: AnyTokenizer,
        config: RunConfig,
        *,
        engine: WritingEngine | None = None,
    ) -> None:
        """Without an `engine` it is the native one with the weights that the model has now, where that is possible."""
        self._model, self.config = model, config
        engine = language_model_in_memory(self.model, config.model) if engine is None else engine
        asked = config.language_model
        super().__init__(
            engine, tokenizer, asked.context, objective=asked.objective, special_tokens=special_tokens_of(tokenizer)
        )

    @classmethod
    def load(  # type: ignore[override]
        cls,
        path: str | Path,
        precision: PrecisionName = "float32",
        device: Device = "cpu",
        engine: EngineName = "auto",
    ) -> LanguageModel:
        """The language model of a run directory, trained or imported.

        Raises `UsageError` for a model of another kind and an engine that cannot run, and `MissingInputError` or
        `DataError` naming the file that is missing or damaged.
        """
        where = find_device(device)
        run, settings, config = settings_of(path, TASK)
        choice = choose_engine(run, settings, engine, precision, device)
        model: language_model.LanguageModel | Callable[[], language_model.LanguageModel]
        model = partial(_model_of, run, config, where)
        if choice.is_native:
            computing: WritingEngine = open_language_engine(run.path, settings, precision)
        else:
            model = _model_of(run, config, where)
            computing = TorchLanguageModel(model, why_not_native=choice.shown_reason, where=str(run.weights))
        tokenizer = load_tokenizer(run.tokenizer, config.model.vocab_size, config.data.source_language)
        return cls(model, tokenizer, config, engine=computing)


def _model_of(run: RunDirectory, config: RunConfig, where: torch.device) -> language_model.LanguageModel:
    build = partial(build_language_model, config.model, config.language_model.objective, 0)
    model = build_checked(run, config.model, build)
    load_weights(model, run)
    return model.to(where).eval()
