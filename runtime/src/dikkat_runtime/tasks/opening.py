"""Open the engine that computes the model of a run directory: the native one, or the torch engine of dikkat."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property, partial
from hashlib import sha256
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar
from weakref import WeakValueDictionary

from dikkat_runtime.engine.choose import EngineChoice, EngineFactory, EngineRequest, choose_engine, torch_factory
from dikkat_runtime.engine.contract import Engine, EngineInfo, EngineName
from dikkat_runtime.engine.ensemble import EnsembleEngine
from dikkat_runtime.engine.native import NativeEngine, split_bytes
from dikkat_runtime.engine.native_texts import NativeClassifier, NativeEncoder, NativeLanguageModel, NativeStack
from dikkat_runtime.engine.options import Device, Precision
from dikkat_runtime.engine.precision import PrecisionName
from dikkat_runtime.engine.settings import MAX_VALUE, NATIVE, STACK, ModelSettings, model_settings
from dikkat_runtime.engine.shortlist import read_shortlist
from dikkat_runtime.engine.weights import Weights
from dikkat_runtime.errors import DataError, UsageError
from dikkat_runtime.native.cpu import available_threads
from dikkat_runtime.native.library import ACTIVATIONS
from dikkat_runtime.run.config import labels_of, member_runs, read_config, read_settings, section
from dikkat_runtime.run.manifest import checked
from dikkat_runtime.run.metrics import note_changed_settings
from dikkat_runtime.run.parts import CONFIG, TARGET_TOKENIZER, TOKENIZER, WEIGHTS
from dikkat_runtime.run.weights import base_of, read_stored, read_weights, require_memory
from dikkat_runtime.text.tokenizer import Tokenizer, tokenizer_content

EngineT = TypeVar("EngineT", bound=NativeStack)
OpenNative = Callable[[EngineRequest, Precision], NativeEngine | NativeStack]

_OBJECTIVES = ("cross_entropy", "binary", "multi_label")
_POOLINGS = ("mean", "first", "attention", "max")
_ENCODER_POOLINGS = ("mean", "first", "max", "mean_sqrt_length", "weighted_mean", "last")
_TRANSFORMS = (*ACTIVATIONS, "tanh")
_READINGS = ("causal", "masked", "prefix")


class OpenedModel(ABC):
    """Base of the models over an engine: what dikkat, where it is installed, shows of them beyond what they compute."""

    engine: Any
    kind: ClassVar[str] = ""
    """The name of its kind in config.json; empty for any kind."""
    request: EngineRequest | None = None
    """What the model was opened by; None for one that was made in memory."""

    @classmethod
    def load(
        cls,
        path: str | Path,
        precision: PrecisionName = "float32",
        device: Device = "cpu",
        engine: EngineName = "auto",
        *,
        threads: int | None = None,
    ) -> Self:
        """Return the model of a run directory, trained or imported, by the engine of that name.

        "auto" is native where it can be. Raises `UsageError` for a model of another kind, an engine that cannot run and
        a device that is not to be had, and `MissingInputError` or `DataError` naming the file that is missing or
        damaged.
        """
        run = Path(path)
        config = read_config(run, cls.kind) if cls.kind else {"task": "translator", **read_settings(run)}
        return cls.of_request(EngineRequest(run, config, precision, device, engine, threads))

    @classmethod
    @abstractmethod
    def of_request(cls, request: EngineRequest) -> Self:
        """Return the model that is asked for; raises as `load`."""

    @property
    def info(self) -> EngineInfo:
        """The engine that computes, with its precision and threads."""
        info: EngineInfo = self.engine.info
        return info

    @cached_property
    def model(self) -> Any:
        """The model as a module of PyTorch, in evaluation mode. Raises `UsageError` where dikkat is not installed."""
        return torch_factory().open_module(self._opened_by, self.engine)

    @cached_property
    def config(self) -> Any:
        """The settings of the run as the `RunConfig` of dikkat. Raises `UsageError` where dikkat is not installed."""
        return torch_factory().config_of(self._opened_by)

    def attend(self, text: str, translation: str | None = None) -> Any:
        """Return the attention of every stack, layer and head while reading `text` and, by a translator, writing.

        It is a sequence of `AttentionMap`s of dikkat, whose axes carry the subwords, and which a notebook shows as a
        page: `maps["cross", 2, 1]` is that of layer 2, head 1. A decoder row is labelled with the token that is fed in,
        `<bos>` first. By default `translation` is what the model writes greedily. Raises `DataError` for an empty
        text, and `UsageError` where dikkat is not installed.
        """
        return torch_factory().attention_maps(self, text, translation)

    @property
    def _opened_by(self) -> EngineRequest:
        if self.request is None:
            raise UsageError("only what was opened from a run has a module and settings; name the run")
        return self.request


def open_engine(request: EngineRequest, open_native: OpenNative) -> Any:
    """Return the engine of a request: what `open_native` returns, or the torch engine of dikkat.

    Raises `UsageError` for an engine that cannot run and a device that is not to be had, and `MissingInputError` or
    `DataError` naming the file that is missing or damaged.
    """
    choice = choose_engine(request)
    if choice.why_not_native:
        return _torch_factory(choice).open_engine(request, choice)
    note_changed_settings(request.run)
    engine = open_native(request, choice.precision)
    engine.info = replace(engine.info, why_precision=choice.why_precision)
    return engine


def open_members(request: EngineRequest, open_native: OpenNative) -> Engine:
    """Return the engine of a translator's run, or that of its members where it has several; raises as `open_engine`."""
    engine: Engine = open_engine(request, open_native)
    _, *others = member_runs(request.run, request.config)
    if not others:
        return engine
    # what the first model was tried in holds for all
    alike = replace(request, precision=engine.info.precision)
    of_others = [replace(alike, run=run, config=read_config(run, "translator")) for run in others]
    return EnsembleEngine([engine, *(open_engine(other, open_native) for other in of_others)])


