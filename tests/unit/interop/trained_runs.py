"""Small translators of this toolkit, as fixtures of exports."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from tests.unit.interop.translators import phrases

from dikkat.config import RunConfig
from dikkat.models.factory import Factory
from dikkat.run_directory import RunDirectory
from dikkat_runtime.cli.main import run
from dikkat_runtime.run.parts import TARGET_TOKENIZER
from dikkat_runtime.text.tokenizer import Tokenizer

MARIAN_MT: dict[str, Any] = {"norm_placement": "post", "positions": "sinusoidal_halves"}
"""What the model of a run must be trained with to fit MarianMT."""
SIZES: dict[str, Any] = {
    "model_dim": 32, "num_heads": 4, "feed_forward_dim": 48, "encoder_layers": 2, "decoder_layers": 2,
}  # fmt: skip


def random_run(out: Path, tokenizer: dict[str, Any] | None = None, separate: bool = False, **model: Any) -> Path:
    """A run whose random weights write other words for other sentences, with a vocabulary of the phrasebook."""
    texts = phrases()
    settings: dict[str, Any] = {"model": {**SIZES, **model}, "tokenizer": {"vocab_size": 400, **(tokenizer or {})}}
    if separate:
        settings["data"] = {"vocabularies": "separate"}
    config = RunConfig.model_validate(settings)
    sides = [texts[0], texts[1]] if separate else [[*texts[0], *texts[1]]]
    tokenizers = [Tokenizer.train(side, config.tokenizer) for side in sides]
    settings["model"]["vocab_size"] = tokenizers[0].vocab_size
    settings["model"]["target_vocab_size"] = tokenizers[1].vocab_size if separate else None
    config = RunConfig.model_validate(settings)
    torch.manual_seed(1)
    network = Factory(config.model).encoder_decoder()
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            if "embedding" not in name and "output_weight" not in name:
                parameter.add_(torch.randn_like(parameter) * (0.2 if parameter.dim() > 1 else 0.1))
        # as it is, the token written last would be the most probable one, since the output matrix is the embedding
        last = network.decoder.final_norm
        if isinstance(last, torch.nn.Identity):
            last = network.decoder.blocks[-1].get_submodule("feed_forward_residual.norm")
        last.get_parameter("weight").neg_()
    directory = RunDirectory.create(out)
    with directory.alone():
        for name, own in zip(("tokenizer.json", TARGET_TOKENIZER), tokenizers, strict=False):
            own.save(out / name)
        sections = {"model", "tokenizer", "data", "decoding"}
        directory.write_config({**config.model_dump(include=sections), "task": "translator"})
        directory.save_weights(dict(network.named_parameters()), {})
    return out


def trained_run(out: Path, others: dict[str, Any] | None = None, **model: Any) -> Path:
    """A run of sixty updates, with settings of its model and `others`."""
    data = out.with_name(f"{out.name}.tsv")
    pairs = zip(*phrases(800), strict=True)
    data.write_text("".join(f"{source}\t{target}\n" for source, target in pairs))
    settings = {f"model.{name}": value for name, value in {**SIZES, **model}.items()}
    settings |= {"tokenizer.vocab_size": 400, "training.max_updates": 60, "training.validations": 1}
    settings |= others or {}
    asked = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
    assert run(["train", "translator", str(data), "--out", str(out), *asked]) == 0
    return out
