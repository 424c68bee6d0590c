"""Shortlists of Marian: the lists of its own rule, in our ids, and files that are damaged or of another model."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
from tests.unit.interop.marian_files import POST_NORM, SEPARATE, Options, marian_folder, marian_weights
from tests.unit.interop.translators import phrases

from dikkat.cli.main import run
from dikkat.interop.foreign_translator import ForeignTranslator
from dikkat.interop.importing import read_foreign
from dikkat.interop.marian_shortlist import read_binary_shortlist
from dikkat.interop.piece_vocabulary import VocabularyOrder
from dikkat_runtime.engine.options import DecodingOptions
from dikkat_runtime.errors import DataError
from dikkat_runtime.tasks.embedder import Embedder
from dikkat_runtime.tasks.translator import Translator
from dikkat_runtime.text.foreign_json import shown

PIECES = 300
NAME = "lex.3.2.bin"
DECODER = f"normalize: 1\nshortlist:\n    - {NAME}\n    - false\n"
FREQUENT = 3


def lists(size: int) -> list[list[int]]:
    """Two words of the target for each piece of the source, by Marian's ids; none for the end."""
    draw = np.random.default_rng(1)
    return [[], *(sorted(draw.choice(size, 2, replace=False).tolist()) for _ in range(size - 1))]


def binary(of_pieces: list[list[int]]) -> bytes:
    """The file, with the checksum of boost's hash_combine over its whole words of 64 bits."""
    starts = np.cumsum([0, *map(len, of_pieces)])
    words = np.array([word for own in of_pieces for word in own], "<u4")
    body = struct.pack("<4Q", FREQUENT, 2, len(starts), len(words)) + starts.astype("<u8").tobytes() + words.tobytes()
    seed = np.uint64(0)
    with np.errstate(over="ignore"):
        for number in np.frombuffer(body[: len(body) // 8 * 8], "<u8"):
            seed ^= number + np.uint64(0x9E3779B9) + (seed << np.uint64(6)) + (seed >> np.uint64(2))
    return struct.pack("<2Q", 0xF11A48D5013417F5, int(seed)) + body


def folder_with(tmp_path: Path, options: Options, content: bytes | None) -> Path:
    weights = marian_weights(options, seed=2, spread=0.8)
    folder = marian_folder(tmp_path / "theirs", options, weights, DECODER)
    if content is not None:
        (folder / NAME).write_bytes(content)
    return folder


def read(folder: Path) -> ForeignTranslator:
    found = read_foreign(folder)
    assert isinstance(found, ForeignTranslator)
    return found


def own_ids(order: VocabularyOrder) -> dict[int, int]:
    return {row: number for number, row in enumerate(order.rows) if number > 1}


@pytest.mark.parametrize("kind", [{}, SEPARATE], ids=["joint", "separate"])
def test_the_words_of_a_source_are_those_of_marians_rule(kind: Options, tmp_path: Path) -> None:
    options = {**POST_NORM, **kind}
    of_pieces = lists(PIECES)
    found = read(folder_with(tmp_path, options, binary(of_pieces)))
    assert found.left_out == ()
    assert found.shortlist is not None
    source, target = own_ids(found.orders[0]), own_ids(found.orders[-1])
    for piece in (1, 5, 40, len(of_pieces) - 1):
        # BinaryShortlistGenerator::generate: the frequent words, the lists of all pieces, and the pieces where they are
        # words of the target, too; the end mark of the source is one of its pieces
        theirs = {*range(FREQUENT), *of_pieces[piece], *of_pieces[9], *([] if kind else [piece, 9, 0])}
        expected = sorted(target[word] for word in theirs)
        assert found.shortlist.of([source[piece], source[9]]).tolist() == expected


def test_what_an_imported_run_writes_is_of_its_list_unless_all_words_are_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    theirs, out = folder_with(tmp_path, POST_NORM, binary(lists(PIECES))), tmp_path / "run"
    assert run(["import", str(theirs), "--out", str(out)]) == 0
    ours = Translator.load(out)
    text = phrases(1)[0][0]
    ids = ours.encode(text)
    written = ours.engine.search(ours.engine.encode([ids]), DecodingOptions())[0][0].tokens
    shortlist = read(theirs).shortlist
    assert shortlist is not None
    assert written
    assert set(written) <= set(shortlist.of(ids).tolist())
    assert "shortlist" not in str(Embedder.load(out).info)
    every = Translator.load(out, all_words=True)
    assert every.engine.search(every.engine.encode([ids]), DecodingOptions())[0][0].tokens != written
    (tmp_path / "in.txt").write_text(f"{text}\n")
    for options, is_listed in (([], True), (["--all-words"], False)):
        capsys.readouterr()
        assert run(["translate", str(out), str(tmp_path / "in.txt"), "--beam", "1", *options]) == 0
        printed = capsys.readouterr()
        (expected,) = (ours if is_listed else every).translate([text], DecodingOptions())
        assert printed.out == f"{expected.text}\n"
        assert ("words of a shortlist" in printed.err) == is_listed
    assert run(["export", str(out), "--to", "marian", "--out", str(tmp_path / "exported")]) == 0
    assert "the shortlist of the run stays there" in capsys.readouterr().err


def test_a_shortlist_that_is_not_there_is_named_as_left_out(tmp_path: Path) -> None:
    found = read(folder_with(tmp_path, POST_NORM, None))
    assert found.shortlist is None
    assert found.left_out == (f"the shortlist {NAME}, so that every word may be written",)


@pytest.mark.parametrize("name", ["/gone/lex.bin", "../lex.bin", f"{'x' * 300}.bin"])
def test_a_shortlist_elsewhere_is_left_out(name: str, tmp_path: Path) -> None:
    (tmp_path / "lex.bin").write_bytes(binary(lists(PIECES)))
    folder = folder_with(tmp_path, POST_NORM, None)
    config = folder / "decoder.yml"
    config.write_text(config.read_text().replace(NAME, name))
    assert read(folder).left_out == (f"the shortlist {shown(name)}, so that every word may be written",)


def test_a_damaged_file_and_one_of_another_model_are_refused_in_one_line(tmp_path: Path) -> None:
    content, order = binary(lists(PIECES)), VocabularyOrder.of(PIECES, end=0, unknown=1)
    draw, path = np.random.default_rng(2), tmp_path / NAME
    damaged = [content[: int(size)] for size in (0, 7, 47, 48, len(content) // 2, len(content) - 1)]
    # the last four bytes are no whole word, and outside the checksum of Marian
    damaged += [
        content[:at] + bytes([content[at] ^ 1 << int(draw.integers(8))]) + content[at + 1 :]
        for at in map(int, draw.integers(0, len(content) - 8, 200))
    ]
    for changed in (*damaged, content + b"\0", binary(lists(PIECES - 1))):
        path.write_bytes(changed)
        with pytest.raises(DataError, match=NAME) as error:
            read_binary_shortlist(path, (order,))
        assert "\n" not in str(error.value)
