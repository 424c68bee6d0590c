"""Maps as files: every bit comes back, and the documented layout is what is written."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.system.written_maps import written_maps

from dikkat.explain import map_files
from dikkat.explain.attention_map import AttentionMap, SentenceMaps, map_key
from dikkat.explain.map_files import write_alignment, write_json, write_npz
from dikkat_runtime.errors import CannotCreateError, DataError, DiskError

READS, WRITES = ("▁a", "</script>", '"', "\x00\u202e", "<eos>"), ("<bos>", "▁b")
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
        result = generator.dirichlet(np.full(columns, 0.1), rows).astype(np.float32)
        result[0, 0] = 1e-45
        return result

    maps = (
        AttentionMap(weights(5, 5), READS, READS, "encoder", 0, 3, "self"),
        AttentionMap(weights(2, 2), WRITES, WRITES, "decoder", 1, 0, "self"),
        AttentionMap(weights(2, 5), WRITES, READS, "decoder", 1, None, "cross"),
    )
    return [SentenceMaps('a</script>"\x00\u202e', "b", READS, WRITES, maps), SentenceMaps("ş 😀", "", READS, (), ())]


@pytest.mark.parametrize(("write", "name"), [(write_json, "a.json"), (write_npz, "a.npz")])
def test_everything_comes_back_bit_by_bit(
    sentences: list[SentenceMaps], tmp_path: Path, write: Callable[..., None], name: str
) -> None:
    write(iter(sentences), tmp_path / name)
    back = written_maps(tmp_path / name)
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
        (item,) = json.loads(str(arrays["document"]))["sentences"][0]["maps"]
    assert item == {
        "stack": "decoder", "kind": "cross", "layer": 2, "head": 3, "weights": "1.decoder.cross.layer2.head3",
    }  # fmt: skip


def test_an_alignment_is_a_line_a_sentence(tmp_path: Path) -> None:
    write_alignment([PLAIN, PLAIN], tmp_path / "a.align")
    assert (tmp_path / "a.align").read_text() == "0-0\n0-0\n"


def test_too_many_weights_for_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(map_files, "MAX_JSON_WEIGHTS", 7)
    with pytest.raises(DataError, match=r"a\.json: JSON takes at most 7 weights; choose .* or write \.npz"):
        write_json([PLAIN, PLAIN], tmp_path / "a.json")
    assert os.listdir(tmp_path) == []
    write_json([PLAIN], tmp_path / "a.json")


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
