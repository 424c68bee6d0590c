"""The card says what the run is, with the scores of its best validation."""

from __future__ import annotations

from typing import Any

import pytest
import sacrebleu

from dikkat.config import RunConfig
from dikkat.evaluation import Scoring
from dikkat.tasks.common.card import training_facts
from dikkat.tasks.translation.train import card
from dikkat_runtime.run.metrics import settings_hash

ROWS: list[dict[str, Any]] = [
    {"step": 10, "epoch": 1.0, "valid_loss": 3.0, "chrf": 20.0, "bleu": 5.0, "tokens": 1_000, "seconds": 60.0},
    {"step": 20, "epoch": 2.0, "valid_loss": 2.0, "chrf": 41.237, "bleu": 22.129, "tokens": 2_000, "seconds": 120.0},
    {"step": 30, "epoch": 3.0, "valid_loss": 1.9, "chrf": 40.0, "bleu": 23.0, "tokens": 3_000, "seconds": 180.0},
]


def settings(left_out: dict[str, int], **data: str) -> dict[str, Any]:
    source = {
        "data": ["train.en", "train.tr"],
        "preset": "tiny",
        "train_pairs": 12_345,
        "left_out": left_out,
        "sha256": "ab" * 32,
    }
    return {**RunConfig.model_validate({"data": data}).model_dump(), "data_source": source}


def test_content() -> None:
    described = settings({"duplicate": 1_234, "not text": 5}, source_language="en", target_language="tr")
    described["command"] = "dikkat train translator train.en train.tr --out runs/en-tr"
    text = card(described, ROWS) + "\n".join([*training_facts(described), ""])
    version = sacrebleu.__version__
    wanted = [
        "# Translator en → tr",
        "- data: train.en train.tr, 12,345 training pairs; left out: 1,234 duplicate, 5 not text",
        f"- fingerprint of the training pairs: sha256 {'ab' * 32}",
        "- preset: tiny",
        f"- settings: sha256 {settings_hash({**described, 'command': 'another'})}",
        "- trained: 2.0 passes, 2,000 target tokens, 3.0 minutes",
        f"- BLEU 22.13 (nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:{version})",
        f"- chrF 41.24 (nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:{version})",
        "- loss 2.000 nats a token",
        "    dikkat train translator train.en train.tr --out runs/en-tr",
    ]
    lines = text.split("\n")
    assert [line for line in wanted if line not in lines] == []
    assert text.endswith("\n")


def test_signatures_are_those_of_the_scoring() -> None:
    text = card(settings({}), ROWS, (), Scoring("zh", lowercase=True))
    assert "- BLEU 22.13 (nrefs:1|case:lc|eff:no|tok:zh|" in text
    assert "- chrF 41.24 (nrefs:1|case:lc|" in text


def test_what_is_not_known_is_said() -> None:
    text = card(settings({}), ROWS)
    assert text.startswith("# Translator ? → ?\n")
    assert "left out: none" in text
    assert training_facts(settings({})) == ["", "The command that made it was not noted."]
    assert "other settings" not in text


@pytest.mark.seed("F12")
def test_scores_of_other_settings_are_named() -> None:
    text = card(settings({}), ROWS, foreign=[1, 3])
    assert "Validations measured under other settings than those in config.json: 1, 3." in text.split("\n")
