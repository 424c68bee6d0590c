"""Write all that training a classifier needs into a run directory, of a size chosen from the amount of text."""

import hashlib
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dikkat.config import RunConfig, build_config, merge, preset
from dikkat.data.cleaning import CleaningReport
from dikkat.data.corpus import Corpus
from dikkat.data.labelled import LabelledText, texts_seen
from dikkat.data.languages import guess_language
from dikkat.models.factory import build_classifier
from dikkat.run_directory import RunDirectory
from dikkat.tasks.classification.data import Parts, read_parts
from dikkat.tasks.classification.obvious_baseline import fit_baseline
from dikkat.tasks.classification.table_fitting import fit_word_table
from dikkat.tasks.common.settings import Request, Settings, require_start, tuning, without_translating
from dikkat.tasks.common.weights import take_tokenizer
from dikkat_runtime.errors import UsageError, msg
from dikkat_runtime.run.parts import WORD_SCORES, WORD_TABLE
from dikkat_runtime.tasks.classifier import read_ids
from dikkat_runtime.text.foreign_tokenizer import AnyTokenizer
from dikkat_runtime.text.tokenizer import Tokenizer

INITIAL = "initial.safetensors"
"""Name of the file of initial weights in the new run's own directory, since the other run may move."""

_BACKBONE = ("embedding.", "positions.", "embedding_norm.", "encoder.")
_FREE = ("dropout", "attention_dropout")
"""Settings that a classifier chooses anew where its backbone was trained here."""
_RENAMED = {
    "translator": {"source_embedding.": "embedding."},
    # a language model is one stack of encoder blocks, which it calls its decoder
    "lm": {"decoder.": "encoder."},
    **{kind: {} for kind in ("classifier", "encoder", "tagger", "regressor")},
}
"""Kinds of runs that keep the parts of a classifier's backbone under another name."""


