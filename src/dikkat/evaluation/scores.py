"""Score translations of a corpus with sacreBLEU on plain text, and print the signatures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dikkat.evaluation.scoring import PLAIN, Scoring
from dikkat_runtime.errors import DataError


@dataclass(frozen=True, slots=True)
class Scores:
    """Hold BLEU (Papineni et al. 2002) and chrF (Popović 2015), both from 0 to 100; higher is better."""

    bleu: float
    bleu_signature: str
    chrf: float
    chrf_signature: str

    def lines(self) -> list[str]:
        """Return one line a score, with the signature that makes it comparable (Post 2018)."""
        return [f"BLEU {self.bleu:6.2f}  {self.bleu_signature}", f"chrF {self.chrf:6.2f}  {self.chrf_signature}"]

    def __str__(self) -> str:
        return "\n".join(self.lines())


def score_translations(hypotheses: Sequence[str], references: Sequence[str], scoring: Scoring = PLAIN) -> Scores:
    """Score detokenised text with one reference each, as `scoring` says (exponential smoothing, chrF2 of characters).

    Raises `DataError` when there is nothing to score or the two do not pair up.
    """
    if len(hypotheses) != len(references):
        raise DataError(
            "{count} translations cannot be scored against {count2} references; give one reference a translation"
        ).fill(len(hypotheses), len(references))
    if not hypotheses:
        raise DataError("there is no translation to score; give at least one line")
    bleu, chrf = scoring.bleu(), scoring.chrf()
    return Scores(
        bleu=bleu.corpus_score(hypotheses, [references]).score,
        bleu_signature=str(bleu.get_signature()),
        chrf=chrf.corpus_score(hypotheses, [references]).score,
        chrf_signature=str(chrf.get_signature()),
    )


def sentence_chrf(hypotheses: Sequence[str], references: Sequence[str], scoring: Scoring = PLAIN) -> list[float]:
    """Return the chrF of each sentence, from 0 to 100: to find the worst ones, not to compare models."""
    chrf = scoring.chrf()
    return [chrf.sentence_score(ours, [human]).score for ours, human in zip(hypotheses, references, strict=True)]
