"""Check parallel text before training: enough pairs, no leaks, the languages that were named."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dikkat.config import DataConfig
from dikkat.data.cleaning import CleaningReport, normalise
from dikkat.data.inspection import odd_side
from dikkat.data.languages import contradicted_by, guess_language
from dikkat.data.pairs import Pair
from dikkat.data.stored_pairs import SideTexts
from dikkat_runtime.errors import DataError, joined, msg, plural

_MANY_LEFT_OUT = 0.5
_MANY_SEEN = 0.1


def too_little_left(
    data: Sequence[str], sample: Sequence[Pair], report: CleaningReport, train: int, validation: int
) -> DataError:
    """Return the error that says why too few pairs are left, with counts, examples and advice."""
    left = msg("{pairs} to train on and {validation:,} to validate on are left after cleaning").fill(
        plural(train, "pair"), validation
    )
    odd = odd_side(sample, data)
    left_out = msg(": of {pairs} were left out {reasons}", plural(report.read, "pair"), report.reasons())
    why = left_out if report.dropped else ""
    advice = odd or msg("give more pairs, or name validation data with --valid")
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
    texts_by_side = (SideTexts(pairs, "source"), SideTexts(pairs, "target"))
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
        guesses = joined(
            ", ",
            (
                msg("the {side} reads like {language}", msg(key.partition("_")[0]), language)
                for key, language in guessed.items()
            ),
        )
        note(msg("languages: {guesses}; if they are not, give --source-language and --target-language", guesses))
    final = [guessed.get(f"{side}_language", name) for side, name in zip(("source", "target"), named, strict=True)]
    if guessed and final[0] == final[1]:
        note(msg("languages: source and target are both {language}: are they the right columns or files?", final[0]))
    return guessed
