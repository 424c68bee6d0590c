"""How well confidence tells right translations from wrong ones, beside the raw log-probability of the model.

python benchmarks/confidence.py RUN [--pairs TABLE.tsv]

On the test part of a run, which lies in its folder `held_out`, or on pairs of another kind: its own translations, and
references with a planted error (a word of another sentence, a word less, two changed places) among whole ones. Each
class of errors that translators look for is planted by itself: a quarter of the words left out, a number or a name of
another sentence, a word left as it is in the source. What is printed are the area under the ROC curve (AUROC, Hanley
and McNeil 1982), the expected calibration error over ten bins (ECE, Guo et al. 2017), and Spearman's correlation of
probability and sentence chrF of the own translations.
"""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dikkat_runtime.errors import UsageError
from dikkat_runtime.tasks.confidence import CERTAIN, Judge
from dikkat_runtime.tasks.confidence_fitting import chrf, judged, with_error, words_right
from dikkat_runtime.tasks.translator import Translator

BINS = 10
MIN_ROWS = 30
"""Sentences that a class of errors is measured on, at least."""


def ranks_of(scores: Sequence[float]) -> NDArray[np.float64]:
    """The rank of each score from 1, and of equal ones the mean."""
    _, inverse, counts = np.unique(np.asarray(scores, float), return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(counts) - (counts - 1) / 2)[inverse])


def spearman(first: Sequence[float], second: Sequence[float]) -> float:
    """The correlation of the ranks."""
    return float(np.corrcoef(ranks_of(first), ranks_of(second))[0, 1])


def auroc(scores: Sequence[float], labels: Sequence[bool]) -> float:
    """The share of pairs of a right and a wrong one in which the right one scores higher; ties count half."""
    ranks, are_right = ranks_of(scores), np.asarray(labels, bool)
    right, wrong = int(are_right.sum()), int((~are_right).sum())
    if not right or not wrong:
        return float("nan")
    return float((ranks[are_right].sum() - right * (right + 1) / 2) / (right * wrong))


def calibration_error(probabilities: Sequence[float], labels: Sequence[bool]) -> float:
    """The mean distance of probability and frequency in bins of equal width, weighted by how many are in each."""
    values, are_right = np.asarray(probabilities, float), np.asarray(labels, float)
    bins = np.minimum((values * BINS).astype(int), BINS - 1)
    gaps = [
        abs(values[bins == each].mean() - are_right[bins == each].mean()) * (bins == each).sum() for each in set(bins)
    ]
    return float(sum(gaps) / len(values))


NUMBER, NAME = re.compile(r"\d+"), re.compile(r"(?<=\w )[A-ZÀ-Ý]\w+")
CLASSES = ("omission", "number", "name", "untranslated")


