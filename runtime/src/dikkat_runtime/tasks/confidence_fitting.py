"""Fit the calibration of confidence on the validation part in a run directory.

Sentences: own translations, labelled with their chrF, also of sources some of whose words nobody knows, as in text of
another kind; and references, whole and with a planted error, some for judging own translations and all for given ones:
errors which the model seldom makes are known too. References have an intercept of their own, which is left out in the
end: else they would teach that what the model finds unlikely is right. The result is then calibrated on the own
translations alone (Platt 1999), out of fold. Words: right are those that are in the reference in the same order; for
given translations the words of references alone are read.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from difflib import SequenceMatcher
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dikkat_runtime.engine.hypotheses import TokenScores
from dikkat_runtime.errors import DataError, MissingInputError, UsageError, reason_of
from dikkat_runtime.run.manifest import checked
from dikkat_runtime.tasks.confidence import (
    EXACT,
    SENTENCE_FEATURES,
    Calibration,
    PairScorer,
    features_of,
    given_features,
    words_of,
)
from dikkat_runtime.tasks.lexicon import Ids, Lexicon, Matrix
from dikkat_runtime.tasks.logistic import Logistic
from dikkat_runtime.text.tokenizer import Tokenizer

ORDERS = range(1, 7)
BETA = 2.0


def chrf(text: str, reference: str) -> float:
    """Return the character F-score from 0 to 100 of n-grams up to six, recall counted twice, without white space."""
    ours, others = "".join(text.split()), "".join(reference.split())
    shares = list[tuple[float, float]]()
    for order in ORDERS:
        own, wanted = (Counter(text[i : i + order] for i in range(len(text) - order + 1)) for text in (ours, others))
        if own and wanted:
            common = (own & wanted).total()
            shares.append((common / own.total(), common / wanted.total()))
    if not shares:
        return 100.0 if ours == others else 0.0
    precision, recall = (sum(column) / len(shares) for column in zip(*shares, strict=True))
    divisor = BETA**2 * precision + recall
    return 100.0 * (1 + BETA**2) * precision * recall / divisor if divisor else 0.0


PLANTED_SHARE = 6
"""Pairs for each one whose reference counts for own translations: more of them rank these worse."""
GARBLED_SHARE = 3
"""Pairs for each one whose source is translated with unknown words, too."""
MAX_PAIRS = 1000
MIN_PAIRS = 20
FOLDS = 5
DECODED_TOGETHER = 1000
GOOD_CHRF = 60.0
"""Character F-score (Popović 2015) from which a translation counts as right where few equal their reference."""
EXACT_SHARE = 0.5
"""Share of validation translations that equal their reference, from which on only such count as right."""


def held_out_pairs(run: Path) -> list[tuple[str, str]]:
    """Return the validation pairs of a run directory. Raises `MissingInputError` where they are not in it."""
    columns = []
    for side in ("source", "target"):
        path = checked(run, f"held_out/validation.{side}.txt")
        try:
            columns.append(path.read_text(encoding="utf-8").split("\n")[:-1])
        except OSError as error:
            raise MissingInputError(
                "{path}: cannot be read ({reason}); confidence is fitted on it, once, where the run was trained; "
                "copy confidence.json from there"
            ).fill(path, reason_of(error)) from None
    pairs = [pair for pair in zip(*columns, strict=False) if all(part.strip() for part in pair)]
    if len(pairs) < MIN_PAIRS:
        raise UsageError(
            "{run}: {count} validation pairs are too few to fit confidence on; at least {minimum} are needed"
        ).fill(run, len(pairs), MIN_PAIRS)
    return pairs[:MAX_PAIRS]


def training_pairs(
    run: Path, tokenizers: tuple[Tokenizer, Tokenizer], *, mixed: bool = False
) -> Iterator[tuple[str, str]]:
    """Yield the training pairs of a run directory as its tokenizers write them; none where it has none.

    Raises `DataError` for a damaged file.
    """
    if not (run / "corpus").is_dir():
        return
    try:
        ids, offsets = (
            np.load(checked(run, f"corpus/train.{part}.npy"), mmap_mode="r", allow_pickle=False)
            for part in ("ids", "offsets")
        )
    except (OSError, EOFError, ValueError) as error:
        raise DataError("{path}: damaged ({error}); restore the file", run / "corpus", error) from None
    order = np.arange(len(offsets) // 2)
    # a file in an order has other words at its end
    indices = 2 * (np.random.default_rng(1).permutation(order) if mixed else order)
    ids, offsets = np.asarray(ids), np.asarray(offsets)
    for first in range(0, len(indices), DECODED_TOGETHER):
        texts = [indices[first : first + DECODED_TOGETHER] + side for side in (0, 1)]
        rows = [[ids[a:b].tolist() for a, b in zip(offsets[own], offsets[own + 1], strict=True)] for own in texts]
        yield from zip(*(part.decode_batch(own) for part, own in zip(tokenizers, rows, strict=True)), strict=True)


def fit_calibration(
    pairs: Sequence[tuple[str, str]],
    translate: Callable[[Sequence[str]], Sequence[tuple[str, TokenScores | None]]],
    scorer: PairScorer,
    lexicon: Lexicon,
) -> Calibration:
    """Return the calibration fitted for the translator of `translate` and `scorer`."""
    sources, references = ([pair[side] for pair in pairs] for side in (0, 1))
    every, some = range(len(pairs)), range(0, len(pairs), GARBLED_SHARE)
    read = [*sources, *(garbled(sources[number], number) for number in some)]
    outputs, known = map(list, zip(*translate(read), strict=True))
    planted = [with_error(text, references, number) for number, text in enumerate(references)]
    sources, texts = [*read, *sources, *sources], [*outputs, *references, *planted]
    pair_of = [*every, *some, *every, *every]
    # where a search reads a list of words, its probabilities are others than those of a pair
    results = scorer.scores(sources, texts, [*known, *[None] * 2 * len(pairs)])
    scores = [pair_scores for pair_scores in results if pair_scores is not None]
    if len(scores) != len(texts):
        raise UsageError("the vocabulary has no tokens for a validation sentence")
    links = [lexicon.compare(*pair) for pair in zip(sources, texts, strict=True)]
    features, word_features, words = features_of(texts, scores, scorer.spans(texts, scores), links)
    quality = [chrf(text, references[number]) / 100 for text, number in zip(outputs, pair_of, strict=False)]
    labels = np.array([*quality, *[1.0] * len(pairs), *[0.0] * len(pairs)])
    right, meaning = judged(outputs[: len(pairs)], references)
    numbers, is_reference = np.array(pair_of), np.arange(len(texts)) >= len(read)
    is_read = ~is_reference | (numbers % PLANTED_SHARE == 0)
    own = zip(words, pair_of, strict=True)
    are_right = np.array([is_right for row, number in own for is_right in words_right(row, references[number])])
    owners = np.repeat(np.arange(len(texts)), list(map(len, words)))
    word, given_word = (
        Logistic.fit(word_features[rows[owners]], are_right[rows[owners]].tolist()) for rows in (is_read, is_reference)
    )
    rows = features[is_read, : len(SENTENCE_FEATURES)]
    sentence = _calibrated(rows, labels[is_read], right, numbers[is_read], is_reference[is_read])
    features = given_features(features, words, given_word.logits(word_features))
    given_sentence = _calibrated(features, labels, right, numbers, is_reference)
    return Calibration(sentence, word, given_sentence, given_word, meaning, len(pairs), lexicon)


def judged(outputs: Sequence[str], references: Sequence[str]) -> tuple[list[bool], str]:
    """Return which translations are right, and the definition of right."""
    exact = [output.split() == reference.split() for output, reference in zip(outputs, references, strict=True)]
    if sum(exact) >= EXACT_SHARE * len(exact):
        return exact, EXACT
    good = [chrf(output, reference) >= GOOD_CHRF for output, reference in zip(outputs, references, strict=True)]
    return good, f"chrF of at least {GOOD_CHRF:.0f} against the reference"


def words_right(words: Sequence[str], reference: str) -> list[bool]:
    """Return for each word of a translation whether it is in the reference, in the same order."""
    others = [word[0] for word in words_of(reference)]
    is_right = [False] * len(words)
    for block in SequenceMatcher(None, list(words), others, autojunk=False).get_matching_blocks():
        is_right[block.a : block.a + block.size] = [True] * block.size
    return is_right


def with_error(text: str, others: Sequence[str], seed: int) -> str:
    """Return a text with one error: a word replaced by one of another text, left out, or swapped with the next."""
    chance = random.Random(seed)
    words, other = text.split(), chance.choice(others).split()
    index = chance.randrange(len(words))
    kind = chance.choice(("another", "another", "less", "swapped"))
    if kind == "less" and len(words) > 1:
        del words[index]
    elif kind == "swapped" and index + 1 < len(words) and words[index] != words[index + 1]:
        words[index : index + 2] = words[index + 1], words[index]
    else:
        choices = [word for word in other if word != words[index]] or [words[index][::-1] + "x"]
        words[index] = chance.choice(choices)
    return " ".join(words)


def garbled(text: str, seed: int) -> str:
    """Return a text with the letters of some words shuffled, of any share of them."""
    chance = random.Random(seed)
    share = chance.random()
    words = ["".join(chance.sample(word, len(word))) if chance.random() < share else word for word in text.split()]
    return " ".join(words)


def _calibrated(
    features: Matrix, labels: Matrix, right: Sequence[bool], pair_of: Ids, is_reference: NDArray[np.bool_]
) -> Logistic:
    """Return weights from all rows; a model that read none of its pairs fits scale and intercept on the first."""
    count, folds = len(right), pair_of % FOLDS
    logits = np.zeros(count)
    for fold in range(FOLDS):
        unseen, own = folds != fold, folds[:count] == fold
        model = _fitted(features[unseen], labels[unseen], is_reference[unseen])
        logits[own] = model.logits(features[:count][own])
    scale, shift = Logistic.fit(logits[:, None], right, ridge=0.01).weights
    weights = scale * _fitted(features, labels, is_reference).weights
    weights[-1] += shift
    return Logistic(weights)


def _fitted(features: Matrix, labels: Matrix, is_reference: NDArray[np.bool_]) -> Logistic:
    """Return the model of own translations, fitted with references, whose intercept is another."""
    return Logistic(np.delete(Logistic.fit(np.c_[features, is_reference], labels.tolist()).weights, -2))
