"""The measured loss of eight bits decides the precision."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from tests.runtime.runs import classifier_run, language_model_run, translator_run

import dikkat
import dikkat_runtime as runtime
from dikkat import Translator
from dikkat.tasks.common.speed_trial import trial_line
from dikkat_runtime.engine import native
from dikkat_runtime.engine.precision import NOT_MEASURED, PrecisionRecord, choose_precision, read_record
from dikkat_runtime.errors import DataError, MissingInputError, OutOfMemoryError, UsageError
from dikkat_runtime.localization import add_catalogs, localized
from dikkat_runtime.run import weights
from dikkat_runtime.run.weights import read_checksum, read_note
from dikkat_runtime.tasks import opening


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return translator_run(tmp_path_factory.mktemp("precision") / "run")


def record(run: Path, measure: str, float32: float, int8: float, count: int = 100) -> PrecisionRecord:
    created = PrecisionRecord(measure, float32, int8, count, read_checksum(run / "model.safetensors"))
    (run / "precision.json").write_text(created.json())
    return created


@pytest.mark.parametrize(
    ("measure", "float32", "int8", "precision", "why"),
    [
        ("chrf", 61.20, 61.17, "int8", "loses 0.03 chrF on the validation part"),
        ("chrf", 61.20, 61.50, "int8", "gains 0.30 chrF on the validation part"),
        ("chrf", 61.20, 61.09, "float32", "int8 loses 0.11 chrF on the validation part"),
        ("accuracy", 88.0, 87.95, "int8", "loses 0.05 points of accuracy on the validation part"),
        ("macro_f1", 88.0, 87.0, "float32", "int8 loses 1.00 points of macro F1 on the validation part"),
        ("perplexity", 20.0, 20.09, "int8", "loses 0.45 % of perplexity on the validation part"),
        ("perplexity", 20.0, 20.12, "float32", "int8 loses 0.60 % of perplexity on the validation part"),
    ],
)
def test_eight_bits_are_taken_where_they_lose_next_to_nothing(
    run: Path, measure: str, float32: float, int8: float, precision: str, why: str
) -> None:
    created = record(run, measure, float32, int8)
    assert read_record(run) == created
    assert choose_precision(run, "auto") == (precision, why)
    assert choose_precision(run, "float32") == ("float32", "")
    assert choose_precision(run, "int8") == ("int8", "")


@pytest.mark.parametrize(
    ("measure", "count", "precision", "why"),
    [
        ("chrf", 2, "float32", "2 validation texts are too few to choose int8; at least 100 are needed"),
        ("accuracy", 99, "float32", "99 validation texts are too few to choose int8; at least 100 are needed"),
        ("micro_f1", 100, "int8", "loses 0.00 points of micro F1 on the validation part"),
        # a window of a language model is a text of hundreds of words
        ("perplexity", 9, "float32", "9 validation texts are too few to choose int8; at least 10 are needed"),
        ("perplexity", 10, "int8", "loses 0.00 % of perplexity on the validation part"),
    ],
)
def test_a_few_texts_choose_no_precision(run: Path, measure: str, count: int, precision: str, why: str) -> None:
    created = record(run, measure, 50.0, 50.0, count)
    assert choose_precision(run, "auto") == (precision, why)
    line = trial_line(created)
    assert line.endswith(f"--precision auto takes {precision}")
    assert (", fewer than 10" in line) == (precision == "float32")
    assert choose_precision(run, "int8") == ("int8", ""), "whoever asks gets it"
    add_catalogs(Path(dikkat.__file__).parent)
    spoken = localized(line, "tr")
    assert f": --precision auto {precision} seçer" in spoken
    assert ("altında" in spoken) == (precision == "float32")


def test_a_run_without_a_record_or_with_that_of_other_weights_is_float32(run: Path) -> None:
    (run / "precision.json").unlink(missing_ok=True)
    assert choose_precision(run, "auto") == ("float32", NOT_MEASURED)
    (run / "precision.json").write_text(PrecisionRecord("chrf", 1.0, 1.0, 1, "others").json())
    assert choose_precision(run, "auto") == ("float32", NOT_MEASURED)


@pytest.mark.parametrize("content", ["", "{}", "[1]", '{"measure": "taste"}', "nan"])
def test_a_damaged_record_is_said(run: Path, content: str) -> None:
    (run / "precision.json").write_text(content)
    with pytest.raises(DataError, match=r"precision\.json: damaged: .*; delete it, and float32 is used"):
        choose_precision(run, "auto")


@pytest.mark.parametrize("change", [{"float32": "1"}, {"measure": "beauty"}, {"count": 1.5}, {"more": 1}])
def test_a_record_with_a_wrong_entry_is_said(run: Path, change: dict[str, object]) -> None:
    good = json.loads(record(run, "chrf", 1.0, 1.0).json())
    (run / "precision.json").write_text(json.dumps({**good, **change}))
    with pytest.raises(DataError, match="not a record of precisions"):
        choose_precision(run, "auto")


@pytest.mark.parametrize(
    ("make", "load"),
    [
        (translator_run, runtime.Translator.load),
        (classifier_run, runtime.Classifier.load),
        (language_model_run, runtime.Generator.load),
    ],
)
def test_every_kind_takes_it_and_says_so(
    tmp_path: Path, make: Callable[[Path], Path], load: Callable[..., Any]
) -> None:
    path = make(tmp_path / "run")
    record(path, "chrf", 50.0, 50.0)
    info = load(path, precision="auto").info
    assert info.precision == "int8"
    assert "int8 (loses 0.00 chrF on the validation part)" in str(info)
    assert "int8 (loses 0.00" in str(runtime.Embedder.load(path, precision="auto").info)


def test_the_torch_engine_is_float32_without_a_word(run: Path) -> None:
    record(run, "chrf", 1.0, 1.0)
    info = Translator.load(run, "auto", engine="torch").info
    assert (info.precision, info.why_precision) == ("float32", "")
    assert Translator.load(run, "auto").info.precision == "int8"


@pytest.mark.parametrize("read", [read_checksum, lambda path: read_note(path, "step")], ids=["checksum", "note"])
def test_a_file_of_weights_whose_header_cannot_be_read_is_one_line(read: Callable[[Path], str], tmp_path: Path) -> None:
    """A pipe that nobody writes to is refused, and not waited for."""
    path = tmp_path / "model.safetensors"
    os.mkfifo(path)
    with pytest.raises(DataError, match="is a named pipe, not a file"):
        read(path)
    path.unlink()
    path.mkdir()
    with pytest.raises(DataError, match="is a folder, not a file"):
        read(path)
    path.rmdir()
    path.symlink_to(path)
    with pytest.raises(MissingInputError, match=r"cannot be read: Too many levels|no weights yet"):
        read(path)
    path.unlink()
    path.write_bytes(b"\x02" + bytes(7) + b"{}")
    with pytest.raises(DataError, match="damaged, or not weights written by dikkat"):
        read(path)


@pytest.mark.parametrize(
    ("share", "precision", "advice"),
    [(0.7, "float32", "--precision int8 would fit"), (0.2, "float32", "no precision would fit"),
     (0.2, "int8", "no precision would fit")],
)  # fmt: skip
def test_weights_beyond_the_memory_are_refused_before_they_are_read(
    share: float, precision: Any, advice: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = language_model_run(tmp_path)
    file = run / "model.safetensors"
    monkeypatch.setattr(weights, "free_memory", lambda: int(share * file.stat().st_size))
    monkeypatch.setattr(opening, "read_weights", lambda path: pytest.fail("it was read"))
    with pytest.raises(OutOfMemoryError) as refused:
        runtime.Generator.load(run, precision, engine="native")
    assert str(refused.value).endswith(f"are free; {advice}")
    assert f"its weights take 0.0 GiB in {precision}, but only" in str(refused.value)


def test_the_parts_of_an_encoder_in_float32_count_as_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a processor has tiles, an encoder keeps its matrices a second time, which the check once left out."""
    run = classifier_run(tmp_path)
    engine: Any = runtime.Classifier.load(run, "float32", engine="native").engine
    assert native.split_bytes(engine.stack.settings) == engine.kernel._split.nbytes
    stored = (run / "model.safetensors").stat().st_size
    monkeypatch.setattr(opening, "split_bytes", lambda settings: 4096)
    monkeypatch.setattr(weights, "free_memory", lambda: stored + 4096)
    assert runtime.Classifier.load(run, "float32", engine="native").engine.info.precision == "float32"
    monkeypatch.setattr(weights, "free_memory", lambda: stored + 4095)
    assert runtime.Classifier.load(run, "int8", engine="native").engine.info.precision == "int8"
    with pytest.raises(OutOfMemoryError, match="--precision int8 would fit"):
        runtime.Classifier.load(run, "float32", engine="native")


