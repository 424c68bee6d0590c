"""Whatever a configuration names trains end to end with the translator, and then translates step by step exactly."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from tests.system.toy import Command, settings, toy_sentences
from tests.unit.models.choices import CHOICES

from dikkat import Translator
from dikkat.text.tokenizer import BOS_ID


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("choices") / "pairs.tsv"
    path.write_text("".join(f"{source}\t{target}\n" for source, target in toy_sentences(60)), encoding="utf-8")
    return path


@pytest.mark.parametrize("choice", CHOICES.values(), ids=CHOICES.keys())
def test_a_few_updates_of_every_choice(
    choice: dict[str, Any], pairs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    named = {f"model__{name}": str(value).lower() for name, value in choice.items()}
    run = tmp_path / "run"
    options = settings(**named, training__max_epochs=2, training__validations=1, data__validation_pairs=10)
    code, _, complaint = Command(capsys)("train", "translator", pairs, "--out", run, *options)
    assert code == 0, complaint
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
