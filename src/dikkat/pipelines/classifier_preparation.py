"""From labelled texts to a run directory that holds all that training a classifier needs."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dikkat.config import ClassifierConfig, RunConfig, build_config, merge, preset
from dikkat.data.cleaning import CleaningReport
from dikkat.data.corpus import Corpus
from dikkat.data.labelled import LabelledText, read_labelled, shortened
from dikkat.data.pairs import Pair
from dikkat.data.splitting import split_texts
from dikkat.errors import DataError, UsageError, nearest
from dikkat.pipelines.initial_weights import INITIAL, initial_model, shape_settings
from dikkat.pipelines.settings import without_translating
from dikkat.pipelines.sizing import Settings, classifier_settings_for
from dikkat.run_directory import RunDirectory
from dikkat.text.tokenizer import BOS_ID, Tokenizer

_ENCODED_AT_ONCE = 1_000
_NO_TEST: Settings = {"data": {"test_pairs": 0}}
"""Labelled data comes with a test part of its own, or every text is needed; `data.test_pairs` holds one out."""


@dataclass(frozen=True, slots=True)
class ClassifyRequest:
    """What a user asks of `dikkat train classifier`."""

    data: Sequence[str]
    """A table, or two aligned files, labels first."""
    validation: Sequence[str] = ()
    """Data to validate on, in the same forms; held out from `data` when empty."""
    columns: tuple[str | None, str | None] = (None, None)
    """Columns of label and text: names, or numbers from 1."""
    preset: str | None = None
    settings: Settings = field(default_factory=dict)
    """Overrides of the preset, from a file and from options."""
    where: str = "configuration"
    """Where the overrides come from, for error messages."""
    init: Path | None = None
    """The run whose encoder, embeddings and tokenizer are taken over."""


@dataclass(frozen=True, slots=True)
class Parts:
    """Labelled texts: to train on, to validate on, to test on in the end (may be empty)."""

    train: list[LabelledText]
    validation: list[LabelledText]
    test: list[LabelledText]
    report: CleaningReport

    @property
    def labels(self) -> tuple[str, ...]:
        """The classes, in the order of their ids."""
        return tuple(sorted({each.label for each in self.train}))


def prepare(request: ClassifyRequest, run: RunDirectory) -> tuple[RunConfig, CleaningReport]:
    """Fill `run` with everything that training reads; config.json is written last.

    Raises `UsageError`, `DataError`, `MissingInputError` or `DiskError`, each with file and line where there is one.
    """
    parts = _read_parts(request)
    config = _config(request, len(parts.train))
    _check_classes(request, parts, config.classifier)
    tokenizer = _tokenizer(request, parts, config)
    config = build_config(
        merge(config.model_dump(), {"model": {"vocab_size": tokenizer.vocab_size}}), where=request.where
    )
    initial = initial_model(request.init, config, len(parts.labels)) if request.init else None
    tokenizer.save(run.tokenizer)
    run.make_folder("corpus")
    for name, texts in (("train", parts.train), ("validation", parts.validation)):
        Corpus.build(run.corpus, name, _encoded(texts, parts.labels, tokenizer, config))
    if initial is not None:
        run.write_tensors(INITIAL, initial)
    _write_held_out(run, parts)
    described = {"task": "classifier", "labels": list(parts.labels), "data_source": _describe(request, parts)}
    run.write_config({**config.model_dump(), **described})
    return config, parts.report


def read_ids(ids: Sequence[int], config: ClassifierConfig) -> list[int]:
    """What the model reads of a text: `<bos>`, which stands for the whole, and at most `max_tokens` ids."""
    return [BOS_ID, *shortened(ids, config.max_tokens, config.beginning)]


def labelled_as_known(
    data: Sequence[str], columns: tuple[str | None, str | None], labels: Sequence[str]
) -> Iterator[LabelledText]:
    """Labelled texts whose labels are all in `labels`. Raises `DataError` with file and line for another label."""
    for each in read_labelled(data, *columns):
        if each.label not in labels:
            raise DataError(
                f'{" ".join(data)}:{each.line}: the label "{each.label}" was not in the training data'
                f"{nearest(each.label, labels)}; known: {', '.join(labels)}"
            )
        yield each


def _config(request: ClassifyRequest, texts: int) -> RunConfig:
    base = preset(request.preset) if request.preset else classifier_settings_for(texts)
    trunk = shape_settings(request.init) if request.init else {}
    asked = build_config(merge(_NO_TEST, base, trunk, request.settings), where=request.where)
    config = without_translating(asked, request.where)
    needed, most = config.classifier.max_tokens + 1, config.model.max_positions
    if config.model.positions == "learned" and needed > most:
        raise UsageError(
            f"{request.where}: classifier.max_tokens = {needed - 1} and the mark before them need {needed} positions,"
            f" but model.max_positions = {most}; set classifier.max_tokens to {most - 1} or less"
        )
    return config


def _read_parts(request: ClassifyRequest) -> Parts:
    first = _config(request, texts=0)
    report = CleaningReport(unit="texts")
    texts = list(_without_duplicates(read_labelled(request.data, *request.columns), report))
    if request.validation:
        labels = sorted({each.label for each in texts})
        return Parts(texts, list(labelled_as_known(request.validation, request.columns, labels)), [], report)
    split = split_texts([each.text for each in texts], first.data, first.training.seed)
    train, validation, test = ([texts[index] for index in part] for part in (split.train, split.validation, split.test))
    # a class so rare that none of it is left to train on is not one to ask for
    known = {each.label for each in train}
    validation, test = ([each for each in part if each.label in known] for part in (validation, test))
    return Parts(train, validation, test, report)


def _without_duplicates(texts: Iterator[LabelledText], report: CleaningReport) -> Iterator[LabelledText]:
    seen: set[tuple[str, str]] = set()
    for each in texts:
        report.read += 1
        if (key := (each.label, each.text)) in seen:
            report.note("duplicate", Pair(*each))
            continue
        seen.add(key)
        report.kept += 1
        yield each


def _check_classes(request: ClassifyRequest, parts: Parts, config: ClassifierConfig) -> None:
    name, labels = " ".join(request.data), parts.labels
    if len(labels) < 2:
        only = f'only one label, "{labels[0]}"' if labels else "no labelled text"
        raise DataError(f"{name}: {only}, to train on; a classifier needs two or more")
    if config.objective == "binary" and len(labels) != 2:
        raise UsageError(f"{name}: classifier.objective = binary is for 2 classes, but there are {len(labels)}")
    if not parts.validation:
        raise DataError(
            f"{name}: {len(parts.train)} texts leave none to validate on; give more texts, or name validation data"
            " with --valid"
        )


def _tokenizer(request: ClassifyRequest, parts: Parts, config: RunConfig) -> Tokenizer:
    if request.init is not None:
        return Tokenizer.load(RunDirectory.open(request.init).tokenizer)
    language = config.data.source_language
    return Tokenizer.train([each.text for each in parts.train], config.tokenizer, (language, language))


def _encoded(
    texts: list[LabelledText], labels: tuple[str, ...], tokenizer: Tokenizer, config: RunConfig
) -> Iterator[tuple[list[int], list[int]]]:
    for start in range(0, len(texts), _ENCODED_AT_ONCE):
        some = texts[start : start + _ENCODED_AT_ONCE]
        encoded = tokenizer.encode_batch([each.text for each in some], config.data.source_language)
        for each, ids in zip(some, encoded, strict=True):
            yield read_ids(ids, config.classifier), [labels.index(each.label)]


def _write_held_out(run: RunDirectory, parts: Parts) -> None:
    """The text as source, its label as target."""
    run.make_folder("held_out")
    for part, texts in (("validation", parts.validation), ("test", parts.test)):
        for side, lines in (("source", [each.text for each in texts]), ("target", [each.label for each in texts])):
            path = run.held_out(part, side)  # type: ignore[arg-type]
            run.write_text(str(path.relative_to(run.path)), "".join(f"{line}\n" for line in lines))


def _describe(request: ClassifyRequest, parts: Parts) -> dict[str, Any]:
    """What the card says of the data; the fingerprint is of the training texts and their labels."""
    digest = hashlib.sha256()
    for each in parts.train:
        digest.update(f"{each.label}\t{each.text}\n".encode())
    counts = {label: sum(each.label == label for each in parts.train) for label in parts.labels}
    return {
        "data": list(request.data),
        "validation_data": list(request.validation),
        "preset": request.preset or "chosen from the amount of data",
        "init": None if request.init is None else str(request.init),
        "train_texts": len(parts.train),
        "validation_texts": len(parts.validation),
        "test_texts": len(parts.test),
        "classes": counts,
        "left_out": parts.report.counts,
        "sha256": digest.hexdigest(),
    }
