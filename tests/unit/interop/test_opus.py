"""Packages of OPUS-MT: texts of its formulas, vocabularies that no library of YAML reads whole, hostile zips."""

from __future__ import annotations

import json
import random
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.unit.interop.ctranslate2_folders import complaint, damaged, refusal
from tests.unit.interop.marian_files import PIECES, POST_NORM, MarianFormulas, marian_folder, marian_weights
from tests.unit.interop.translators import phrases, pieces_of, sentencepiece_model

from dikkat.interop.marian import read_vocabulary
from dikkat.interop.opus import read_opus
from dikkat.interop.piece_vocabulary import NEVER
from dikkat_runtime.cli.main import run as run_command
from dikkat_runtime.engine.options import DecodingOptions
from dikkat_runtime.errors import DataError
from dikkat_runtime.tasks.translator import Translator

WEIGHTS = marian_weights(POST_NORM, seed=2, spread=0.8)
VOCABULARY = "opus.spm32k-spm32k.vocab.yml"


def listed(entries: list[str]) -> str:
    """Each by one of the ways in which such files name a piece."""
    ways = ("{quoted}: {id}\n", "{plain}: {id}\n", "? {quoted}\n: {id}\n")
    lines = []
    for number, entry in enumerate(entries):
        quoted = json.dumps(entry, ensure_ascii=number % 2 == 0)
        plain = entry if entry[0] not in "\"'?" else quoted
        lines.append(ways[number % 3].format(quoted=quoted, plain=plain, id=number))
    return "".join(lines)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """What is in a package: two SentencePiece models, and one vocabulary of the pieces of both."""
    folder = tmp_path_factory.mktemp("opus")
    entries = ["</s>", "<unk>"]
    for name, texts in zip(("source.spm", "target.spm"), phrases(), strict=True):
        (folder / name).write_bytes(sentencepiece_model(texts, 150))
        entries += [piece for piece in pieces_of(folder / name) if piece not in entries]
    entries += [f"<unused{number}>" for number in range(PIECES - len(entries))]
    theirs = marian_folder(folder / "theirs", POST_NORM, WEIGHTS)
    decoder = (theirs / "decoder.yml").read_text().replace("vocab.spm", VOCABULARY)
    return {
        "README.md": b"# opus",
        "decoder.yml": decoder.encode(),
        "model.npz": (theirs / "model.npz").read_bytes(),
        VOCABULARY: listed(entries).encode(),
        **{name: (folder / name).read_bytes() for name in ("source.spm", "target.spm")},
    }


def package(path: Path, files: Mapping[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


def without_some(files: Mapping[str, bytes], folder: Path) -> dict[str, bytes]:
    """The files with a .yml that lacks every fifth piece."""
    for name in (VOCABULARY, "source.spm"):
        (folder / name).write_bytes(files[name])
    entries = read_vocabulary(folder / VOCABULARY, 0).entries
    kept = [f"<absent{number}>" if number % 5 == 4 else entry for number, entry in enumerate(entries)]
    return {**files, VOCABULARY: listed(kept).encode()}


@pytest.mark.parametrize("lacks_some", [False, True])
def test_it_writes_what_the_formulas_find_most_probable(
    lacks_some: bool, files: dict[str, bytes], tmp_path: Path
) -> None:
    sentencepiece = pytest.importorskip("sentencepiece", reason="needs sentencepiece, of the extra [test]")
    if lacks_some:
        files = without_some(files, tmp_path)
    path = package(tmp_path / "opus-2020-02-26.ZIP", files)
    assert run_command(["import", str(path), "--out", str(tmp_path / "run")]) == 0
    first = sentencepiece.SentencePieceProcessor(model_proto=files["source.spm"])
    (tmp_path / VOCABULARY).write_bytes(files[VOCABULARY])
    (tmp_path / "source.spm").write_bytes(files["source.spm"])
    entries = read_vocabulary(tmp_path / VOCABULARY, 0).entries
    ids = {entry: number for number, entry in enumerate(entries)}
    formulas, expected = MarianFormulas(POST_NORM, WEIGHTS), []
    texts = phrases(12)[0]
    for text in texts:
        source = [ids.get(piece, ids["<unk>"]) for piece in first.encode(text, out_type=str)]
        target: list[int] = []
        while len(target) < 20 and (not target or target[-1] != 0):
            target.append(int(formulas.log_probabilities([*source, 0], [*target, 0])[-1].argmax()))
        # untrained weights write pieces of the source too, which target.spm would leave as they are
        expected.append("".join(entries[number] for number in target if number).replace("▁", " ").strip())
    assert len(set(expected)) > 3
    options = DecodingOptions(max_length_factor=0, max_length_offset=20)
    written = [
        each.text.strip() for each in Translator.load(tmp_path / "run").stream(texts, options, retry_loops=False)
    ]
    assert written == expected


def test_a_piece_that_the_vocabulary_lacks_is_read_as_unknown(files: dict[str, bytes], tmp_path: Path) -> None:
    sentencepiece = pytest.importorskip("sentencepiece", reason="needs sentencepiece, of the extra [test]")
    changed = without_some(files, tmp_path)
    translator = read_opus(package(tmp_path / "opus.zip", changed))
    (tmp_path / VOCABULARY).write_bytes(changed[VOCABULARY])
    entries = read_vocabulary(tmp_path / VOCABULARY, 0).entries
    ids = {entry: number for number, entry in enumerate(entries)}
    first = sentencepiece.SentencePieceProcessor(model_proto=files["source.spm"])
    texts = [*phrases(60)[0], "the 漢字 cat 漢 sees"]
    (order,), (source, target) = translator.orders, translator.tokenizers
    expected = [[ids.get(piece, ids["<unk>"]) for piece in first.encode(text, out_type=str)] for text in texts]
    assert [[order.rows[number] for number in row] for row in source.encode_batch(texts)] == expected
    # an id that nothing writes is in no target, or its loss would be that of what cannot be
    never = {number for number, bias in enumerate(translator.weights["output_bias"].tolist()) if bias <= NEVER}
    assert source.vocab_size == target.vocab_size == len(order.rows) > len(entries) + 2
    assert any(not never.isdisjoint(row) for row in source.encode_batch(texts))
    assert never.isdisjoint(number for row in target.encode_batch(texts) for number in row)


def test_pieces_are_read_as_they_were_written(files: dict[str, bytes], tmp_path: Path) -> None:
    odd = [
        ('"</s>"', "</s>"), ("<unk>", "<unk>"), ('"\\x85"', "\x85"), ("'it''s'", "it's"), ('":"', ":"),
        ("▁a: b", "▁a: b"), ('"\\""', '"'), ("'", "'"), ("#", "#"), ('"\\u2581\\\\"', "▁\\"), ("null", "null"),
        ("\u2028", "\u2028"), ("-", "-"),
    ]  # fmt: skip
    path = tmp_path / VOCABULARY
    (tmp_path / "target.spm").write_bytes(files["target.spm"])
    path.write_text("".join(f"{key}: {number}\n" for number, (key, _) in enumerate(odd)), encoding="utf-8")
    assert read_vocabulary(path, 1).entries == tuple(piece for _, piece in odd)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("</s>: 0\n<unk>: 0\n", "line 2 must be a piece with an id of its own"),
        ("</s>: 0\n<unk>: 1\n- a\n", "line 3 must be a piece with an id of its own"),
        ("</s>: 0\n<unk>: 2\n", "does not name all pieces from 0 to 2"),
        ("</s>: 0\n<unk>: 1\n'<unk>': 2\n", "a piece occurs twice"),
        ('</s>: 0\n<unk>: 1\n"\\q": 2\n', "line 3 has an escape that stands for no character"),
        ('</s>: 0\n<unk>: 1\n"\\ud800": 2\n', "line 3 has an escape that stands for no character"),
        ("a: 0\n<unk>: 1\n", "has no entry for the end"),
        ("", "does not name all pieces"),
    ],
)
def test_a_vocabulary_that_is_none_is_refused_by_its_line(
    text: str, told: str, files: dict[str, bytes], tmp_path: Path
) -> None:
    path = tmp_path / VOCABULARY
    (tmp_path / "source.spm").write_bytes(files["source.spm"])
    path.write_text(text)
    with pytest.raises(DataError, match=told):
        read_vocabulary(path, 0)


