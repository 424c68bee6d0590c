"""Child of translation_quality.py: scores of translations, as sacreBLEU gives them and as the literature does."""

from __future__ import annotations

import json
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacremoses import MosesPunctNormalizer, MosesTokenizer


def main(job: dict[str, Any]) -> dict[str, Any]:
    """BLEU and chrF of detokenised, cased text, and BLEU in `lc.norm.tok`."""
    ours, human = (Path(job[name]).read_bytes().decode().removesuffix("\n").split("\n") for name in ("ours", "human"))
    if len(ours) != len(human):
        raise SystemExit(f"{job['ours']}: {len(ours)} lines, but {len(human)} in {job['human']}")
    # without force, sacreBLEU warns that the text is tokenised, as it is to be here
    metrics = {"bleu": BLEU(), "chrf": CHRF(), "lc_norm_tok": BLEU(tokenize="none", force=True)}
    texts = {"lc_norm_tok": [as_in_the_literature(side, job["language"]) for side in (ours, human)]}
    scores = {}
    for name, metric in metrics.items():
        hypotheses, references = texts.get(name, [ours, human])
        scores[name] = metric.corpus_score(hypotheses, [references]).score
    return {
        "scores": scores,
        "signatures": {name: str(metric.get_signature()) for name, metric in metrics.items()},
        "versions": {name: version(name) for name in ("sacrebleu", "sacremoses")},
    }


def as_in_the_literature(lines: list[str], language: str) -> list[str]:
    """Lower-cased, punctuation normalised, tokenised: Moses' three scripts, in the order of multi30k's own."""
    normalizer, tokenizer = MosesPunctNormalizer(lang=language), MosesTokenizer(lang=language)
    return [tokenizer.tokenize(normalizer.normalize(line.lower()), return_str=True, escape=False) for line in lines]


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
