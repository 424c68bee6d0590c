"""Read a run directory for the browser: checked settings, weights and tokenizers, whatever kind of model it holds."""

import json
import re
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from types import MappingProxyType
from typing import Any

from dikkat.web.model_file import KEPT_OF_TOKENIZER, WebModel
from dikkat.web.reading_table import ngram_table, reading_table
from dikkat_runtime.engine.choose import EngineRequest
from dikkat_runtime.engine.forced_attention import FORCED, ForcedAttention
from dikkat_runtime.engine.native_texts import NativeStack
from dikkat_runtime.engine.options import NativePrecision, SearchDefaults
from dikkat_runtime.engine.precision import PrecisionName, native_precision, read_record
from dikkat_runtime.engine.settings import STACK, NeedsTorchError, model_settings
from dikkat_runtime.engine.weights import Weights
from dikkat_runtime.errors import UsageError, msg
from dikkat_runtime.native.arrays import Array
from dikkat_runtime.run.config import guided_indices, read_config, section, wrong_kind
from dikkat_runtime.run.manifest import checked
from dikkat_runtime.run.parts import TARGET_TOKENIZER, TOKENIZER
from dikkat_runtime.run.weights import read_weights
from dikkat_runtime.tasks.classifier import Classifier
from dikkat_runtime.tasks.opening import load_tokenizers, native_language_model, vocabulary_sizes
from dikkat_runtime.tasks.reading import default_limits, limits_of_run, usual_forms_of
from dikkat_runtime.tasks.word_table import WordTable
from dikkat_runtime.text.foreign_tokenizer import load_tokenizer, special_tokens_of
from dikkat_runtime.text.tokenizer import read_tokenizer

_COMPUTED_IN_BROWSER = {**FORCED, "decoder_memory": ("attention",), "add_source_eos": (True,), "target_prefix": (None,)}
"""The settings of translators that the browser engine computes."""
_COMPUTED_OF_STACKS = {
    **STACK, "score": ("scaled_dot", "dot"), "first_norm": (True,), "relative_span": (None,), "embedding_dim": (None,),
    "output_transform": (None,),
}  # fmt: skip
"""Those of classifiers and language models."""
_COMPUTED_OF_ENCODERS = {name: values for name, values in _COMPUTED_OF_STACKS.items() if name != "embedding_dim"}
"""Those of models that read whole texts."""
_ENCODERS = ("classifier", "tagger", "regressor")
_READ_OF_VOCABULARIES = {
    "BPE", "WordLevel", "NFC", "NFD", "NFKC", "NFKD", "Lowercase", "Prepend", "Replace", "Sequence", "WhitespaceSplit",
    "Digits", "Split", "ByteLevel", "ByteFallback", "Fuse", "Strip",
}  # fmt: skip
"""The parts of a tokenizer.json that it reads."""
_READ_OF_BERT = {"WordPiece", "WordLevel", "BertNormalizer", "BertPreTokenizer"}
"""Those of one that cuts a text as BERT does."""
_MAX_EXAMPLE_LENGTH = 100
"""Characters."""
MAX_SOURCE_TOKENS = 256
"""Tokens of a text that a page translates in one piece, even where training had only shorter ones."""
MAX_TOKENS = 20_000
"""Tokens of a text that a page takes for a classifier, of which it reads the beginning and the end."""