def shape_settings(path: Path, asked: Settings | None = None, texts: int = 0) -> Settings:
    """Return settings for a backbone of the shape of the run at `path`. Raises `UsageError` where it has none.

    What was imported knows more than these texts say: it is only tuned, by the settings `asked` for. Where their
    minutes are too short to read all `texts` once, an update reads less of each, and teaches the upper layers alone.
    """
    run = RunDirectory.open(path)
    settings = run.read_config()
    task = _task(run, settings)
    is_imported = "imported_from" in settings
    model = {key: value for key, value in settings["model"].items() if is_imported or key not in _FREE}
    model |= {"target_vocab_size": None, "start_from_zero": False, "add_source_eos": True, "target_prefix": None}
    if task == "lm":
        model["encoder_layers"] = model["decoder_layers"]
    shape: Settings = {"model": model, "tokenizer": settings.get("tokenizer", {})}
    if not is_imported:
        return shape
    head_settings = settings.get("encoder", settings.get("classifier", {}))
    pooling = {"pooling": head_settings["pooling"]} if head_settings.get("pooling") in ("mean", "first") else {}
    tuned, layers, dim = tuning(asked or {}), model["encoder_layers"], model["model_dim"]
    classifier = {"max_tokens": TUNED_TOKENS, "word_dropout": 0.0, **pooling}
    weights = layers * dim * (4 * dim + 2 * model["feed_forward_dim"])
    minutes = (asked or {}).get("training", {}).get("minutes")
    if minutes is not None and texts * TUNED_TOKENS * weights > minutes * LEARNED_A_MINUTE:
        classifier |= {"max_tokens": 384, "seen_tokens": 64, "still_layers": layers // 2, "table_rise": 1.0}
        tuned = merge(tuned, {"training": {"validations": 2}})
        model |= {"dropout": 0.0, "attention_dropout": 0.0}
    classifier["max_tokens"] = min(classifier["max_tokens"], model["max_positions"] - 1)
    return merge(tuned, shape, {"classifier": classifier})


def initial_model(path: Path, config: RunConfig, num_classes: int) -> dict[str, Tensor]:
    """Return all weights of a classifier of `config`, those of the backbone from the run at `path`.

    Raises `UsageError` naming the first part that the run does not have or that has another shape.
    """
    run = RunDirectory.open(path)
    renamed = _RENAMED[_task(run, run.read_config())]
    tensors: dict[str, Tensor] = {}
    for name, tensor in run.load_weights().items():
        old = next((prefix for prefix in renamed if name.startswith(prefix)), "")
        tensors[renamed.get(old, "") + name.removeprefix(old)] = tensor
    if (segments := tensors.get("segment_embedding")) is not None:
        # all tokens are of the first kind: its vector is added where all pass
        where = "positions.embedding" if "positions.embedding" in tensors else "embedding.weight"
        tensors[where] = tensors[where] + segments[0]
    if "output_weight" in tensors:
        # a matrix that is tied is saved once, under the name of the output
        tensors.setdefault("embedding.weight", tensors["output_weight"])
    model = build_classifier(config.model, config.classifier, num_classes, config.training.seed)
    own = {name: parameter.detach() for name, parameter in model.named_parameters()}
    for name, tensor in own.items():
        if not name.startswith(_BACKBONE):
            continue
        if name not in tensors:
            raise UsageError("{path}: cannot start from it: it has no {name}", path, name)
        if tensors[name].shape != tensor.shape:
            theirs, ours = (tuple(shape) for shape in (tensors[name].shape, tensor.shape))
            raise UsageError("{path}: cannot start from it: its {name} has the shape {shape}, not {expected}").fill(
                path, name, theirs, ours
            )
        own[name] = tensors[name]
    return own


def _task(run: RunDirectory, settings: dict[str, Any]) -> str:
    task = settings.get("task")
    if task not in _RENAMED:
        raise UsageError('{path}: holds a "{task}"; a classifier cannot start from its encoder', run.path, task)
    return str(task)


TUNED_TOKENS = 256
"""Tokens that a classifier reads of a text where its encoder was imported, unless it is told otherwise."""
LEARNED_A_MINUTE = 2e12
"""Tokens times weights of matrices of an imported encoder that two cores learn in a minute, about."""
MAX_IDLE_LOOKS = 2
"""Validations after which an encoder that adds nothing to the word table learns no more."""


_SIZES = (
    (3_000, (64, 4_000, 0.3, 0.2, 2_048, 30.0)),
    (100_000, (64, 20_000, 0.4, 0.4, 16_384, 5.0)),
    (sys.maxsize, (128, 20_000, 0.2, 0.2, 16_384, 3.0)),
)
"""Below how many texts a classifier has which width, vocabulary, dropout, dropout of words, batches and passes."""


def classifier_settings_for(texts: int, *, has_word_table: bool = True) -> Settings:
    """Return the settings that differ from the defaults for `texts` labelled texts.

    Without a word table an encoder of as many texts learns for longer.

    The row up to 100,000 was chosen by trials on validation data, the others scale it: a label carries little
    information, so a classifier is small, drops much, and never sees all the words of a text at once.
    """
    dim, vocabulary, dropout, word_dropout, batch, epochs = next(row for most, row in _SIZES if texts < most)
    less = {"max_epochs": 0.3, "validations": 3} if has_word_table and 3_000 <= texts < 100_000 else {}
    return {
        "model": {
            "model_dim": dim, "num_heads": 4, "feed_forward_dim": 2 * dim, "encoder_layers": 1, "dropout": dropout,
            "positions": "rotary",
        },
        "tokenizer": {"vocab_size": vocabulary, "lowercase": True},
        "training": {"tokens_per_batch": batch, "max_epochs": epochs, **less},
        "classifier": {"word_dropout": word_dropout, "word_table": True, "baseline": True},
    }  # fmt: skip


_ENCODED_AT_ONCE = 1_000
VOCABULARY_CHARACTERS = 8_000_000
"""Characters that a vocabulary is learned from; of more, texts are drawn by the seed."""
LABEL_BREAK = "\t"
"""Separator between the labels of a held-out text."""
_NO_TEST: Settings = {"data": {"test_pairs": 0}}
"""Labelled data comes with a test part of its own, or every text is needed; `data.test_pairs` holds one out."""


def prepare(request: Request, run: RunDirectory) -> tuple[RunConfig, CleaningReport]:
    """Write everything that training reads into `run`, config.json last.

    Raises `UsageError`, `DataError`, `MissingInputError` or `DiskError`, each with file and line where there is one.
    """
    require_start(request.settings, request.start, request.where)
    first = _config(request, texts=0)
    parts = read_parts(request, first.classifier, first.data, first.training.seed, run.path)
    config = _with_language(_with_objective(_config(request, len(parts.train)), parts, request), parts, request.where)
    initial = initial_model(request.start, config, len(parts.labels)) if request.start else None
    tokenizer = _tokenizer(request, parts, config, run)
    if initial is None:
        sizes: Settings = {"model": {"vocab_size": tokenizer.vocab_size}}
        config = build_config(merge(config.model_dump(), sizes), where=request.where)
    run.make_folder("corpus")
    for name, texts in (("train", parts.train), ("validation", parts.validation)):
        Corpus.build(run.corpus, name, _encoded(texts, parts.labels, tokenizer, config))
    if initial is not None:
        run.write_tensors(INITIAL, initial)
    if config.classifier.word_table:
        _write_word_table(run, parts, config)
    _write_held_out(run, parts)
    source = _describe(request, parts)
    if config.classifier.baseline:
        baseline = fit_baseline(parts.train, parts.validation, parts.labels, config.classifier.model_dump())
        source["baseline"] = asdict(baseline)
        parts.report.notes.append(
            msg(
                "baseline: TF-IDF with logistic regression (scikit-learn) has {score:.2f} on the validation texts, in "
                "{seconds:.1f} s of processor"
            ).fill(baseline.score, baseline.seconds)
        )
    described = {"task": "classifier", "labels": list(parts.labels), "data_source": source}
    run.write_config({**config.model_dump(), **described})
    return config, parts.report


def _with_language(config: RunConfig, parts: Parts, where: str) -> RunConfig:
    """The language of the texts, guessed and noted where none is named: it decides how I is lower-cased."""
    if config.data.source_language or not (language := guess_language(parts.train.texts)):
        return config
    note = msg("language: the texts read like {language}; if they are not, give --text-language", language)
    parts.report.notes.append(note)
    return build_config(merge(config.model_dump(), {"data": {"source_language": language}}), where=where)


def _config(request: Request, texts: int) -> RunConfig:
    with_table = build_config(merge({"classifier": {"word_table": True}}, request.settings), where=request.where)
    has_word_table = with_table.classifier.word_table
    chosen = classifier_settings_for(texts, has_word_table=has_word_table)
    if has_word_table:
        chosen["training"]["patience"] = MAX_IDLE_LOOKS
    base = preset(request.preset) if request.preset else chosen
    backbone = shape_settings(request.start, request.settings, texts) if request.start else {}
    asked = build_config(merge(_NO_TEST, base, backbone, request.settings), where=request.where)
    config = without_translating(asked, request.where)
    needed, most = config.classifier.max_tokens + 1, config.model.max_positions
    if config.model.positions == "learned" and needed > most:
        raise UsageError(
            "{where}: classifier.max_tokens = {tokens} and the mark before them need {positions} positions, but "
            "model.max_positions = {limit}; set classifier.max_tokens to {max_tokens} or less"
        ).fill(request.where, needed - 1, needed, most, most - 1)
    return config


def _with_objective(config: RunConfig, parts: Parts, request: Request) -> RunConfig:
    """With the objective that the labels ask for. Raises `UsageError` where the settings do not go with it."""
    settings, where = config.classifier, request.where
    if not (parts.is_multi_label or settings.label_separator or settings.objective == "multi_label"):
        return config
    asked = request.settings.get("classifier", {}).get("objective", "multi_label")
    if asked != "multi_label":
        raise UsageError(
            "{where}: classifier.objective = {objective} is for texts of one label each, but here they have any "
            "number; set multi_label, or leave it out"
        ).fill(where, asked)
    if settings.balance:
        raise UsageError("{where}: --balance is for texts of one label each, but here they have any number", where)
    merged = merge(config.model_dump(), {"classifier": {"objective": "multi_label"}})
    return build_config(merged, where=where)


def _tokenizer(request: Request, parts: Parts, config: RunConfig, run: RunDirectory) -> AnyTokenizer:
    if request.start is not None:
        return take_tokenizer(run, request.start, config.model.vocab_size)
    language = config.data.source_language
    texts = parts.train
    if (characters := sum(map(len, texts.texts))) > VOCABULARY_CHARACTERS:
        texts = texts.sample(max(1, len(texts) * VOCABULARY_CHARACTERS // characters), config.training.seed)
        note = msg("vocabulary: learned from {count:,} texts that were drawn by the seed", len(texts))
        parts.report.notes.append(note)
    tokenizer = Tokenizer.train(texts.texts, config.tokenizer, (language, language))
    tokenizer.save(run.tokenizer)
    return tokenizer


def _encoded(
    texts: Iterable[LabelledText], labels: tuple[str, ...], tokenizer: AnyTokenizer, config: RunConfig
) -> Iterator[tuple[list[int], list[int]]]:
    rest, number = iter(texts), {label: index for index, label in enumerate(labels)}
    while some := list(islice(rest, _ENCODED_AT_ONCE)):
        encoded = tokenizer.encode_batch([example.text for example in some], config.data.source_language)
        for example, ids in zip(some, encoded, strict=True):
            read = read_ids(tokenizer, ids, config.classifier.max_tokens, config.classifier.beginning)
            yield read, [number[label] for label in example.labels]


def _write_word_table(run: RunDirectory, parts: Parts, config: RunConfig) -> None:
    fitted = fit_word_table(
        parts.train,
        parts.labels,
        is_multi_label=config.classifier.objective == "multi_label",
        language=config.data.source_language,
        seed=config.training.seed,
        balance=config.classifier.balance,
    )
    held_out = [text.text for text in parts.validation]
    if not texts_seen(parts.train, parts.validation):
        fitted.table.learn_novelty(held_out)
    validation = fitted.table.scores(held_out)
    tensors = {name: torch.from_numpy(array) for name, array in fitted.table.arrays().items()}
    run.write_tensors(WORD_TABLE, tensors)
    scores = {"train": fitted.held_out, "validation": validation, "favour": np.array(fitted.favour)}
    run.write_tensors(WORD_SCORES, {name: torch.from_numpy(array) for name, array in scores.items()})
    parts.report.notes.append(
        msg("word table: {size:,} n-grams, fitted to {texts:,} texts in {seconds:.1f} s of processor").fill(
            fitted.table.size, fitted.drawn, fitted.seconds
        )
    )


def _write_held_out(run: RunDirectory, parts: Parts) -> None:
    """The text as source, its labels as target, with tabs between them."""
    run.make_folder("held_out")
    for part, texts in (("validation", parts.validation), ("test", parts.test)):
        for side, lines in (
            ("source", [example.text for example in texts]),
            ("target", [LABEL_BREAK.join(example.labels) for example in texts]),
        ):
            path = run.held_out(part, side)  # type: ignore[arg-type]
            run.write_text(str(path.relative_to(run.path)), "".join(f"{line}\n" for line in lines))


def _describe(request: Request, parts: Parts) -> dict[str, Any]:
    """What the card says of the data, and what reads the same texts again."""
    train, validation = (
        Counter(label for example in part for label in example.labels) for part in (parts.train, parts.validation)
    )
    return {
        "data": list(request.data),
        "columns": list(request.columns),
        "validation_data": list(request.validation),
        "preset": request.preset or msg("chosen from the amount of data"),
        "init": None if request.start is None else str(request.start),
        "train_texts": len(parts.train),
        "validation_texts": len(parts.validation),
        "test_texts": len(parts.test),
        "classes": {label: train[label] for label in parts.labels},
        "validation_classes": {label: validation[label] for label in parts.labels},
        "validation_seen": texts_seen(parts.train, parts.validation),
        "left_out": parts.report.counts,
        "sha256": fingerprint(parts.train),
    }


def fingerprint(texts: Iterable[LabelledText]) -> str:
    """Return the SHA-256 of texts and their labels."""
    digest = hashlib.sha256()
    for example in texts:
        digest.update(LABEL_BREAK.join((*example.labels, f"{example.text}\n")).encode())
    return digest.hexdigest()
