"""Write all that training a translator needs into a run directory: tokenizer, ids, held-out text, settings.

Nothing outside the run directory is read again after this, so a run can be resumed when its data has moved.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

from dikkat.config import DataConfig, RunConfig, build_config, merge, preset
from dikkat.data.cleaning import Cleaner, CleaningReport
from dikkat.data.corpus import Corpus
from dikkat.data.inspection import SAMPLE_PAIRS
from dikkat.data.languages import primary_language
from dikkat.data.line_profile import source_profile
from dikkat.data.pairs import Pair
from dikkat.data.readers import LanguageChoice, languages_of, read_pairs
from dikkat.data.splitting import split_pairs
from dikkat.phrasebook import languages_of_pair, phrasebook_split
from dikkat.run_directory import RunDirectory
from dikkat.tasks.common.settings import Settings
from dikkat.tasks.translation.adapt import OLD_PAIRS_PER_NEW, Base, scores_before
from dikkat.tasks.translation.data_checks import find_languages, note_losses, note_seen, too_little_left, with_looks
from dikkat.tasks.translation.defaults import translator_settings
from dikkat.tasks.translation.guiding import check_guided, write_links
from dikkat.tasks.translation.vocabularies import Vocabularies
from dikkat_runtime.engine.options import Device
from dikkat_runtime.errors import DataError, UsageError

PHRASEBOOK = "phrasebook:"
"""Prefix of data that the package generates: `phrasebook:fr`, `phrasebook:tr-en`."""

_ENCODED_AT_ONCE = 10_000


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


@dataclass(frozen=True, slots=True)
class Parts:
    """Hold clean pairs to train on, to validate on, and to test on in the end (may be empty)."""

    train: list[Pair]
    validation: list[Pair]
    test: list[Pair]
    report: CleaningReport
    validation_seen: int = 0
    """Number of validation pairs that are among the training pairs."""


def prepare(request: TrainRequest, run: RunDirectory) -> tuple[RunConfig, CleaningReport]:
    """Write everything that training reads into `run`, config.json last.

    Raises `UsageError`, `DataError`, `MissingInputError` or `DiskError`, each with file and line where there is one.
    """
    base = _base(request)
    first = _config(request, 0, base)
    choice = _language_choice(request, base)
    parts = _read_parts(request, choice, first.data, first.training.seed)
    config = _config(request, len(parts.train), base, choice.tags)
    if not _is_phrasebook(request):
        guessed = find_languages(config.data, parts.train, parts.report)
        config = build_config(merge(config.model_dump(), {"data": guessed}), where=request.where)
    sources, targets = [pair.source for pair in parts.train], [pair.target for pair in parts.train]
    vocabularies = base.vocabularies if base else Vocabularies.train(sources, targets, config)
    vocabularies.save(run)
    kept = list[Pair]()
    pairs = _encoded(parts.train, vocabularies, config.data, parts.report, kept)
    old = list(base.sample(round(OLD_PAIRS_PER_NEW * len(parts.train)), config.training.seed)) if base else []
    corpus = Corpus.build(run.make_folder("corpus"), "train", chain(pairs, old))
    if len(corpus) == len(old):
        raise DataError(
            f"{' '.join(request.data)}: every training pair has a side of more than {config.data.max_length} tokens;"
            " set a higher data.max_length"
        )
    write_links(run, kept, vocabularies.source, config, request.where)
    Corpus.build(run.corpus, "validation", _encoded(parts.validation, vocabularies, config.data, None))
    _write_held_out(run, parts)
    config = build_config(merge(config.model_dump(), {"model": vocabularies.sizes}), where=request.where)
    if base:
        run.write_tensors(run.initial.name, base.run.load_weights())
    run.write_config(
        {
            **config.model_dump(),
            "task": "translator",
            "data_source": {
                **_describe(request, parts, len(corpus)),
                **(_adapted(base, parts, len(old)) if base else {}),
                "source_lines": source_profile(corpus.source_lengths, sources, config.data.source_language),
            },
        }
    )
    return config, parts.report


def _language_choice(request: TrainRequest, base: Base | None) -> LanguageChoice:
    """The languages that the user names, else those of the base, among those that files of translations hold."""
    named = {**(base.settings(0)["data"] if base else {}), **request.settings.get("data", {})}
    return LanguageChoice(str(named.get("source_language") or ""), str(named.get("target_language") or ""))


def read_parts(request: TrainRequest) -> tuple[Parts, RunConfig]:
    """Return the clean pairs of a request, in their parts, and the settings for them; no run is made."""
    first = _config(request, 0, None)
    choice = _language_choice(request, None)
    parts = _read_parts(request, choice, first.data, first.training.seed)
    return parts, _config(request, len(parts.train), None, choice.tags)


def _base(request: TrainRequest) -> Base | None:
    """Open the translator to begin with. Raises `UsageError` where something else would decide the model too."""
    if request.start is None:
        return None
    if request.preset:
        raise UsageError(f"--from keeps the model of {request.start}; leave out --preset")
    return Base.open(request.start, request.settings, request.where)


def _adapted(base: Base, parts: Parts, old_pairs: int) -> dict[str, Any]:
    sources, targets = [pair.source for pair in parts.validation], [pair.target for pair in parts.validation]
    before = scores_before(base, sources, targets)
    scores = ", ".join(f"{chrf:.2f} on {part} text" for part, chrf in before.items())
    parts.report.notes.append(f"{base.run.path} before: chrF {scores}; {old_pairs:,} of its pairs are trained on too")
    return {"adapted": {"run": str(base.run.path), "old_pairs": old_pairs, "chrf_before": before}}


def _config(request: TrainRequest, pairs: int, base: Base | None, tags: tuple[str, str] = ("", "")) -> RunConfig:
    """The settings for so many pairs; the languages are those that the user names, that files state, or file names."""
    generated = _is_phrasebook(request)
    by_name = languages_of_pair(_phrasebook(request)) if generated else languages_of(request.data)
    source, target = (primary_language(tag) or name for tag, name in zip(tags, by_name, strict=True))
    named: Settings = {"data": {"source_language": source, "target_language": target}}
    if base:
        base.require_languages(" ".join(request.data), source, target)
        layers = [base.settings(pairs), request.settings]
    elif request.preset:
        layers = [named, preset(request.preset), request.settings]
    else:
        layers = [named, translator_settings(pairs, request.settings, request.device), request.settings]
    return _learnable(build_config(merge(*layers), where=request.where), request.where)


def _learnable(config: RunConfig, where: str) -> RunConfig:
    """`config`. Raises `UsageError` where it asks to learn backwards what only a joint vocabulary can be fed, or to
    guide a head that cannot be guided.
    """
    check_guided(config, where)
    if config.data.vocabularies == "separate" and config.training.bidirectional_share:
        raise UsageError(
            f"{where}: training.bidirectional_share feeds each side the other's words, but data.vocabularies is"
            " separate; leave out one of the two"
        )
    return config


def _read_parts(request: TrainRequest, choice: LanguageChoice, config: DataConfig, seed: int) -> Parts:
    if _is_phrasebook(request):
        phrases = phrasebook_split(_phrasebook(request))
        report = CleaningReport(read=len(phrases.train), kept=len(phrases.train))
        train, validation, test = ([Pair(*phrase) for phrase in part] for part in phrases)
        return Parts(train, validation, test, report)
    cleaner, sample = Cleaner(config), list[Pair]()
    report = cleaner.report
    read = read_pairs(request.data, *request.columns, languages=choice, note=report.notes.append)
    pairs = list(cleaner(_sampled(read, sample)))
    if request.validation:
        # cleaning would make a score incomparable: what is measured on is only normalised
        stripped = [Pair(pair.source.strip(), pair.target.strip(), pair.line) for pair in _validation(request, choice)]
        validation = [pair for pair in stripped if pair.source and pair.target]
        seen = note_seen(request.validation, pairs, validation, report)
        parts = Parts(pairs, validation, [], report, seen)
    else:
        try:
            split = split_pairs(pairs, config, seed)
        except DataError as error:
            raise with_looks(error, request.data, sample) from None
        train, validation, test = (
            [pairs[index] for index in indexes] for indexes in (split.train, split.validation, split.test)
        )
        parts = Parts(train, validation, test, report)
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


def _is_phrasebook(request: TrainRequest) -> bool:
    return len(request.data) == 1 and request.data[0].startswith(PHRASEBOOK)


def _phrasebook(request: TrainRequest) -> str:
    return request.data[0].removeprefix(PHRASEBOOK)


def _encoded(
    pairs: list[Pair],
    vocabularies: Vocabularies,
    config: DataConfig,
    report: CleaningReport | None,
    kept: list[Pair] | None = None,
) -> Iterator[tuple[list[int], list[int]]]:
    """Ids of all pairs; with a `report`, those with a side over `max_length` tokens are left out and counted.

    The pairs that are yielded are put into `kept`.
    """
    for start in range(0, len(pairs), _ENCODED_AT_ONCE):
        some = pairs[start : start + _ENCODED_AT_ONCE]
        sources = vocabularies.source.encode_batch([pair.source for pair in some], config.source_language)
        targets = vocabularies.target.encode_batch([pair.target for pair in some], config.target_language)
        for pair, source, target in zip(some, sources, targets, strict=True):
            if report is not None and max(len(source), len(target)) > config.max_length:
                report.note("too many tokens", pair)
                report.kept -= 1
                continue
            if kept is not None:
                kept.append(pair)
            yield source, target


def _write_held_out(run: RunDirectory, parts: Parts) -> None:
    run.make_folder("held_out")
    for part, pairs in (("validation", parts.validation), ("test", parts.test)):
        for side in ("source", "target"):
            path = run.held_out(part, side)  # type: ignore[arg-type]
            lines = "".join(f"{getattr(pair, side)}\n" for pair in pairs)
            run.write_text(str(path.relative_to(run.path)), lines)


def _describe(request: TrainRequest, parts: Parts, train_pairs: int) -> dict[str, Any]:
    """What the card says of the data; the fingerprint is of the clean training pairs."""
    digest = hashlib.sha256()
    for pair in parts.train:
        digest.update(f"{pair.source}\t{pair.target}\n".encode())
    return {
        "data": list(request.data),
        "validation_data": list(request.validation),
        "preset": request.preset or "chosen from the amount of data",
        "train_pairs": train_pairs,
        "validation_pairs": len(parts.validation),
        "validation_seen": parts.validation_seen,
        "test_pairs": len(parts.test),
        "left_out": parts.report.counts,
        "sha256": digest.hexdigest(),
    }
