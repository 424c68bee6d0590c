"""Whatever a configuration names trains end to end with the translator, and then translates step by step exactly."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.system.toy import Command, settings, toy_sentences
from tests.unit.models.choices import CHOICES

from dikkat import Translator
from dikkat.config import ModelConfig
from dikkat.config.model import FOREIGN_SETTINGS
from dikkat_runtime.special_tokens import BOS_ID

SIZES = {
    "vocab_size", "model_dim", "num_heads", "feed_forward_dim", "encoder_layers", "decoder_layers", "dropout",
    "norm_eps", "max_positions", "target_vocab_size",
}  # fmt: skip
"""Settings of the model that are numbers on a scale, not one of several ways."""
DAILY = {"positions learned", "recurrent decoder", "modern", "everything"}
"""Those that differ most from the default, which all other tests train, and hold most of the families between them; the
layers and gradients of all are tried daily in tests/unit/models/test_choices.py."""


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("choices") / "pairs.tsv"
    path.write_text("".join(f"{source}\t{target}\n" for source, target in toy_sentences(60)), encoding="utf-8")
    return path


def test_every_setting_that_is_a_choice_is_tried() -> None:
    """That every name of a choice is among them is shown beside them, in tests/unit/models."""
    tried = {name for choice in CHOICES.values() for name in choice}
    # those of imported models are tried in tests/parity/test_huggingface_families.py
    imported = {*FOREIGN_SETTINGS, "relative_range"}
    assert set(ModelConfig.model_fields) - SIZES - imported <= tried


def test_what_is_tried_daily_names_choices() -> None:
    assert set(CHOICES) > DAILY


@pytest.mark.parametrize(
    "choice",
    [
        pytest.param(choice, id=name, marks=() if name in DAILY else pytest.mark.nightly)
        for name, choice in CHOICES.items()
    ],
)
def test_a_few_updates_of_every_choice(
    choice: dict[str, Any], pairs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    named = {f"model__{name}": str(value).lower() for name, value in choice.items()}
    run = tmp_path / "run"
    options = settings(**named, training__max_epochs=3, training__validations=2, data__validation_pairs=10)
    code, _, complaint = Command(capsys)("train", "translator", pairs, "--out", run, *options)
    assert code == 0, complaint
    losses = [
        json.loads(line)["train_loss"] for line in (run / "metrics.jsonl").read_text(encoding="utf-8").split("\n")[:-1]
    ]
    assert losses[-1] < losses[0] - 0.1, "it runs, but learns nothing"
    translator = Translator.load(run)
    assert len(list(translator.translate(["the dog sees the tree", "a"]))) == 2
    model = translator.model.float()
    source = torch.tensor([[5, 9, 7, 8, 6, 2]])
    target, mask = torch.tensor([[BOS_ID, 8, 9, 5, 12, 6, 7, 11]]), torch.ones(1, 6, dtype=torch.bool)
    with torch.no_grad():
        forced = model(source, target, mask)
        cache = model.start_cache(model.encode(source, mask), mask)
        for position in range(target.shape[1]):
            stepped = model.step(target[:, position], cache)
            torch.testing.assert_close(stepped, forced[:, position], rtol=0, atol=1e-5)
