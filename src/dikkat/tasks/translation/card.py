"""Write the model card of a translator: origin, data, scores and the command that makes it again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from dikkat.evaluation.scores import PLAIN, Scoring
from dikkat.tasks.common.card import foreign_validations, left_out
from dikkat_runtime.run.metrics import settings_hash


def card(
    settings: dict[str, Any],
    metrics: list[dict[str, Any]],
    foreign: Sequence[int] = (),
    scoring: Scoring = PLAIN,
    adaptation: Sequence[str] = (),
) -> str:
    """Return the card in Markdown, from config.json and the rows of metrics.jsonl.

    All rows were scored by `scoring`; the rows numbered in `foreign` were measured under other settings.
    """
    best = max(metrics, key=lambda row: row["chrf"])
    data, source = settings["data"], settings["data_source"]
    languages = f"{data['source_language'] or '?'} → {data['target_language'] or '?'}"
    lines = [
        f"# Translator {languages}",
        "",
        f"- data: {' '.join(source['data'])}, {source['train_pairs']:,} training pairs; left out: {left_out(source)}",
        f"- fingerprint of the training pairs: sha256 {source['sha256']}",
        *(
            [f"- with terms next to their words: {source['with_terms']:,} more pairs"]
            if source.get("with_terms")
            else []
        ),
        f"- preset: {source['preset']}",
        f"- settings: sha256 {settings_hash(settings)}",
        f"- trained: {best['epoch']:.1f} passes, {best['tokens']:,} target tokens,"
        f" {metrics[-1]['seconds'] / 60:.1f} minutes",
        "",
        f"Validation, greedy, on text {_seen(source)}:",
        "",
        f"- BLEU {best['bleu']:.2f} ({_signature(scoring.bleu())})",
        f"- chrF {best['chrf']:.2f} ({_signature(scoring.chrf())})",
        f"- loss {best['valid_loss']:.3f} nats a token",
        *foreign_validations(foreign),
    ]
    return "\n".join([*lines, *adaptation]) + "\n"


def _seen(source: dict[str, Any]) -> str:
    seen, pairs = source.get("validation_seen", 0), source.get("validation_pairs", 0)
    return f"of which {seen:,} of {pairs:,} pairs were trained on too" if seen else "the model never saw"


def _signature(scorer: BLEU | CHRF) -> str:
    scorer.corpus_score(["a"], [["a"]])
    return str(scorer.get_signature())
