"""Open the native engine that computes the model of a run directory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from dikkat_runtime.engine.native import NativeEngine
from dikkat_runtime.engine.native_texts import NativeClassifier, NativeLanguageModel, NativeStack
from dikkat_runtime.engine.precision import PrecisionName, choose_precision
from dikkat_runtime.engine.settings import MAX_VALUE, NATIVE, STACK, model_settings
from dikkat_runtime.engine.shortlist import read_shortlist
from dikkat_runtime.errors import DataError, UsageError
from dikkat_runtime.run.config import labels_of, section
from dikkat_runtime.run.metrics import note_changed_settings
from dikkat_runtime.run.weights import read_weights

EngineT = TypeVar("EngineT", bound=NativeStack)

_OBJECTIVES = ("cross_entropy", "binary", "multi_label")
_POOLINGS = ("mean", "first", "attention", "max")
_READINGS = ("causal", "masked", "prefix")


def open_translation_engine(
    run: Path,
    config: Mapping[str, Any],
    precision: PrecisionName = "float32",
    threads: int | None = None,
    *,
    all_words: bool = False,
) -> NativeEngine:
    """Return the native engine with the weights of a translator's run; with `all_words` its shortlist is left aside.

    Raises as `open_classifier_engine`.
    """
    note_changed_settings(run)
    settings = model_settings(config, str(run / "config.json"), NATIVE)
    chosen, why = choose_precision(run, precision)
    listed = None if all_words else read_shortlist(run, config, settings)
    path = run / "model.safetensors"
    engine = NativeEngine(settings, read_weights(path), str(path), precision=chosen, threads=threads, shortlist=listed)
    engine.info = replace(engine.info, why_precision=why)
    return engine


def open_classifier_engine(
    run: Path, config: Mapping[str, Any], precision: PrecisionName = "float32", threads: int | None = None
) -> NativeClassifier:
    """Return the native engine with the weights of a classifier's run.

    Raises `MissingInputError` or `DataError` naming the file that is missing or damaged, and `UsageError` for a setting
    that needs PyTorch.
    """
    head_config, labels = section(config, "classifier", run), labels_of(run, config)
    pooling = _known(run, "classifier", head_config, "pooling", "mean", _POOLINGS)
    objective = _known(run, "classifier", head_config, "objective", "cross_entropy", _OBJECTIVES)
    outputs = 1 if objective == "binary" else len(labels)

    # a run of an older dikkat has no table
    rows = head_config.get("ngram_rows", 0)
    if type(rows) is not int or not 0 <= rows <= MAX_VALUE:
        raise DataError("{run}: damaged: classifier.ngram_rows is {rows}; restore the file").fill(
            run / "config.json", repr(rows)
        )

    def make(*arguments: Any, **options: Any) -> NativeClassifier:
        return NativeClassifier(*arguments, pooling=pooling, outputs=outputs, ngram_rows=rows, **options)

    return _opened(make, run, config, precision, threads)


def open_language_engine(
    run: Path, config: Mapping[str, Any], precision: PrecisionName = "float32", threads: int | None = None
) -> NativeLanguageModel:
    """Return the native engine with the weights of a language model's run. Raises as `open_classifier_engine`."""
    head_config = section(config, "language_model", run)
    objective = _known(run, "language_model", head_config, "objective", "causal", _READINGS)

    def make(*arguments: Any, **options: Any) -> NativeLanguageModel:
        return NativeLanguageModel(*arguments, objective=objective, **options)

    return _opened(make, run, config, precision, threads)


def _opened(
    make: Callable[..., EngineT], run: Path, config: Mapping[str, Any], asked: PrecisionName, threads: int | None
) -> EngineT:
    note_changed_settings(run)
    settings = model_settings(config, str(run / "config.json"), STACK)
    precision, why = choose_precision(run, asked)
    path = run / "model.safetensors"
    engine = make(settings, read_weights(path), str(path), precision=precision, threads=threads)
    engine.info = replace(engine.info, why_precision=why)
    return engine


def _known(
    run: Path, section_name: str, head_config: Mapping[str, Any], name: str, default: str, known: tuple[str, ...]
) -> Any:
    value = head_config.get(name, default)
    if value not in known:
        raise UsageError("{run}: this runtime does not compute {section_name}.{name} = {value}; upgrade it").fill(
            run, section_name, name, value
        )
    return value
