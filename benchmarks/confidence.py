"""How well confidence tells right translations from wrong ones, beside the raw log-probability of the model.

python benchmarks/confidence.py RUN

On the test part of a run, which lies in its folder `held_out`: its own translations, and references with a planted
error (a word of another sentence, a word less, two changed places) among whole ones. What is printed are the area under
the ROC curve (AUROC, Hanley and McNeil 1982) and the expected calibration error over ten bins (ECE, Guo et al. 2017).
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from dikkat_runtime.errors import UsageError
from dikkat_runtime.tasks.confidence import Judge
from dikkat_runtime.tasks.confidence_fitting import judged, with_error, words_right
from dikkat_runtime.tasks.translator import Translator

BINS = 10


def auroc(scores: Sequence[float], labels: Sequence[bool]) -> float:
    """The share of pairs of a right and a wrong one in which the right one scores higher; ties count half."""
    values, are_right = np.asarray(scores, float), np.asarray(labels, bool)
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[inverse]
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


def main() -> None:
    """Measure one run and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    run = parser.parse_args().run
    sources, references = (
        (run / "held_out" / f"test.{side}.txt").read_text(encoding="utf-8").split("\n")[:-1]
        for side in ("source", "target")
    )
    if not sources:
        raise UsageError(f"{run}: has no test part")
    translator = Translator.load(run, threads=1)
    judge = translator.judge(run, on_progress=print)
    outputs = [each.text for each in translator.translate(sources)]
    right, meaning = judged(outputs, references)
    print(f"{len(sources):,} test pairs; right: {meaning}; fitted as: {judge.calibration.right}")
    print(f"{'what':34}  {'right':>6}  {'AUROC':>6}  {'raw':>6}  {'ECE':>6}")
    _report("own translations", judge, sources, outputs, right)
    planted = [with_error(text, references, 10_000 + number) for number, text in enumerate(references)]
    labels = [True] * len(references) + [False] * len(planted)
    _report("references, half with an error", judge, sources * 2, [*references, *planted], labels)
    _words("words of own translations", judge, sources, outputs, references)


def _report(name: str, judge: Judge, sources: Sequence[str], targets: Sequence[str], right: Sequence[bool]) -> None:
    found = [each.probability for each in judge(sources, targets)]
    raw = [float(each.log_probabilities.sum()) if each else 0.0 for each in judge.scorer.scores(sources, targets)]
    _row(name, found, raw, right)


def _words(name: str, judge: Judge, sources: Sequence[str], targets: Sequence[str], references: Sequence[str]) -> None:
    found, right = list[float](), list[bool]()
    for confidence, reference in zip(judge(sources, targets), references, strict=True):
        found += [word.probability for word in confidence.words]
        right += words_right([word.text for word in confidence.words], reference)
    _row(name, found, None, right)


def _row(name: str, found: Sequence[float], raw: Sequence[float] | None, right: Sequence[bool]) -> None:
    other = "" if raw is None else f"{auroc(raw, right):.3f}"
    share = f"{100 * np.mean(right):.1f} %"
    print(f"{name:34}  {share:>6}  {auroc(found, right):6.3f}  {other:>6}  {calibration_error(found, right):6.3f}")


if __name__ == "__main__":
    main()
