"""Read what a user names as training data of a translator: clean pairs, cut into parts, kept on disk."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

import numpy as np

from dikkat.config import DataConfig
from dikkat.data.cleaning import Cleaner, CleaningReport
from dikkat.data.inspection import SAMPLE_PAIRS
from dikkat.data.lessons import phrasebook_split
from dikkat.data.pairs import Pair
from dikkat.data.readers import LanguageChoice, read_pairs
from dikkat.data.splitting import hold_out_pairs
from dikkat.data.stored_pairs import StoredPairs, without_duplicates
from dikkat.tasks.common.settings import Settings
from dikkat.tasks.translation.data_checks import note_losses, note_seen, too_little_left, with_looks
from dikkat_runtime.engine.options import Device
from dikkat_runtime.errors import DataError

PHRASEBOOK = "phrasebook:"
"""Prefix of data that the package generates: `phrasebook:fr`, `phrasebook:tr-en`."""


@dataclass(frozen=True, slots=True)
class TrainRequest:
    """Hold what a user asks of `dikkat train translator`."""

    data: Sequence[str]
    """Two aligned files, a table, `gettext:LANGUAGE`, `phrasebook:LANGUAGE` or `phrasebook:PAIR`."""
    validation: Sequence[str] = ()
    """Data to validate on, in the same forms; held out from `data` when empty."""
    columns: tuple[str | None, str | None] = (None, None)
    """Columns of a table: names, or numbers from 1."""
    preset: str | None = None
    settings: Settings = field(default_factory=dict)
    """Overrides of the preset, from a file and from options."""
    where: str = "configuration"
    """Where the overrides come from, for error messages."""
    device: Device = "cpu"
    """Device that the model will be trained on."""
    start: Path | None = None
    """Finished translator to begin with; its vocabulary and model are kept."""

    @property
    def is_phrasebook(self) -> bool:
        """Return whether the package generates the data."""
        return len(self.data) == 1 and self.data[0].startswith(PHRASEBOOK)

    @property
    def phrasebook(self) -> str:
        """Return the language or pair of languages of the phrasebook."""
        return self.data[0].removeprefix(PHRASEBOOK)


@dataclass(frozen=True, slots=True)
class Parts:
    """Hold clean pairs to train on, to validate on, and to test on in the end (may be empty)."""

    train: Sequence[Pair]
    """They may be many, so that they are read from disk when they are asked for."""
    validation: list[Pair]
    test: list[Pair]
    report: CleaningReport
    validation_seen: int = 0
    """Number of validation pairs that are among the training pairs."""


def parts_of(
    request: TrainRequest, choice: LanguageChoice, config: DataConfig, seed: int, directory: Path | None = None
) -> Parts:
    """Return the clean pairs of a request, in their parts.

    What is trained on is kept in a file without a name in `directory`, so that memory does not grow with it. Raises
    `UsageError`, `DataError`, `MissingInputError` or `DiskError`.
    """
    if request.is_phrasebook:
        phrases = phrasebook_split(request.phrasebook)
        report = CleaningReport(read=len(phrases.train), kept=len(phrases.train))
        train, validation, test = ([Pair(*phrase) for phrase in part] for part in phrases)
        return Parts(train, validation, test, report)
    cleaner, sample = Cleaner(config), list[Pair]()
    report = cleaner.report
    read = read_pairs(request.data, *request.columns, languages=choice, note=report.notes.append)
    pairs = without_duplicates(StoredPairs.store(cleaner(_sampled(read, sample)), directory), report)
    if request.validation:
        # cleaning would make a score incomparable: what is measured on is only normalised
        stripped = [Pair(pair.source.strip(), pair.target.strip(), pair.line) for pair in _validation(request, choice)]
        validation = [pair for pair in stripped if pair.source and pair.target]
        seen = note_seen(request.validation, pairs, validation, report)
        parts = Parts(pairs, validation, [], report, seen)
    else:
        try:
            held_out = hold_out_pairs(pairs, config, seed, directory)
        except DataError as error:
            raise with_looks(error, request.data, sample) from None
        validation, test = ([pairs[index] for index in indices] for indices in held_out)
        parts = Parts(pairs.without([np.array(sorted(chain(*held_out)), np.int64)]), validation, test, report)
        report.note_held_out(len(validation), len(test))
    if not parts.train or not parts.validation:
        raise too_little_left(request.data, sample, report, len(parts.train), len(parts.validation))
    note_losses(request.data, sample, report)
    return parts


def _sampled(pairs: Iterable[Pair], sample: list[Pair]) -> Iterator[Pair]:
    """All pairs, the first of which are put into `sample` as well, as they were read."""
    for pair in pairs:
        if len(sample) < SAMPLE_PAIRS:
            sample.append(pair)
        yield pair


def _validation(request: TrainRequest, choice: LanguageChoice) -> Iterator[Pair]:
    return read_pairs(request.validation, *request.columns, languages=LanguageChoice(*choice.wanted))
