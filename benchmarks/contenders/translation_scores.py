"""Child of decode_speed.py: how good the texts of every side are, and how many of them are those of the reference."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from dikkat import Translator
from dikkat.evaluation.scores import score_translations


def main(job: dict[str, Any]) -> dict[str, Any]:
    """By side and search, BLEU, chrF and the share of equal texts; by search, the tokens of the reference's texts."""
    references = read(job["lines"])["references"]
    expected = read(job["texts"][job["reference"]])
    tokenizer = Translator.load(job["run"]).tokenizer
    return {
        "target_tokens": {
            name: sum(len(ids) + 1 for ids in tokenizer.encode_batch(texts)) for name, texts in expected.items()
        },
        "contenders": {
            side: {name: scores(texts, references, expected[name]) for name, texts in read(path).items()}
            for side, path in job["texts"].items()
        },
        "signature": score_translations(references, references).bleu_signature,
    }


def scores(texts: list[str], references: list[str], expected: list[str]) -> dict[str, float]:
    found = score_translations(texts, references)
    same = sum(text == other for text, other in zip(texts, expected, strict=True))
    return {"bleu": found.bleu, "chrf": found.chrf, "same_text": same / len(texts)}


def read(path: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = json.loads(Path(path).read_text(encoding="utf-8"))
    return found


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