def _torch_factory(choice: EngineChoice) -> EngineFactory:
    """Return the factory of torch engines. Raises `UsageError` where there is none, and says why it is needed."""
    try:
        return torch_factory()
    except UsageError as error:
        if choice.is_asked:
            raise
        raise UsageError("the native engine cannot run here: {reason}; {error}", choice.why_not_native, error) from None


def native_translation(request: EngineRequest, precision: Precision, *, all_words: bool = False) -> NativeEngine:
    """Return the native engine with the weights of a translator's run; with `all_words` its shortlist is left aside."""
    settings = model_settings(request.config, str(request.run / CONFIG), NATIVE)
    shortlist = None if all_words else read_shortlist(request.run, request.config, settings)
    threads = available_threads() if request.threads is None else request.threads
    weights = open_weights(request.run / WEIGHTS, settings, threads, precision)
    engine = NativeEngine(settings, weights, shortlist=shortlist)
    # what C reads is copied by now
    weights.forget_file()
    return engine


_open: "WeakValueDictionary[tuple[Path, int, ModelSettings, int, Precision], Weights]" = WeakValueDictionary()
"""The weights of this process by file, its time of change, model, threads and precision."""


def open_weights(path: Path, settings: ModelSettings, threads: int, precision: Precision = "float32") -> Weights:
    """Return the weights of a translator, which all who have them open share, as adapters do those of their base.

    Raises `OutOfMemoryError` where they do not fit, `MissingInputError` or `DataError`.
    """
    key = path.resolve(), path.stat().st_mtime_ns if path.exists() else 0, settings, threads, precision
    weights = _open.get(key)
    if weights is None:
        require_memory(path, precision)
        stored, base = read_stored(path), base_of(path)
        if base is not None and base_of(base) is not None:
            # what is added to an adapter is added to whole matrices
            stored, base = read_weights(path), None
        of_base = None if base is None else open_weights(base, settings, threads, precision)
        weights = _open[key] = Weights(stored, str(path), precision == "int8", threads, base=of_base)
    return weights


def native_classifier(request: EngineRequest, precision: Precision) -> NativeClassifier:
    """Return the native engine with the weights of a classifier's run."""
    run = request.run
    head_config, labels = section(request.config, "classifier", run), labels_of(run, request.config)
    make = partial(
        NativeClassifier,
        pooling=_known(run, "classifier", head_config, "pooling", "mean", _POOLINGS),
        outputs=len(labels),
        is_binary=_known(run, "classifier", head_config, "objective", "cross_entropy", _OBJECTIVES) == "binary",
        per_token=request.config["task"] == "tagger",
        transform=_known(run, "classifier", head_config, "transform", None, (None, *_TRANSFORMS)),
        transform_norm=_known(run, "classifier", head_config, "transform_norm", False, (False, True)),
    )
    return _native_stack(make, request, precision)


