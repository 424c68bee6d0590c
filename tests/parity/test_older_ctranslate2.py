"""Packages with models of older converters: what is read writes the text of CTranslate2 with the same folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.unit.interop.ctranslate2_folders import written
from tests.unit.interop.older_ctranslate2 import FORMATS, older_folder
from tests.unit.interop.trained_runs import random_run
from tests.unit.interop.translators import phrases

from dikkat.interop.ctranslate2.agreement import exported_files
from dikkat.interop.sentencepiece_file import pieces_of, sentencepiece_file
from dikkat.interop.trained_translator import TrainedTranslator
from dikkat_runtime.cli.main import run as run_command
from dikkat_runtime.engine.options import DecodingOptions
from dikkat_runtime.tasks.translator import Translator

ctranslate2 = pytest.importorskip("ctranslate2", reason="needs ctranslate2, which the extra [test] brings")
sentencepiece = pytest.importorskip("sentencepiece", reason="needs sentencepiece, which the extra [test] brings")
pytestmark = pytest.mark.peer

MAX_LENGTH = 40
SENTENCES = phrases(60)[0][:30]


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, bytes]]:
    """The files of a model of today in float32 and in int8, with the pieces of both sides."""
    run = random_run(tmp_path_factory.mktemp("run") / "run", {"kind": "unigram"})
    translator = TrainedTranslator.open(run)
    settings = translator.tokenizer_settings[0]
    pieces = {"sentencepiece.model": sentencepiece_file(pieces_of(settings), settings)}
    files: dict[str, dict[str, bytes]] = {}
    for precision in ("float32", "int8"):
        one = exported_files(translator, precision, with_tokenizers=False)
        entries = json.loads(one.pop("shared_vocabulary.json"))
        files[precision] = one | pieces | {"shared_vocabulary.txt": "".join(f"{entry}\n" for entry in entries).encode()}
    return files


def by_ctranslate2(folder: Path) -> list[str]:
    """What CTranslate2 writes with the folder in float32, over its pieces."""
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(folder.parent / "sentencepiece.model"))
    engine: Any = ctranslate2.Translator(str(folder), compute_type="float32", intra_threads=1)
    tokens = [pieces.encode(text, out_type=str) for text in SENTENCES]
    found = engine.translate_batch(tokens, beam_size=1, max_decoding_length=MAX_LENGTH, min_decoding_length=0)
    return [str(pieces.decode(result.hypotheses[0])).strip() for result in found]


@pytest.mark.parametrize(
    ("form", "precision"), [("2019", "int8"), ("2021", "int16"), ("2022", "float32"), ("late 2022", "int8")]
)
def test_packages_with_older_models_translate_alike(
    form: str, precision: str, exported: dict[str, dict[str, bytes]], tmp_path: Path
) -> None:
    files = exported["int8" if precision == "int8" else "float32"]
    older = older_folder(files, FORMATS[form], tmp_path / "made", int16=precision == "int16")
    package = {f"model/{name}": content for name, content in older.items() if name != "sentencepiece.model"}
    package["sentencepiece.model"] = older["sentencepiece.model"]
    package["metadata.json"] = json.dumps({"from_code": "en", "to_code": "fr", "package_version": "1.0"}).encode()
    folder = written(tmp_path / "package", package)
    assert run_command(["import", str(folder), "--out", str(tmp_path / "run")]) == 0
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert config["model"]["add_source_eos"] == bool(FORMATS[form].flags.get("with_source_eos", 0))
    theirs = by_ctranslate2(folder / "model")
    assert len(set(theirs)) > 10
    options = DecodingOptions(max_length_factor=0, max_length_offset=MAX_LENGTH)
    ours = Translator.load(tmp_path / "run").stream(SENTENCES, options, retry_loops=False)
    assert [item.text.strip() for item in ours] == theirs


def test_a_vocabulary_of_lines_of_windows_without_the_unknown_is_read_as_ctranslate2_reads_it(
    exported: dict[str, dict[str, bytes]], tmp_path: Path
) -> None:
    older = older_folder(exported["float32"], FORMATS["2021"], tmp_path / "made")
    entries = older["shared_vocabulary.txt"].decode().split("\n")[:-1]
    # the unknown comes last, where CTranslate2 puts one that is missing
    moved = [*entries[:3], *entries[4:]]
    folder = written(tmp_path / "plain", {**older, "shared_vocabulary.txt": "\n".join([*moved, "<unk>\n"]).encode()})
    windows = "".join(f"{entry}\r\n" for entry in moved).encode()
    other = written(tmp_path / "windows", {**older, "shared_vocabulary.txt": windows})
    for path in (folder, other):
        assert run_command(["import", str(path), "--out", str(path / "run")]) == 0
    texts = [
        [line.text for line in Translator.load(path / "run").translate(SENTENCES, DecodingOptions())]
        for path in (folder, other)
    ]
    assert texts[0] == texts[1]
    assert len(set(texts[0])) > 10
    # CTranslate2 reads both alike
    tokens = [["▁the"], ["▁a", "▁man"]]
    theirs: list[Any] = [ctranslate2.Translator(str(path), intra_threads=1) for path in (folder, other)]
    results = [[one.hypotheses for one in engine.translate_batch(tokens, beam_size=1)] for engine in theirs]
    assert results[0] == results[1]