def open_for_web(run: Path, precision: PrecisionName = "auto") -> WebModel:
    """Return the model of a run directory for the browser engine.

    With "auto" weights are in int8, which makes a file a third as large, unless training has measured that they lose
    too much so. Raises `UsageError` for a model with a part that the browser engine lacks, and `MissingInputError` or
    `DataError` naming the file that is missing or damaged.
    """
    kinds = {"translator": _translator, **dict.fromkeys(_ENCODERS, _encoder), "lm": _language_model}
    config = read_config(run)
    if (read := kinds.get(config["task"])) is None:
        raise wrong_kind(run, config, msg("for which there is no page that computes"), is_shown=True)
    if precision == "int4" and config["task"] != "lm":
        raise UsageError("{run}: in a page int4 is for language models; take int8", run)
    parts = _component_types(read_tokenizer(checked(run, TOKENIZER))[0])
    # a tagger tells where in the text each token stands
    is_placed = config["task"] == "tagger" or "BertPreTokenizer" in parts
    if unread := parts - (_READ_OF_BERT if is_placed else _READ_OF_VOCABULARIES):
        raise UsageError(
            "{run}: the browser engine does not read the vocabulary of this model, which has the parts {parts}"
        ).fill(run, ", ".join(sorted(unread)))
    try:
        if config["task"] != "translator":
            computed = _COMPUTED_OF_ENCODERS if config["task"] in _ENCODERS else _COMPUTED_OF_STACKS
            settings = model_settings(config, str(run / "config.json"), computed)
            if settings.global_tokens and "window" in settings.layer_kinds:
                raise NeedsTorchError(str(run), f"model.global_tokens = {settings.global_tokens}")
        return read(run, config, chosen_precision(run, precision))
    except NeedsTorchError as error:
        raise UsageError("{run}: the browser engine lacks a part of this model: {reason}", run, error.reason) from None


def _component_types(settings: Mapping[str, Any]) -> set[str]:
    """Return the types of all parts of a tokenizer.json that turn text into ids and back."""
    parts = json.dumps([settings.get(name) for name in KEPT_OF_TOKENIZER])
    return {settings["model"]["type"], *re.findall(r'"type": "(\w+)"', parts)}


def chosen_precision(run: Path, asked: PrecisionName) -> NativePrecision:
    """Return the precision that is asked for; for "auto" int8, unless training has measured a loss above its limit."""
    native = native_precision(asked)
    if native != "auto":
        return native
    record = read_record(run)
    return "int8" if record is None or record.is_close else "float32"