def test_eight_bits_hold_no_copy_of_the_matrices_of_blocks(tmp_path: Path) -> None:
    run = language_model_run(tmp_path)
    held = {
        name: sum(array.nbytes for array in runtime.Generator.load(run, name, engine="native").engine.weights._kept)  # type: ignore[attr-defined]
        for name in ("float32", "int8")
    }
    assert held["int8"] < held["float32"]


def test_four_bits_are_smaller_than_eight_and_not_for_translators(run: Path, tmp_path: Path) -> None:
    own = language_model_run(tmp_path)
    ids = np.array([[1, 5, 6, 7]])
    bits: tuple[Literal["float32", "int8", "int4"], ...] = ("float32", "int8", "int4")
    nats, held = {}, {}
    for name in bits:
        engine: Any = runtime.Generator.load(own, name, engine="native").engine
        nats[name], held[name] = engine.nats(ids, [0]), sum(array.nbytes for array in engine.weights._kept)
        assert engine.info.precision == name
    assert held["int4"] < held["int8"] < held["float32"]
    assert abs(nats["int8"] - nats["float32"]) < 0.02
    assert abs(nats["int4"] - nats["float32"]) < 0.3
    with pytest.raises(UsageError, match=r"^int4 is for language models, classifiers and encoders; for a translator"):
        Translator.load(run, "int4")
    with pytest.raises(UsageError, match=r"^int4 is for the native engine; leave out --precision or --engine torch$"):
        runtime.Generator.load(own, "int4", engine="torch")
