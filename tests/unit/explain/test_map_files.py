"""Maps as files: every bit comes back, the documented layout is what is written, and damage is named."""

from __future__ import annotations

import errno
import json
import os
import random
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dikkat.explain import map_files
from dikkat.explain.attention_map import AttentionMap
from dikkat.explain.map_files import read_json, read_npz, write_alignment, write_json, write_npz
from dikkat.explain.sentence_maps import SentenceMaps, map_key
from dikkat_runtime.errors import CannotCreateError, DataError, DiskError, MissingInputError

READS, WRITES = ("▁a", "</script>", '"', "\x00\u202e", "<eos>"), ("<bos>", "▁b")
FORMS = [(write_json, read_json, "a.json"), (write_npz, read_npz, "a.npz")]
PLAIN = SentenceMaps(
    "a",
    "b",
    ("▁a", "<eos>"),
    ("<bos>", "▁b"),
    (
        AttentionMap(
            np.array([[0.1, 0.9], [1.0, 0.0]], np.float32), ("<bos>", "▁b"), ("▁a", "<eos>"), "decoder", 1, 2, "cross"
        ),
    ),
)


@pytest.fixture
def sentences() -> list[SentenceMaps]:
    generator = np.random.default_rng(7)

    def weights(rows: int, columns: int) -> Any:
        # every exponent: zero, the smallest of all, and ordinary ones
        found = generator.dirichlet(np.full(columns, 0.1), rows).astype(np.float32)
        found[0, 0] = 1e-45
        return found

    maps = (
        AttentionMap(weights(5, 5), READS, READS, "encoder", 0, 3, "self"),
        AttentionMap(weights(2, 2), WRITES, WRITES, "decoder", 1, 0, "self"),
        AttentionMap(weights(2, 5), WRITES, READS, "decoder", 1, None, "cross"),
    )
    return [SentenceMaps('a</script>"\x00\u202e', "b", READS, WRITES, maps), SentenceMaps("ş 😀", "", READS, (), ())]


@pytest.mark.parametrize(("write", "read", "name"), FORMS)
def test_everything_comes_back_bit_by_bit(
    sentences: list[SentenceMaps], tmp_path: Path, write: Callable[..., None], read: Callable[..., Any], name: str
) -> None:
    write(iter(sentences), tmp_path / name)
    back = read(tmp_path / name)
    assert len(back) == 2
    for one, other in zip(sentences, back, strict=True):
        for field in ("source", "output", "source_tokens", "output_tokens"):
            assert getattr(one, field) == getattr(other, field)
        for mine, its in zip(one.maps, other.maps, strict=True):
            assert map_key(mine) == map_key(its)
            assert (mine.query_tokens, mine.key_tokens) == (its.query_tokens, its.key_tokens)
            assert its.weights.dtype == np.float32
            assert np.array_equal(mine.weights, its.weights)


def test_the_json_is_as_documented(tmp_path: Path) -> None:
    write_json([PLAIN], tmp_path / "a.json")
    text = (tmp_path / "a.json").read_text(encoding="utf-8")
    assert json.loads(text) == {
        "format": "dikkat-attention",
        "version": 1,
        "sentences": [
            {
                "source": "a",
                "output": "b",
                "source_tokens": ["▁a", "<eos>"],
                "output_tokens": ["<bos>", "▁b"],
                "maps": [
                    {"stack": "decoder", "kind": "cross", "layer": 2, "head": 3, "weights": [[0.1, 0.9], [1.0, 0.0]]}
                ],
            }
        ],
    }
    assert text.endswith("\n")
    assert "0.1, 0.9" in text


def test_the_npz_is_as_documented(tmp_path: Path) -> None:
    write_npz([PLAIN], tmp_path / "a.npz")
    with np.load(tmp_path / "a.npz", allow_pickle=False) as arrays:
        assert set(arrays) == {"document", "1.decoder.cross.layer2.head3"}
        assert np.array_equal(arrays["1.decoder.cross.layer2.head3"], PLAIN.maps[0].weights)
        (each,) = json.loads(str(arrays["document"]))["sentences"][0]["maps"]
    assert each == {
        "stack": "decoder", "kind": "cross", "layer": 2, "head": 3, "weights": "1.decoder.cross.layer2.head3",
    }  # fmt: skip


def test_an_alignment_is_a_line_a_sentence(tmp_path: Path) -> None:
    write_alignment([PLAIN, PLAIN], tmp_path / "a.align")
    assert (tmp_path / "a.align").read_text() == "0-0\n0-0\n"


def test_too_many_weights_for_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(map_files, "MOST_JSON_WEIGHTS", 7)
    with pytest.raises(
        DataError, match=r"a\.json: .*more than the 7 weights that JSON takes; choose .* or write \.npz"
    ):
        write_json([PLAIN, PLAIN], tmp_path / "a.json")
    assert os.listdir(tmp_path) == []
    write_json([PLAIN], tmp_path / "a.json")


