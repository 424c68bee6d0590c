"""Write the model card of a language model: origin, data, scores and the command that makes it again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dikkat.tasks.common.card import foreign_validations
from dikkat_runtime.run.metrics import settings_hash


def language_model_card(settings: dict[str, Any], metrics: list[dict[str, Any]], foreign: Sequence[int] = ()) -> str:
    """Return the card in Markdown, from config.json and the rows of metrics.jsonl.

    The rows numbered in `foreign` were measured under other settings.
    """
    best = min(metrics, key=lambda row: row["valid_loss"])
    source, asked = settings["data_source"], settings["language_model"]
    lines = [
        f"# Language model ({asked['objective']})",
        "",
        f"- data: {' '.join(source['data'])}, {source['documents']:,} documents,"
        f" {source['train_characters']:,} characters to train on",
        f"- fingerprint of the training text: sha256 {source['sha256']}",
        f"- tokens: {settings['tokenizer']['kind']}, vocabulary {settings['model']['vocab_size']:,};"
        f" context {asked['context']}",
        f"- preset: {source['preset']}",
        f"- settings: sha256 {settings_hash(settings)}",
        f"- trained: {best['epoch']:.1f} passes, {best['tokens']:,} tokens, {metrics[-1]['seconds'] / 60:.1f} minutes",
        "",
        f"Validation on {source['validation_characters']:,} characters that the model never saw, in windows of the"
        " context side by side:",
        "",
        f"- loss {best['valid_loss']:.4f} nats a predicted token, perplexity {best['perplexity']:.3f}",
    ]
    if "bits_per_byte" in best:
        lines.append(f"- {best['bits_per_byte']:.4f} bits a byte")
    return "\n".join([*lines, *foreign_validations(foreign)]) + "\n"
