"""Write the model card of a finished classifier in Markdown."""

from __future__ import annotations

from typing import Any

from dikkat.run_directory import RunDirectory
from dikkat.run_directory.data_source import data_source
from dikkat.tasks.common.card import foreign_validations, left_out
from dikkat_runtime.run.metrics import settings_hash


def classifier_card(run: RunDirectory, rows: list[dict[str, Any]], best: dict[str, Any]) -> str:
    """Return the card: what the finished run learned from, how, and how well.

    `best` is the row of the validation whose weights were kept.
    """
    settings = run.read_config()
    source = data_source(settings, run.config)
    classes = ", ".join(f"{label} ({count:,})" for label, count in source["classes"].items())
    lines = [
        f"# Classifier: {', '.join(settings['labels'])}",
        "",
        f"- data: {' '.join(source['data'])}, {source['train_texts']:,} training texts; left out: {left_out(source)}",
        f"- classes: {classes}",
        f"- fingerprint of the training texts: sha256 {source['sha256']}",
        f"- preset: {source['preset']}" + (f", begun with {source['init']}" if source["init"] else ""),
        f"- settings: sha256 {settings_hash(settings)}",
        f"- trained: {best['epoch']:.1f} passes, {rows[-1]['seconds'] / 60:.1f} minutes",
        "",
        f"Validation on {source['validation_texts']:,} texts{_known(source)}:",
        "",
        *_scores(best, source),
        f"- loss {best['valid_loss']:.3f} nats a text, at temperature 1; calibrated at {best['temperature']:.3f}",
        *foreign_validations(run.foreign_metrics()),
    ]
    return "\n".join(lines) + "\n"


def _known(source: dict[str, Any]) -> str:
    """Whether training knew the texts that are validated on; a run of an earlier version did not look."""
    seen = source.get("validation_seen")
    if seen is None:
        return ""
    return f", {seen:,} of which stand in the training data too" if seen else " the model never saw"


def _scores(best: dict[str, Any], source: dict[str, Any]) -> list[str]:
    names = {
        "accuracy": "accuracy",
        "micro_f1": "micro F1",
        "macro_f1": "macro F1",
        "subset_accuracy": "subset accuracy",
    }
    counts = source.get("validation_classes", {})
    missing = [label for label, count in counts.items() if not count]
    over = f" (no text of {', '.join(missing)})" if missing else ""
    return [
        f"- {name} {best[key]:.2f} %{over if key == 'macro_f1' else ''}" for key, name in names.items() if key in best
    ]
