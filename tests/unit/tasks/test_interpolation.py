"""The weights between those of a translator and of the one that it began with."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from tests.unit.tasks.conftest import SENTENCES, TRANSLATIONS

from dikkat.run_directory import RunDirectory
from dikkat.tasks.translation.adapted_weights import interpolated_weights, write_interpolated
from dikkat.tasks.translation.prepare import TrainRequest, prepare
from dikkat_runtime.cli.main import run as run_dikkat
from dikkat_runtime.errors import DataError, UsageError
from dikkat_runtime.tasks.translator import Translator
from dikkat_runtime.text.tokenizer import Tokenizer

SETTINGS = {"data": {"validation_pairs": 4, "test_pairs": 0}}


@pytest.fixture
def adapted(untrained: Path, tmp_path: Path) -> RunDirectory:
    """A run that began with the untrained one and has learned other weights."""
    memory = tmp_path / "memory.tsv"
    rows = [f"{source} {word}\t{target} {word}\n" for source, target in zip(SENTENCES, TRANSLATIONS, strict=True)
            for word in ("one", "two", "three", "four")]  # fmt: skip
    memory.write_text("source\ttarget\n" + "".join(rows), encoding="utf-8")
    run = RunDirectory.create(tmp_path / "adapted")
    prepare(TrainRequest([str(memory)], settings=SETTINGS, start=untrained), run)
    draw = torch.Generator().manual_seed(3)
    weights = RunDirectory.open(untrained).load_weights()
    learned = {
        name: tensor + 0.1 * torch.randn(tensor.shape, generator=draw) for name, tensor in sorted(weights.items())
    }
    run.save_weights(learned, {"step": "1"})
    run.write_card("# adapted\n")
    return run


def translations(path: Path) -> list[tuple[str, float]]:
    translator = Translator.load(path)
    return [(line.text, line.score) for line in translator.stream(SENTENCES)]


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_each_weight_is_the_weighted_mean_in_float64(share: float, adapted: RunDirectory, untrained: Path) -> None:
    before, after = RunDirectory.open(untrained).load_weights(), adapted.load_weights()
    mixed = interpolated_weights(adapted, share)
    assert mixed.keys() == before.keys()
    for name, tensor in mixed.items():
        old, new = (side[name].numpy().astype(np.float64) for side in (before, after))
        expected = ((1 - share) * old + share * new).astype(np.float32)
        assert tensor.dtype == torch.float32
        # the last bit of float64 may round another way to float32
        np.testing.assert_allclose(tensor.numpy(), expected, rtol=2e-7, atol=0)


def test_at_the_ends_are_the_base_and_the_adapted_run(adapted: RunDirectory, untrained: Path, tmp_path: Path) -> None:
    for share, same in ((0, untrained), (1, adapted.path)):
        out = tmp_path / f"at-{share}"
        assert run_dikkat(["interpolate", str(adapted.path), "--share", str(share), "--out", str(out)]) == 0
        assert translations(out) == translations(same)
    assert translations(untrained) != translations(adapted.path)


def test_what_is_written_is_a_finished_run_that_keeps_its_held_out_text(adapted: RunDirectory, tmp_path: Path) -> None:
    write_interpolated(adapted.path, 0.5, tmp_path / "half", "dikkat interpolate")
    half = RunDirectory.open(tmp_path / "half")
    assert half.is_finished
    assert half.tokenizer.read_bytes() == adapted.tokenizer.read_bytes()
    assert half.held_out("validation", "source").read_text() == adapted.held_out("validation", "source").read_text()
    assert half.read_config()["interpolated"] == {"run": str(adapted.path), "share": 0.5}
    assert Tokenizer.load(half.tokenizer).encode("go !") == Tokenizer.load(adapted.tokenizer).encode("go !")


def test_what_cannot_be_interpolated_is_refused_and_nothing_is_written(
    adapted: RunDirectory, untrained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert run_dikkat(["interpolate", str(untrained), "--out", str(out)]) == UsageError.exit_code
    assert "did not start from another translator; name one that was trained with --from" in capsys.readouterr().err
    assert run_dikkat(["interpolate", str(adapted.path), "--share", "1.5", "--out", str(out)]) == UsageError.exit_code
    assert not out.exists()
    weights = adapted.load_weights()
    odd = sorted(weights)[0]
    adapted.save_weights({name: tensor for name, tensor in weights.items() if name != odd}, {})
    with pytest.raises(DataError, match=f"initial.safetensors: the weight {odd} has no match"):
        write_interpolated(adapted.path, 0.5, out, "")
    adapted.save_weights({**weights, odd: torch.full_like(weights[odd], torch.nan)}, {})
    with pytest.raises(DataError, match=f"model.safetensors: damaged: {odd} holds numbers that are not finite"):
        write_interpolated(adapted.path, 0.5, out, "")
    assert not out.exists()