def example_sentences(run: Path, count: int) -> list[str]:
    """Return up to `count` sentences that the run holds out for tests, evenly spread; none where it holds out none."""
    try:
        lines = checked(run, "held_out/test.source.txt").read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError):
        return []
    usual = list(dict.fromkeys(line for line in lines if line.strip() and len(line) <= _MAX_EXAMPLE_LENGTH))
    return usual[:: max(1, len(usual) // count)][:count]


def _translator(run: Path, config: Mapping[str, Any], precision: NativePrecision) -> WebModel:
    path = run / "model.safetensors"
    settings = model_settings(config, str(run / "config.json"), _COMPUTED_IN_BROWSER)
    arrays = read_weights(path)
    weights = Weights(arrays, str(path), in_bytes=False, threads=1)
    # it asks for every weight of both stacks by name and shape
    ForcedAttention(weights, settings)
    weights.array("output_weight", settings.output_size, settings.model_dim)
    if settings.output_bias:
        weights.array("output_bias", settings.output_size)
    source, _ = load_tokenizers(run, config)
    data = section(config, "data", run)
    languages = str(data.get("source_language", "")), str(data.get("target_language", ""))
    joint = settings.target_vocab_size is None
    positions = settings.max_positions if settings.positions == "learned" else None
    limits = limits_of_run(config, str(run / "config.json"))
    defaults = SearchDefaults.of_run(config, str(run / "config.json"))
    return WebModel(
        task="translator",
        name="-".join(filter(None, languages)) or run.resolve().name,
        settings=asdict(settings),
        arrays={name: arrays[name] for name in weights.used},
        embeddings={settings.source_matrix, settings.target_matrix},
        tokenizers={
            "source": read_tokenizer(checked(run, TOKENIZER))[0],
            "target": None if joint else read_tokenizer(checked(run, TARGET_TOKENIZER))[0],
        },
        precision=precision,
        languages=languages,
        details={
            "longest": max(limits.longest, default_limits(MAX_SOURCE_TOKENS, positions).longest),
            "search": {"lengthPenalty": defaults.length_penalty, "thorough": defaults.thorough},
            "guided": guided_indices(config),
            "reading": reading_table(languages, limits, usual_forms_of(config, languages[0]), source.unmet_marks),
        },
    )


def _encoder(run: Path, config: Mapping[str, Any], precision: NativePrecision) -> WebModel:
    """Return a classifier, or an imported model that reads texts as a classifier does."""
    reader = Classifier.of_request(EngineRequest(run, config, engine="native"))
    engine, head_config = reader.engine, section(config, "classifier", run)
    assert isinstance(engine, NativeStack)  # it was asked for
    # where the ids of a text stand, and how many of them are read
    framed, most = reader.read([-1]), len(reader.kept(range(MAX_TOKENS + 1)))
    at = framed.index(-1)
    details = {
        "maxIds": most,
        "frame": (framed[:at], framed[at + 1 :]),
        # tokens of a long text that are read from its beginning; the others are its last
        "beginning": round(most * reader.beginning),
        "pooling": head_config.get("pooling", "mean"),
        "transform": head_config.get("transform"),
        "transformNorm": bool(head_config.get("transform_norm")),
        "isMultiLabel": reader.is_multi_label,
        "temperature": reader.decision.temperature,
        "encoderWeight": reader.decision.encoder_weight,
        "labels": reader.labels,
        "wordTable": None if reader.table is None else ngram_table(reader.language),
    }
    # a page shows how a tagger reads a text in one piece
    longest = most if config["task"] == "tagger" else MAX_TOKENS
    more = {"classifier": details, "longest": longest}
    return _reader(run, config, engine, precision, more, _table_arrays(reader.table))


def _table_arrays(table: WordTable | None) -> dict[str, Array]:
    if table is None:
        return {}
    arrays = {"word_table.bias": table.bias}
    for part, weights in zip(table.parts, table.weights, strict=True):
        columns = {"hashes": part.hashes, "idf": part.idf, "weights": weights}
        arrays |= {f"word_table.{part.kind}.{name}": column for name, column in columns.items()}
    return arrays


def _language_model(run: Path, config: Mapping[str, Any], precision: NativePrecision) -> WebModel:
    engine = native_language_model(EngineRequest(run, config), "float32")
    if engine.objective == "masked":
        raise UsageError(
            "{run}: was trained to fill in hidden tokens (objective masked); it cannot continue a text", run
        )
    context = int(section(config, "language_model", run).get("context", 256))
    language = str(section(config, "data", run).get("source_language", ""))
    tokenizer = load_tokenizer(checked(run, TOKENIZER), vocabulary_sizes(run, config)[0], language)
    chat = section(config, "language_model", run).get("chat", {})
    # a page asks one question
    asked = {"chat": [chat.get(" user"), chat.get("user ")], **asdict(special_tokens_of(tokenizer, chat))}
    details = {"context": context, "objective": engine.objective, **asked}
    return _reader(run, config, engine, precision, {"languageModel": details, "longest": context})


def _reader(
    run: Path, config: Mapping[str, Any], engine: NativeStack, precision: NativePrecision,
    details: Mapping[str, Any], more: Mapping[str, Array] = MappingProxyType({}),
) -> WebModel:  # fmt: skip
    """Return a model of one stack, whose weights `engine` has asked for by name and shape."""
    settings = engine.stack.settings
    language = str(section(config, "data", run).get("source_language", ""))
    tied = config["task"] == "lm" and settings.tie_embeddings
    return WebModel(
        task=config["task"],
        name=run.resolve().name,
        settings=asdict(settings),
        arrays={**{name: engine.weights.arrays[name] for name in engine.weights.used}, **more},
        embeddings={"output_weight" if tied else "embedding.weight"},
        tokenizers={"source": read_tokenizer(checked(run, TOKENIZER))[0], "target": None},
        precision=precision,
        languages=(language, language),
        details=details,
    )
