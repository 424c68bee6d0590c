"""Write all that training a translator needs into a run directory: tokenizer, ids, held-out text, settings.

Nothing outside the run directory is read again after this, so a run can be resumed when its data has moved.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Any

from dikkat.config import DataConfig, RunConfig, build_config, merge, preset
from dikkat.data.augmentation import augmented
from dikkat.data.cleaning import CleaningReport
from dikkat.data.corpus import Corpus, source_profile
from dikkat.data.languages import primary_language
from dikkat.data.lessons import languages_of_pair
from dikkat.data.pairs import Pair
from dikkat.data.readers import LanguageChoice, languages_of
from dikkat.data.stored_pairs import SideTexts, StoredPairs
from dikkat.data.terms import MAX_SAMPLE, pairs_with_terms
from dikkat.run_directory import RunDirectory
from dikkat.tasks.common.settings import Settings
from dikkat.tasks.translation.adapt import OLD_PAIRS_PER_NEW, Base, scores_before
from dikkat.tasks.translation.data_checks import find_languages
from dikkat.tasks.translation.defaults import translator_settings
from dikkat.tasks.translation.guiding import check_guided, write_links
from dikkat.tasks.translation.parts import PHRASEBOOK, Parts, TrainRequest, parts_of
from dikkat.tasks.translation.vocabularies import Vocabularies
from dikkat_runtime.errors import DataError, UsageError, joined, msg
from dikkat_runtime.text.recasing import usual_forms

__all__ = ["PHRASEBOOK", "TrainRequest", "prepare", "read_parts"]

VOCABULARY_PAIRS = 1_000_000
"""Pairs that a vocabulary is learned from; of more, so many are drawn by the seed."""
_ENCODED_AT_ONCE = 10_000


def prepare(request: TrainRequest, run: RunDirectory) -> tuple[RunConfig, CleaningReport]:
    """Write everything that training reads into `run`, config.json last.

    Raises `UsageError`, `DataError`, `MissingInputError` or `DiskError`, each with file and line where there is one.
    """
    base = _base(request)
    first = _config(request, 0, base)
    choice = _language_choice(request, base)
    parts = parts_of(request, choice, first.data, first.training.seed, run.path)
    config = _config(request, len(parts.train), base, choice.tags)
    if not request.is_phrasebook:
        guessed = find_languages(config.data, parts.train, parts.report)
        config = build_config(merge(config.model_dump(), {"data": guessed}), where=request.where)
    vocabularies = base.vocabularies if base else _vocabularies(parts, config)
    vocabularies.save(run)
    # only generated sentences have links
    kept = list[Pair]() if request.is_phrasebook else None
    pairs = _encoded(parts.train, vocabularies, config.data, parts.report, kept)
    copies, with_terms = (
        _Counted(_encoded(own, vocabularies, config.data, CleaningReport(), kept))
        for own in (_copies(parts.train, config), _with_terms(parts.train, config))
    )
    old = _Counted(base.sample(round(OLD_PAIRS_PER_NEW * len(parts.train)), config.training.seed) if base else ())
    corpus = Corpus.build(run.make_folder("corpus"), "train", chain(pairs, old, copies, with_terms))
    train_pairs = len(corpus) - copies.count - with_terms.count
    if train_pairs == old.count:
        raise DataError(
            "{data}: every training pair has a side of more than {max_length} tokens; set a higher data.max_length"
        ).fill(" ".join(request.data), config.data.max_length)
    write_links(run, kept or (), vocabularies.source, config, request.where)
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
                **_describe(request, parts, train_pairs),
                "copies": copies.count + with_terms.count,
                "with_terms": with_terms.count,
                **(_adapted(base, parts, old.count) if base else {}),
                "words": " ".join([] if config.tokenizer.lowercase else _words(parts.train, config)),
                "source_lines": source_profile(
                    corpus.lengths("source"), SideTexts(parts.train, "source"), config.data.source_language
                ),
            },
        }
    )
    return config, parts.report


def _copies(pairs: Sequence[Pair], config: RunConfig) -> Iterator[Pair]:
    data = config.data
    return augmented(
        pairs, typing_errors=data.typing_errors, no_final_mark=data.no_final_mark, seed=config.training.seed
    )


def _with_terms(pairs: Sequence[Pair], config: RunConfig) -> Iterator[Pair]:
    """Yield copies with terms, none where the vocabulary has no bytes for what stands around these."""
    share = config.data.terms if config.tokenizer.kind in ("bpe", "unigram", "bytes") else 0.0
    return pairs_with_terms(pairs, share, config.data.target_language, config.training.seed)


def _words(pairs: Sequence[Pair], config: RunConfig) -> list[str]:
    texts = islice(SideTexts(pairs, "source"), 0, None, max(1, len(pairs) // MAX_SAMPLE))
    return usual_forms(texts, config.data.source_language)


class _Counted:
    """Count what passes, where it is too much for memory."""

    def __init__(self, rows: Iterable[tuple[list[int], list[int]]]) -> None:
        self._rows, self.count = rows, 0

    def __iter__(self) -> Iterator[tuple[list[int], list[int]]]:
        for row in self._rows:
            self.count += 1
            yield row


def _language_choice(request: TrainRequest, base: Base | None) -> LanguageChoice:
    """The languages that the user names, else those of the base, among those that files of translations hold."""
    named = {**(base.settings(0)["data"] if base else {}), **request.settings.get("data", {})}
    return LanguageChoice(str(named.get("source_language") or ""), str(named.get("target_language") or ""))


def read_parts(request: TrainRequest) -> tuple[Parts, RunConfig]:
    """Return the clean pairs of a request, in their parts, and the settings for them; no run is made."""
    first = _config(request, 0, None)
    choice = _language_choice(request, None)
    parts = parts_of(request, choice, first.data, first.training.seed)
    return parts, _config(request, len(parts.train), None, choice.tags)


def _base(request: TrainRequest) -> Base | None:
    """Open the translator to begin with. Raises `UsageError` where something else would decide the model too."""
    if request.start is None:
        return None
    if request.preset:
        raise UsageError("--from keeps the model of {start}; leave out --preset", request.start)
    return Base.open(request.start, request.settings, request.where)


def _adapted(base: Base, parts: Parts, old_pairs: int) -> dict[str, Any]:
    sources, targets = [pair.source for pair in parts.validation], [pair.target for pair in parts.validation]
    before = scores_before(base, sources, targets)
    scores = joined(", ", (msg("{chrf:.2f} on {kind} text", chrf, part) for part, chrf in before.items()))
    parts.report.notes.append(
        msg("{path} before: chrF {scores}; {old_pairs:,} of its pairs are trained on too").fill(
            base.run.path, scores, old_pairs
        )
    )
    return {"adapted": {"run": str(base.run.path), "old_pairs": old_pairs, "chrf_before": before}}


def _config(request: TrainRequest, pairs: int, base: Base | None, tags: tuple[str, str] = ("", "")) -> RunConfig:
    """The settings for so many pairs; the languages are those that the user names, that files state, or file names."""
    by_name = languages_of_pair(request.phrasebook) if request.is_phrasebook else languages_of(request.data)
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
            "{where}: training.bidirectional_share feeds each side the other's words, but data.vocabularies is "
            "separate; leave out one of the two"
        ).fill(where)
    return config


def _vocabularies(parts: Parts, config: RunConfig) -> Vocabularies:
    """The vocabularies of the training text, of a sample of it where it is more than memory should hold."""
    pairs = parts.train
    if isinstance(pairs, StoredPairs) and len(pairs) > VOCABULARY_PAIRS:
        pairs = pairs.sample(VOCABULARY_PAIRS, config.training.seed)
        parts.report.notes.append(
            msg("vocabulary: learned from {count:,} pairs that were drawn by the seed", len(pairs))
        )
    return Vocabularies.train(SideTexts(pairs, "source"), SideTexts(pairs, "target"), config)


def _encoded(
    pairs: Iterable[Pair],
    vocabularies: Vocabularies,
    config: DataConfig,
    report: CleaningReport | None,
    kept: list[Pair] | None = None,
) -> Iterator[tuple[list[int], list[int]]]:
    """Ids of all pairs; with a `report`, those with a side over `max_length` tokens are left out and counted.

    The pairs that are yielded are put into `kept`.
    """
    rest = iter(pairs)
    while some := list(islice(rest, _ENCODED_AT_ONCE)):
        sources = vocabularies.source.encode_batch([pair.source for pair in some], config.source_language)
        targets = vocabularies.target.encode_batch([pair.target for pair in some], config.target_language)
        for pair, source, target in zip(some, sources, targets, strict=True):
            if report is not None and max(len(source), len(target)) > config.max_length:
                report.note(msg("too many tokens"), pair)
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
        "preset": request.preset or msg("chosen from the amount of data"),
        "train_pairs": train_pairs,
        "validation_pairs": len(parts.validation),
        "validation_seen": parts.validation_seen,
        "test_pairs": len(parts.test),
        "left_out": parts.report.counts,
        "sha256": digest.hexdigest(),
    }