def test_hostile_packages_are_refused_in_a_line_and_write_nothing(files: dict[str, bytes], tmp_path: Path) -> None:
    def told(name: str, changed: Mapping[str, bytes], *without: str) -> str:
        kept = {name: content for name, content in files.items() if name not in without}
        return refusal(package(tmp_path / f"{name}.zip", {**kept, **changed}))

    assert "names a file outside the package" in told("above", {"../evil": b"x"})
    assert "unpack to" in told("bomb", {"zeros": b"\0" * (64 << 20)})
    assert "must hold one decoder.yml, not 0" in told("photos", {}, "decoder.yml")
    assert "subword-nmt" in told("old", {"source.bpe": b"x"}, "source.spm", "target.spm")
    assert "target.spm: cannot be read" in told("half", {}, "target.spm")
    alien = listed(["</s>", "<unk>", *(f"<absent{number}>" for number in range(PIECES - 2))]).encode()
    large = sentencepiece_model(phrases()[0], PIECES + 3)
    assert f"source.spm: {PIECES + 1} of its pieces" in told("alien", {VOCABULARY: alien, "source.spm": large})
    assert "not a readable .npz" in told("pickle", {"model.npz": b"\x80\x04K\x01."})
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".zip"] * 7


@pytest.mark.parametrize("count", [20, pytest.param(200, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("kind", ["cut", "flipped"])
def test_damaged_packages_are_refused_in_a_line(kind: str, count: int, files: dict[str, bytes], tmp_path: Path) -> None:
    generator = random.Random(4)
    path = package(tmp_path / "opus.zip", files)
    whole, complaints = path.read_bytes(), []
    for _ in range(count):
        path.write_bytes(damaged(whole, kind, generator))
        complaints.append(complaint(path))
    told = [line for line in complaints if line]
    # a zip has fields that nobody reads, such as times
    assert len(told) == count if kind == "cut" else len(told) > count * 0.8
    assert all(line.startswith(str(path)) and line.isprintable() for line in told)


def test_a_zip_that_says_more_of_its_parts_than_there_is_unpacks_to_no_more(
    files: dict[str, bytes], tmp_path: Path
) -> None:
    path = package(tmp_path / "opus.zip", {"zeros.spm": b"\0" * (64 << 20), **files})
    content = bytearray(path.read_bytes())
    # the first entry of the list at the end: its packed size stands 20 bytes behind its mark
    place = content.index(b"PK\x01\x02") + 20
    content[place : place + 4] = (4 << 20).to_bytes(4, "little")
    path.write_bytes(content)
    assert "unpack to" in refusal(path)