def native_language_model(request: EngineRequest, precision: Precision) -> NativeLanguageModel:
    """Return the native engine with the weights of a language model's run."""
    head_config = section(request.config, "language_model", request.run)
    objective = _known(request.run, "language_model", head_config, "objective", "causal", _READINGS)
    return _native_stack(partial(NativeLanguageModel, objective=objective), request, precision)


def native_encoder(request: EngineRequest, precision: Precision) -> NativeEncoder:
    """Return the native engine with the weights of an imported encoder's run."""
    run, head_config = request.run, section(request.config, "encoder", request.run)
    has_pooler = _known(run, "encoder", head_config, "pooler", False, (False, True))
    poolings = (*_ENCODER_POOLINGS, *(("pooler",) if has_pooler else ()))
    try:
        dense = [(int(width), str(activation)) for width, activation in head_config.get("dense", [])]
    except (TypeError, ValueError):
        dense = [(0, "")]
    if not all(0 < width <= MAX_VALUE and activation in (*_TRANSFORMS, "identity") for width, activation in dense):
        raise DataError("{run}: damaged: encoder.dense is not a list of layers; restore the file", run / CONFIG)
    make = partial(
        NativeEncoder,
        segments=head_config.get("segments", 2),
        pooling=_known(run, "encoder", head_config, "pooling", "mean", poolings),
        has_pooler=has_pooler,
        normalize=_known(run, "encoder", head_config, "normalize", False, (False, True)),
        dense=dense,
    )
    return _native_stack(make, request, precision)


def _native_stack(make: Callable[..., EngineT], request: EngineRequest, precision: Precision) -> EngineT:
    settings = model_settings(request.config, str(request.run / CONFIG), STACK)
    path = request.run / WEIGHTS
    require_memory(path, precision, extra=0 if request.config["task"] == "lm" else split_bytes(settings))
    return make(settings, read_weights(path), str(path), precision=precision, threads=request.threads)


def _known(
    run: Path, section_name: str, head_config: Mapping[str, Any], name: str, default: object, known: tuple[object, ...]
) -> Any:
    value = head_config.get(name, default)
    if value not in known:
        raise UsageError("{run}: this runtime does not compute {section}.{name} = {value}; upgrade it").fill(
            run, section_name, name, value
        )
    return value


# Load the tokenizers of a run, for all kinds of models.


def vocabulary_sizes(run: Path, config: Mapping[str, Any]) -> tuple[int, int | None]:
    """Return those of source and target in the settings of a model. Raises `DataError` where there are none."""
    model = section(config, "model", run)
    size, target_size = model.get("vocab_size"), model.get("target_vocab_size")
    if type(size) is not int or not (target_size is None or type(target_size) is int):
        raise DataError("{run}: damaged: its vocabulary sizes are not numbers; restore the file", run / CONFIG)
    return size, target_size


def load_tokenizers(run: Path, config: Mapping[str, Any]) -> tuple[Tokenizer, Tokenizer]:
    """Return the tokenizers of source and target of a translator, which may be one.

    Raises `MissingInputError`, or `DataError` where one does not fit the model.
    """
    data, (source_size, size) = section(config, "data", run), vocabulary_sizes(run, config)
    kind = data.get("vocabularies", "joint")
    if (kind == "separate") != (size is not None):
        raise DataError(
            "{run}: damaged: data.vocabularies is {kind}, but model.target_vocab_size is {size}; restore the file"
        ).fill(run / CONFIG, kind, size)
    source = _tokenizer(checked(run, TOKENIZER), source_size, str(data.get("source_language", "")))
    language = str(data.get("target_language", ""))
    if kind == "shared_ids":
        return source, _tokenizer(checked(run, TARGET_TOKENIZER), source_size, language)
    if size is None:
        return source, source
    return source, _tokenizer(checked(run, TARGET_TOKENIZER), size, language, "target_vocab_size")


_tokenizers: "WeakValueDictionary[tuple[object, ...], Tokenizer]" = WeakValueDictionary()
"""The tokenizers of this process by the checksum of their file, and what else they were loaded by."""


def _tokenizer(path: Path, *chosen: Any) -> Tokenizer:
    """Return `Tokenizer.load(path, *chosen)`, which all who load an equal file share."""
    key = sha256(tokenizer_content(path)).digest(), *chosen
    tokenizer = _tokenizers.get(key)
    if tokenizer is None:
        tokenizer = _tokenizers[key] = Tokenizer.load(path, *chosen)
    return tokenizer