def planted_error(kind: str, source: str, target: str, others: Sequence[str], seed: int) -> str | None:
    """The target with an error of a class of `CLASSES`; None where it has nothing that can be wrong so."""
    random, words = np.random.default_rng(seed), target.split()
    if kind in ("number", "name"):
        pattern = NUMBER if kind == "number" else NAME
        matches = list(pattern.finditer(target))
        elsewhere = sorted({word for text in others for word in pattern.findall(text)} - set(pattern.findall(target)))
        if not matches or not elsewhere:
            return None
        match = matches[random.integers(len(matches))]
        return f"{target[: match.start()]}{elsewhere[random.integers(len(elsewhere))]}{target[match.end() :]}"
    if len(words) < 4:
        return None
    count = max(1, len(words) // 4) if kind == "omission" else 1
    start = int(random.integers(len(words) - count))
    foreign = [word for word in source.split() if word not in words and len(word) > 2]
    if kind == "untranslated" and not foreign:
        return None
    instead = [] if kind == "omission" else [foreign[random.integers(len(foreign))]]
    return " ".join([*words[:start], *instead, *words[start + count :]])


def main() -> None:
    """Measure one run and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--pairs", type=Path, help="table of pairs to measure on, instead of the test part")
    parser.add_argument("--count", type=int, default=1000, help="pairs, at most")
    options = parser.parse_args()
    run, table = options.run, options.pairs
    if table is None:
        sources, references = (
            (run / "held_out" / f"test.{side}.txt").read_text(encoding="utf-8").split("\n")[:-1]
            for side in ("source", "target")
        )
    else:
        rows = [line.split("\t") for line in table.read_text(encoding="utf-8").split("\n") if "\t" in line]
        sources, references = [row[0] for row in rows], [row[1] for row in rows]
    sources, references = sources[: options.count], references[: options.count]
    if not sources:
        raise UsageError(f"{run}: has no test part")
    translator = Translator.load(run, threads=1)
    judge = translator.judge(run, on_progress=print)
    translator.translate(sources[:1], confidence=judge)
    start = time.process_time()
    outputs = [each.text for each in translator.translate(sources)]
    translated = time.process_time()
    own = [each.confidence or CERTAIN for each in translator.translate(sources, confidence=judge)]
    together = time.process_time()
    of_pairs = judge(sources, outputs)
    alone = translated - start
    print(
        f"translating takes {alone:.2f} s of processor time, with confidence {together - translated:.2f} s; judging "
        f"these pairs by themselves {time.process_time() - together:.2f} s"
    )
    right, meaning = judged(outputs, references)
    print(f"{len(sources):,} test pairs; right: {meaning}; fitted as: {judge.calibration.right}")
    print(f"{'what':34}  {'right':>6}  {'AUROC':>6}  {'raw':>6}  {'ECE':>6}")
    raw = _raw(judge, sources, outputs)
    _row("own translations, by their search", [each.probability for each in own], raw, right)
    _row("own translations, as given pairs", [each.probability for each in of_pairs], raw, right)
    scores = [chrf(*pair) for pair in zip(outputs, references, strict=True)]
    means = [float(each.log_probabilities.mean()) if each else 0.0 for each in judge.scorer.scores(sources, outputs)]
    ranks = [spearman([each.probability for each in found], scores) for found in (own, of_pairs)]
    print(f"Spearman with sentence chrF: {ranks[0]:.3f}; as pairs: {ranks[1]:.3f}; raw: {spearman(means, scores):.3f}")
    planted = [with_error(text, references, 10_000 + number) for number, text in enumerate(references)]
    labels = [True] * len(references) + [False] * len(planted)
    _report("references, half with an error", judge, sources * 2, [*references, *planted], labels)
    for kind in CLASSES:
        rows = [
            (source, text, wrong)
            for number, (source, text) in enumerate(zip(sources, references, strict=True))
            if (wrong := planted_error(kind, source, text, references, number)) is not None
        ]
        if len(rows) >= MIN_ROWS:
            whole, right_ones, wrong_ones = zip(*rows, strict=True)
            labels = [True] * len(rows) + [False] * len(rows)
            _report(f"references, half with: {kind}", judge, [*whole, *whole], [*right_ones, *wrong_ones], labels)
    words = [word for confidence in own for word in confidence.words]
    are_right = [
        is_right
        for confidence, reference in zip(own, references, strict=True)
        for is_right in words_right([word.text for word in confidence.words], reference)
    ]
    _row("words of own translations", [word.probability for word in words], None, are_right)


def _report(name: str, judge: Judge, sources: Sequence[str], targets: Sequence[str], right: Sequence[bool]) -> None:
    found = [each.probability for each in judge(sources, targets)]
    _row(name, found, _raw(judge, sources, targets), right)


def _raw(judge: Judge, sources: Sequence[str], targets: Sequence[str]) -> list[float]:
    """The log-probability of each translation by the model alone."""
    return [float(each.log_probabilities.sum()) if each else 0.0 for each in judge.scorer.scores(sources, targets)]


def _row(name: str, found: Sequence[float], raw: Sequence[float] | None, right: Sequence[bool]) -> None:
    other = "" if raw is None else f"{auroc(raw, right):.3f}"
    share = f"{100 * np.mean(right):.1f} %"
    print(f"{name:34}  {share:>6}  {auroc(found, right):6.3f}  {other:>6}  {calibration_error(found, right):6.3f}")


if __name__ == "__main__":
    main()