def changed(path: Path, change: Callable[[Any], object]) -> None:
    write_json([PLAIN], path)
    document = json.loads(path.read_text(encoding="utf-8"))
    change(document)
    path.write_text(json.dumps(document), encoding="utf-8")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda each: each.update(format="other"), 'its "format" is not "dikkat-attention"'),
        (lambda each: each.update(version=2), "has version 2, this dikkat reads 1; update dikkat"),
        (lambda each: each.pop("sentences"), r"not a readable file of attention maps \('sentences'\); write it anew"),
        (lambda each: each["sentences"][0]["source_tokens"].append("x"), "key axis S: the weights have 2 positions"),
        (lambda each: each["sentences"][0]["maps"][0].update(weights=[[1], [1, 2]]), "not a readable file"),
        (lambda each: each["sentences"][0]["maps"][0].update(layer=None), "not a readable file"),
        (lambda each: each.update(sentences=[1]), "not a readable file"),
    ],
)
def test_foreign_and_damaged_documents(tmp_path: Path, change: Callable[[Any], object], message: str) -> None:
    path = tmp_path / "a.json"
    changed(path, change)
    with pytest.raises(DataError, match=rf"a\.json: .*{message}"):
        read_json(path)


@pytest.mark.parametrize("content", [b"{", b"[1]", b"\xff\xfe", b"PK\x03\x04 no archive", b""])
@pytest.mark.parametrize(("read", "name"), [(read, name) for _, read, name in FORMS])
def test_other_files(tmp_path: Path, read: Callable[..., Any], name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=name) as caught:
        read(tmp_path / name)
    assert "\n" not in str(caught.value)


def test_an_npz_of_something_else(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", weights=np.ones(3))
    with pytest.raises(DataError, match=r"a\.npz: not a readable file of attention maps"):
        read_npz(tmp_path / "a.npz")
    np.savez(tmp_path / "b.npz", document=np.array([{}], dtype=object))
    with pytest.raises(DataError, match=r"b\.npz: not a readable file of attention maps"):
        read_npz(tmp_path / "b.npz")


DAMAGE_NOT_MET_BY_CHANCE: dict[str, str] = {
    "many numbers": "{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000,), }\n",
    "a long text": "{'descr': '<U2000000000', 'fortran_order': False, 'shape': (), }\n",
    "deep": "(" * 5000 + "\n",
    "objects": "{'descr': '|O', 'fortran_order': False, 'shape': (), }\n",
}


@pytest.mark.parametrize("header", DAMAGE_NOT_MET_BY_CHANCE.values(), ids=DAMAGE_NOT_MET_BY_CHANCE)
def test_an_array_that_names_more_than_there_is(tmp_path: Path, header: str) -> None:
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as file:
        file.writestr("document.npy", b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode())
    with pytest.raises(DataError, match=r"not a readable file of attention maps \("):
        read_npz(tmp_path / "a.npz")


@pytest.mark.parametrize(("write", "read", "name"), FORMS)
def test_hundreds_of_damaged_files(
    tmp_path: Path, write: Callable[..., None], read: Callable[..., Any], name: str
) -> None:
    """Flipped bits, cut ends and other numbers: read as whole, or one line."""
    path = tmp_path / name
    write([PLAIN], path)
    whole = path.read_bytes()
    refused: list[str] = []
    for seed in range(300):
        chance = random.Random(seed)
        damaged = bytearray(whole)
        place = chance.randrange(len(whole))
        if seed % 3 == 0:
            damaged[place] ^= 1 << chance.randrange(8)
        elif seed % 3 == 1:
            del damaged[place:]
        else:
            damaged[place : place + 4] = chance.choice([b"\xff\xff\xff\xff", b"\0\0\0\0", b"[[[[", b"1e99", b" -1 "])
        path.write_bytes(damaged)
        try:
            read(path)
        except DataError as error:
            refused.append(str(error))
    assert len(refused) > 180
    assert all(message.startswith(f"{path}: ") and message.isprintable() for message in refused)


@pytest.mark.parametrize("weight", ["1e999", "-1e39", "NaN"])
def test_a_weight_that_is_not_finite(tmp_path: Path, weight: str) -> None:
    write_json([PLAIN], tmp_path / "a.json")
    text = (tmp_path / "a.json").read_text().replace("0.1", weight, 1)
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(DataError, match="a weight is not finite"):
        read_json(tmp_path / "a.json")


def test_json_without_end_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("[" * 100_000)
    with pytest.raises(DataError, match="is not JSON: maximum recursion"):
        read_json(tmp_path / "a.json")


@pytest.mark.parametrize(("read", "name"), [(read, name) for _, read, name in FORMS])
def test_a_missing_file_is_named(tmp_path: Path, read: Callable[..., Any], name: str) -> None:
    with pytest.raises(MissingInputError, match=rf"{name}: cannot be read: No such file"):
        read(tmp_path / name)


@pytest.mark.parametrize("write", [write_json, write_npz, write_alignment])
def test_what_was_there_survives_a_full_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: Callable[..., None]
) -> None:
    with pytest.raises(CannotCreateError, match="none does not exist; create it"):
        write([PLAIN], tmp_path / "none" / "a")
    (tmp_path / "a").write_bytes(b"old")

    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", fail)
    with pytest.raises(DiskError, match="a: writing failed: No space left"):
        write([PLAIN], tmp_path / "a")
    assert (tmp_path / "a").read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["a"]
