"""Compute chrF of one sentence: the character n-grams that two texts have in common (Popović 2015)."""

from __future__ import annotations

from collections import Counter

ORDERS = range(1, 7)
BETA = 2.0


def chrf(text: str, reference: str) -> float:
    """Return the character F-score from 0 to 100 of n-grams up to six, recall counted twice, without white space."""
    ours, others = "".join(text.split()), "".join(reference.split())
    precisions, recalls = list[float](), list[float]()
    for order in ORDERS:
        own, wanted = _ngrams(ours, order), _ngrams(others, order)
        if not own or not wanted:
            continue
        common = sum((own & wanted).values())
        precisions.append(common / sum(own.values()))
        recalls.append(common / sum(wanted.values()))
    if not precisions:
        return 100.0 if ours == others else 0.0
    precision, recall = sum(precisions) / len(precisions), sum(recalls) / len(recalls)
    divisor = BETA**2 * precision + recall
    return 100.0 * (1 + BETA**2) * precision * recall / divisor if divisor else 0.0


def _ngrams(text: str, order: int) -> Counter[str]:
    return Counter(text[start : start + order] for start in range(len(text) - order + 1))
