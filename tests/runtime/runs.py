"""Small runs of each kind with random weights, written as dikkat writes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import nn

from dikkat.config import RunConfig, build_config
from dikkat.models.factory import build_classifier, build_language_model, build_model
from dikkat.nn.pooling import AttentionPooling
from dikkat.run_directory import RunDirectory
from dikkat_runtime.text.tokenizer import Tokenizer

SENTENCES = [
    "The small cat is sleeping.",
    "Where are my keys?",
    "A dog runs on the beach.",
    "",
    "Two men play chess in the park while it rains, and nobody watches them but an old woman.",
    "Yes.",
]
WRITTEN = ["Küçük kedi uyuyor.", "Anahtarlarım nerede?", "Bir köpek sahilde koşuyor.", "Evet."]
"""What a translator writes whose target has a vocabulary of its own."""
LABELS = ["no", "perhaps", "yes"]
SHAPE = {
    "model_dim": 48, "num_heads": 4, "feed_forward_dim": 80, "encoder_layers": 2, "decoder_layers": 2, "dropout": 0.0,
}  # fmt: skip


def translator_run(path: Path, *, separate: bool = False, languages: tuple[str, str] = ("", ""), **model: Any) -> Path:
    """With `separate` vocabularies, that of the target is smaller and in another order."""
    source, target = languages
    vocabularies = "separate" if separate else "joint"
    data = {"data": {"vocabularies": vocabularies, "source_language": source, "target_language": target}}
    if separate:
        written = Tokenizer.train(WRITTEN * 3, build_config({"tokenizer": {"vocab_size": 330}}).tokenizer)
        model["target_vocab_size"] = written.vocab_size
    config, tokenizer = _config(model, **data)
    run = _write(path, build_model(config.model, seed=7), config, tokenizer, task="translator")
    if separate:
        written.save(run.target_tokenizer)
    return path


def finished(path: Path) -> Path:
    """The run with its card, which ends it: from then on its manifest lists every file that stays as it is."""
    RunDirectory(path).write_card("# A model of a test\n")
    return path


def classifier_run(path: Path, head_config: dict[str, Any] | None = None, **model: Any) -> Path:
    config, tokenizer = _config(model, classifier={"max_tokens": 12, **(head_config or {})})
    labels = LABELS[:2] if config.classifier.objective == "binary" else LABELS
    network = build_classifier(config.model, config.classifier, len(labels), seed=7)
    # all three begin at zero, where nothing could be told apart
    nn.init.normal_(network.output.weight)
    if isinstance(network.pooling, AttentionPooling):
        nn.init.normal_(network.pooling.query)
    run = _write(path, network, config, tokenizer, task="classifier", labels=labels)
    for step, temperature in ((1, 1.0), (2, 0.7)):
        scores = dict.fromkeys(("accuracy", "macro_f1", "micro_f1"), step)
        run.append_metrics({"step": step, **scores, "temperature": temperature})
    return path


def language_model_run(
    path: Path, head_config: dict[str, Any] | None = None, sections: dict[str, Any] | None = None, **model: Any
) -> Path:
    config, tokenizer = _config(model, language_model={"context": 24, **(head_config or {})}, **(sections or {}))
    network = build_language_model(config.model, config.language_model.objective, seed=7)
    _write(path, network, config, tokenizer, task="lm")
    return path


def _config(model: dict[str, Any], **sections: dict[str, Any]) -> tuple[RunConfig, Tokenizer]:
    settings = {"tokenizer": {"vocab_size": 400, "min_frequency": 1}, **sections}
    tokenizer = Tokenizer.train(SENTENCES * 3, build_config(settings).tokenizer)
    shape = {**SHAPE, **model, "vocab_size": tokenizer.vocab_size}
    return build_config({"model": shape, **settings}), tokenizer


def _write(path: Path, model: nn.Module, config: RunConfig, tokenizer: Tokenizer, **more: Any) -> RunDirectory:
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                # biases and norms start at their neutral values, which would hide that they are not read
                parameter.add_(0.1 * torch.randn_like(parameter))
    run = RunDirectory.create(path)
    run.write_config({**config.model_dump(), **more})
    tokenizer.save(run.tokenizer)
    run.save_weights(dict(model.named_parameters()), {"step": "1"})
    return run
