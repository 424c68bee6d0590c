"""Read the labelled texts of a classifier, and split them into training, validation and test parts."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path

import numpy as np

from dikkat.config import ClassifierConfig, DataConfig
from dikkat.data.cleaning import CleaningReport
from dikkat.data.labelled import (
    LabelledText,
    StoredLabels,
    read_labelled,
    require_classes,
    split_remarks,
    table_remarks,
    with_known_labels,
)
from dikkat.data.labelled_splitting import split_labelled
from dikkat.data.near_duplicates import near_key
from dikkat.tasks.common.settings import Request
from dikkat_runtime.errors import DataError, UsageError, joined, msg, plural
from dikkat_runtime.text.foreign_json import shown


@dataclass(frozen=True)
class Parts:
    """Hold labelled texts to train on, to validate on, and to test on in the end (may be empty)."""

    train: StoredLabels
    """They may be many, so that they are read from disk when they are asked for."""
    validation: list[LabelledText]
    test: list[LabelledText]
    report: CleaningReport
    """What was read and left out, with remarks on the data."""

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """Return the classes, in the order of their ids."""
        return tuple(sorted({label for example in self.train for label in example.labels}))

    @cached_property
    def is_multi_label(self) -> bool:
        """Return whether some text has more or fewer than one label."""
        return any(len(example.labels) != 1 for example in chain(self.train, self.validation, self.test))


def read_parts(
    request: Request, classifier: ClassifierConfig, data: DataConfig, seed: int, directory: Path | None = None
) -> Parts:
    """Read and split the data of `request`; the texts are kept in a file without a name in `directory`.

    Raises `UsageError`, `MissingInputError`, `DiskError` or `DataError`, which names counts and reasons where too
    little is left.
    """
    report, name = CleaningReport(unit="texts"), " ".join(request.data)
    separator = classifier.label_separator

    def note(line: str) -> None:
        report.notes.append(line)

    def read(files: Sequence[str]) -> Iterator[LabelledText]:
        return read_labelled(files, request.columns, separator=separator, note=note)

    texts = StoredLabels.store(read(request.data), report, directory)
    if not texts:
        raise DataError("{name}: no labelled text to train on", name)
    require_classes(texts, name)
    report.notes += [msg("{name}: {line}", name, line) for line in table_remarks(texts)]
    if request.validation:
        labels = sorted({label for text in texts for label in text.labels})
        validation = list(with_known_labels(read(request.validation), request.validation, labels))
        parts = Parts(texts, validation, [], report)
    else:
        held_out = split_labelled(texts, data, seed)
        validation, test = ([texts[index] for index in part] for part in held_out)
        parts = Parts(texts.without(np.array(sorted(chain(*held_out)), np.int64)), validation, test, report)
        report.note_held_out(len(validation), len(test))
    _require_enough(parts, name, classifier)
    report.notes += split_remarks(parts.train, parts.validation)
    return parts


def _require_enough(parts: Parts, name: str, config: ClassifierConfig) -> None:
    labels = parts.labels
    if len(labels) < 2:
        only = msg('only one label, "{labels}",', shown(labels[0])) if labels else msg("no label")
        raise DataError("{name}: {labels} on {texts}; a classifier needs two labels or more", name, only, _kept(parts))
    if config.objective == "binary" and len(labels) != 2:
        raise UsageError(
            "{name}: classifier.objective = binary is for 2 classes, but there are {count}", name, len(labels)
        )
    if not parts.validation:
        groups = len({near_key(example.text) for example in parts.train})
        alike = (
            msg(", in only {groups} of near-duplicates,", plural(groups, "group")) if groups < len(parts.train) else ""
        )
        raise DataError(
            "{name}: {texts}{alike} leave none to validate on, which takes 20 different ones; give more texts, "
            "or name validation data with --valid"
        ).fill(name, _kept(parts), alike)


def _kept(parts: Parts) -> str:
    """How many texts there are, and why no more."""
    kept = plural(parts.report.kept, "text")
    reasons = [
        msg("{count:,} {reason}, such as {example}", count, msg(reason), example)
        for reason, count, example in parts.report.rows()
    ]
    return (
        msg("{texts} of {read:,} read (left out {reasons})", kept, parts.report.read, joined("; ", reasons))
        if reasons
        else kept
    )
