"""Write all that training a translator needs into a run directory: tokenizer, ids, held-out text, settings.

Nothing outside the run directory is read again after this, so a run can be resumed when its data has moved.
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np

from dikkat.config import DataConfig, RunConfig, build_config, merge, preset
from dikkat.data.augmentation import augmented
from dikkat.data.cleaning import Cleaner, CleaningReport, normalise
from dikkat.data.corpus import Corpus, source_profile
from dikkat.data.inspection import SAMPLE_PAIRS, odd_side
from dikkat.data.languages import contradicted_by, guess_language, primary_language
from dikkat.data.lessons import installed_phrasebook
from dikkat.data.pairs import Pair
from dikkat.data.readers import LanguageChoice, languages_of, read_pairs
from dikkat.data.splitting import hold_out_pairs
from dikkat.data.stored_pairs import StoredPairs, side_texts, without_duplicates
from dikkat.run_directory import HeldOut, RunDirectory
from dikkat.tasks.common.settings import Request, Settings, require_start
from dikkat.tasks.translation.adapt import scores_before
from dikkat.tasks.translation.base import Base
from dikkat.tasks.translation.defaults import translator_settings
from dikkat.tasks.translation.formality import addressed, note_formality
from dikkat.tasks.translation.general_text import OLD_PAIRS_PER_NEW, General, repeats_of
from dikkat.tasks.translation.guiding import check_guided, write_links
from dikkat.tasks.translation.vocabularies import Vocabularies
from dikkat_runtime.errors import DataError, UsageError, joined, msg, plural
from dikkat_runtime.tasks.reading import usual_forms_of
from dikkat_runtime.text.casing import lower
from dikkat_runtime.text.recasing import usual_forms

# Check parallel text before training: enough pairs, no leaks, the languages that were named.


_MANY_LEFT_OUT = 0.5
_MANY_SEEN = 0.1


def too_little_left(
    data: Sequence[str], sample: Sequence[Pair], report: CleaningReport, train: int, validation: int
) -> DataError:
    """Return the error that says why too few pairs are left, with counts, examples and advice."""
    left = msg("{pairs} to train on and {validation:,} to validate on are left after cleaning").fill(
        plural(train, "pair"), validation
    )
    left_out = msg(": of {pairs} were left out {reasons}", plural(report.read, "pair"), report.reasons())
    why = left_out if report.dropped else ""
    advice = odd_side(sample, data) or msg("give more pairs, or name validation data with --valid")
    return DataError("{data}: {left}{why}; {advice}", " ".join(data), left, why, advice)


def with_looks(error: DataError, data: Sequence[str], sample: Sequence[Pair]) -> DataError:
    """Return an error about the pairs of `data` with its name and with what is unusual about the pairs."""
    odd = odd_side(sample, data)
    return DataError("{data}: {error}{addition}", " ".join(data), error, "; " + odd if odd else "")


def note_losses(data: Sequence[str], sample: Sequence[Pair], report: CleaningReport) -> None:
    """Note in `report` when most pairs are left out, and when the columns are not what they should be."""
    name, odd = " ".join(data), odd_side(sample, data)
    if report.dropped > _MANY_LEFT_OUT * report.read:
        share = report.dropped / report.read
        report.notes.append(
            msg("{name}: {share:.0%} of its pairs are left out; see below why, and look at them", name, share)
        )
    if odd:
        report.notes.append(msg("{name}: {odd}", name, odd))


def note_seen(
    validation_data: Sequence[str], train: Iterable[Pair], validation: Sequence[Pair], report: CleaningReport
) -> int:
    """Return how many validation pairs are in the training data too, and note it when they are many."""
    held_out = {(normalise(pair.source), normalise(pair.target)) for pair in validation}
    trained_on = held_out.intersection((pair.source, pair.target) for pair in train)
    seen = sum((normalise(pair.source), normalise(pair.target)) in trained_on for pair in validation)
    if seen > _MANY_SEEN * len(validation):
        report.notes.append(
            msg(
                "{validation_data}: {seen:,} of its {pairs} are in the training data too, so scores on it say little "
                "about new text"
            ).fill(" ".join(validation_data), seen, plural(len(validation), "pair"))
        )
    return seen


def find_languages(config: DataConfig, pairs: Sequence[Pair], report: CleaningReport) -> dict[str, str]:
    """Return the languages that `config` leaves open, guessed from the text, and note them.

    Texts that contradict a named language are noted as well.
    """
    note = report.notes.append
    named = (config.source_language, config.target_language)
    texts_by_side = (side_texts(pairs, "source"), side_texts(pairs, "target"))
    other = [contradicted_by(texts, name) if name else "" for texts, name in zip(texts_by_side, named, strict=True)]
    if all(other) and (other[0], other[1]) == named[::-1]:
        note(
            msg(
                "languages: by name it is {source_name} to {target_name}, but the source reads like {source} and "
                "the target like {target}: are the sides swapped?"
            ).fill(named[0], named[1], other[0], other[1])
        )
    else:
        for side, name, language in zip(("source", "target"), named, other, strict=True):
            if language:
                note(
                    msg(
                        "languages: the {side} is {name} by name, but reads like {language}; if so, give "
                        "--{option}-language {language}"
                    ).fill(msg(side), name, language, side)
                )
    guessed = {
        f"{side}_language": guess_language(texts)
        for side, name, texts in zip(("source", "target"), named, texts_by_side, strict=True)
        if not name
    }
    guessed = {key: language for key, language in guessed.items() if language}
    if guessed:
        languages = ((msg(key.partition("_")[0]), language) for key, language in guessed.items())
        guesses = joined(", ", (msg("the {side} reads like {language}", *pair) for pair in languages))
        note(msg("languages: {guesses}; if they are not, give --source-language and --target-language", guesses))
    final = [guessed.get(f"{side}_language", name) for side, name in zip(("source", "target"), named, strict=True)]
    if guessed and final[0] == final[1]:
        note(msg("languages: source and target are both {language}: are they the right columns or files?", final[0]))
    return guessed


# Read what a user names as training data of a translator: clean pairs, cut into parts, kept on disk.


PHRASEBOOK = "phrasebook:"
"""Prefix of data that the package generates: `phrasebook:fr`, `phrasebook:tr-en`."""


@dataclass(frozen=True, slots=True)
class TrainRequest(Request):
    """Hold what a user asks of `dikkat train translator`.

    Its data are two aligned files, a table, `gettext:LANGUAGE`, `phrasebook:LANGUAGE` or `phrasebook:PAIR`; its start
    is a finished translator, whose vocabulary and model are kept.
    """

    keep: Sequence[Path] = ()
    """General text in the language of the source, which should be translated as well as before."""

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
        phrases = installed_phrasebook().phrasebook_split(request.phrasebook)
        report = CleaningReport(read=len(phrases.train), kept=len(phrases.train))
        train, validation, test = ([Pair(*phrase) for phrase in part] for part in phrases)
        return Parts(train, validation, test, report)
    cleaner, sample = Cleaner(config), list[Pair]()
    report = cleaner.report
    read = read_pairs(request.data, *request.columns, languages=choice, note=report.notes.append)
    pairs = without_duplicates(StoredPairs.store(cleaner(_sampled(read, sample)), directory), report)
    if request.validation:
        # cleaning would make a score incomparable: what is measured on is only normalised
        raw = read_pairs(request.validation, *request.columns, languages=LanguageChoice(*choice.wanted))
        stripped = [Pair(pair.source.strip(), pair.target.strip(), pair.line) for pair in raw]
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


__all__ = ["PHRASEBOOK", "TrainRequest", "prepare", "read_parts"]

VOCABULARY_PAIRS = 1_000_000
"""Pairs that a vocabulary is learned from; of more, so many are drawn by the seed."""
_WORD_PAIRS = 20_000
"""About how many pairs the usual forms of words are learned from."""
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
    if config.data.formality:
        note_formality(request, parts.train, parts.report, config.data.target_language)
    vocabularies = base.vocabularies if base else _vocabularies(parts, config)
    # only generated sentences have links
    kept = list[Pair]() if request.is_phrasebook else None
    general, repeats, passes = General([], [], ""), 1, config.training.max_epochs
    if base:
        general = _general(base, request, parts, passes)
        repeats = repeats_of(len(parts.train), len(general.train) + base.pairs, passes)
        config = build_config(merge(config.model_dump(), {"training": {"max_epochs": passes / repeats}}))
    vocabularies.save(run)
    reports = (parts.report, *(CleaningReport() for _ in range(1, repeats)))
    pairs = chain.from_iterable(_encoded(parts.train, vocabularies, config.data, report, kept) for report in reports)
    slips = chain.from_iterable(_copies(parts.train, config, number) for number in range(repeats))
    copies = _Counted(_encoded(slips, vocabularies, config.data, CleaningReport(), kept))
    wanted = max(0, round(OLD_PAIRS_PER_NEW * repeats * len(parts.train)) - len(general.train))
    replayed = _encoded(general.train, vocabularies, config.data, CleaningReport(), kept)
    old = _Counted(chain(replayed, base.sample(wanted, config.training.seed) if base else ()))
    corpus = Corpus.build(run.make_folder("corpus"), "train", chain(pairs, old, copies))
    if len(corpus) == old.count + copies.count:
        raise DataError(
            "{data}: every training pair has a side of more than {max_length} tokens; set a higher data.max_length"
        ).fill(" ".join(request.data), config.data.max_length)
    write_links(run, kept or (), vocabularies.source, config, request.where)
    _write_held_out(run, {"validation": parts.validation, "test": parts.test, "general": general.held_out})
    for part, held_out in {"validation": parts.validation, "general": general.held_out}.items():
        if held_out:
            Corpus.build(run.corpus, part, _encoded(held_out, vocabularies, config.data, None))
    config = build_config(merge(config.model_dump(), {"model": vocabularies.sizes}), where=request.where)
    if base:
        run.write_tensors(run.initial.name, base.run.load_weights())
    run.write_config(
        {
            **config.model_dump(),
            "task": "translator",
            "data_source": {
                **_describe(request, parts, old.count + (len(corpus) - old.count - copies.count) // repeats),
                "copies": copies.count,
                **(_adapted(base, parts, general, old.count, repeats) if base else {}),
                "words": " ".join([] if config.tokenizer.lowercase else _words(parts.train, config, base)),
                "source_lines": source_profile(
                    corpus.lengths("source"), side_texts(parts.train, "source"), config.data.source_language
                ),
            },
        }
    )
    return config, parts.report


def _copies(pairs: Sequence[Pair], config: RunConfig, number: int) -> Iterator[Pair]:
    data = config.data
    shares = {"typing_errors": data.typing_errors, "no_final_mark": data.no_final_mark}
    copies = augmented(pairs, **shares, seed=config.training.seed + number, target_language=data.target_language)
    if not data.formality:
        return copies
    return chain(copies, (pair for _, pair in addressed(pairs, primary_language(data.target_language))))


def _words(pairs: Sequence[Pair], config: RunConfig, base: Base | None) -> list[str]:
    """Return the usual forms of words of the source; what the base knows is no typing error of the new text."""
    texts = islice(side_texts(pairs, "source"), 0, None, max(1, len(pairs) // _WORD_PAIRS))
    forms = usual_forms(texts, language := config.data.source_language)
    if base is None:
        return forms
    known = usual_forms_of(base.run.read_config(), language)
    # an imported base has no list: it reads words as they are
    return list((known | {lower(form, language): form for form in forms}).values()) if known else []


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
    require_start(request.settings, request.start, request.where)
    if request.start is None:
        if request.keep:
            raise UsageError("--keep is text for the translator of --from to keep; give --from too, or leave it out")
        return None
    if request.preset:
        raise UsageError("--from keeps the model of {start}; leave out --preset", request.start)
    return Base.open(request.start, request.settings, request.where)


def _general(base: Base, request: TrainRequest, parts: Parts, passes: float) -> General:
    """General text without what is held out of the new one; notes what is in both, and what is left out."""
    note = parts.report.notes.append
    general = General.of(base, request.keep, len(parts.train), passes, note)
    held_out = {pair.source for pair in (*parts.validation, *parts.test)}
    train = [pair for pair in general.train if pair.source not in held_out]
    if count := len(general.train) - len(train):
        note(msg("general text: {pairs} left out, which are held out of the new text", plural(count, "pair")))
    note_seen([msg("general text")], parts.train, general.held_out, parts.report)
    return replace(general, train=train)


def _adapted(base: Base, parts: Parts, general: General, old_pairs: int, repeats: int) -> dict[str, Any]:
    before, note = scores_before(base, parts.validation, general), parts.report.notes.append
    kinds = {"new": msg("new text"), "old": msg("general text"), "written": msg("general text as it writes it")}
    scores = joined(", ", (msg("{chrf:.2f} on {kind}", chrf, kinds[part]) for part, chrf in before.items()))
    note(
        msg("{path} before: chrF {scores}; {old_pairs:,} of its pairs are trained on too").fill(
            base.run.path, scores, old_pairs
        )
    )
    if not general.held_out:
        note(
            msg(
                "cannot measure what {path} forgets: it kept no pairs; give sentences in {language} with --keep FILE"
            ).fill(base.run.path, base.config.data.source_language or msg("the language of the source"))
        )
    return {"adapted": {"run": str(base.run.path), "old_pairs": old_pairs, "repeats": repeats, "chrf_before": before}}


def _config(request: TrainRequest, pairs: int, base: Base | None, tags: tuple[str, str] = ("", "")) -> RunConfig:
    """The settings for so many pairs; the languages are those that the user names, that files state, or file names."""
    by_name = (
        installed_phrasebook().languages_of_pair(request.phrasebook)
        if request.is_phrasebook
        else languages_of(request.data)
    )
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
    return Vocabularies.train(side_texts(pairs, "source"), side_texts(pairs, "target"), config)


def _encoded(
    pairs: Iterable[Pair],
    vocabularies: Vocabularies,
    config: DataConfig,
    report: CleaningReport | None,
    kept: list[Pair] | None = None,
) -> Iterator[tuple[list[int], list[int]]]:
    """Return ids of all pairs, `kept` ones; with a `report`, those with a side over `max_length` tokens are counted."""
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


def _write_held_out(run: RunDirectory, parts: dict[HeldOut, list[Pair]]) -> None:
    run.make_folder("held_out")
    for part, pairs in parts.items():
        for side in ("source", "target"):
            path = run.held_out(part, side)
            lines = "".join(f"{getattr(pair, side)}\n" for pair in pairs)
            if pairs or part != "general":
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
