"""Shortlists of Marian: the lists of its own rule, in our ids, and files that are damaged or of another model."""

from __future__ import annotations

import json
import shutil
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.command_lines import run_without_dikkat as run_runtime
from tests.unit.interop.marian_files import POST_NORM, SEPARATE, Options, marian_folder, marian_weights
from tests.unit.interop.test_marian_export import MARIAN
from tests.unit.interop.trained_runs import random_run
from tests.unit.interop.translators import phrases

from dikkat.interop.ctranslate2.vocabularies import vmap_file
from dikkat.interop.foreign_translator import ForeignTranslator
from dikkat.interop.importing import read_foreign
from dikkat.interop.marian_shortlist import binary_shortlist, read_binary_shortlist
from dikkat.interop.piece_vocabulary import VocabularyOrder
from dikkat.run_directory.tensor_files import encode_tensors
from dikkat_runtime.cli.main import run
from dikkat_runtime.engine.options import DecodingOptions
from dikkat_runtime.engine.shortlist import OWNER, SHORTLIST, Shortlist
from dikkat_runtime.errors import DataError
from dikkat_runtime.run.weights import read_checksum
from dikkat_runtime.server.models import Catalog
from dikkat_runtime.tasks.embedder import Embedder
from dikkat_runtime.tasks.translator import Translator
from dikkat_runtime.text.foreign_json import shown

PIECES = 300
NAME = "lex.3.2.bin"
DECODER = f"normalize: 1\nshortlist:\n    - {NAME}\n    - false\n"
FREQUENT = 3


def lists(size: int) -> list[list[int]]:
    """Two words of the target for each piece of the source, by Marian's ids; none for the end and the unknown."""
    draw = np.random.default_rng(1)
    return [[], [], *(sorted(draw.choice(size, 2, replace=False).tolist()) for _ in range(size - 2))]


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


@pytest.mark.parametrize("written", [NAME, f"['{NAME}', 50, 50]"])
def test_a_shortlist_is_read_wherever_it_is_named_on_one_line(written: str, tmp_path: Path) -> None:
    folder = folder_with(tmp_path, POST_NORM, binary(lists(PIECES)))
    expected = read(folder).shortlist
    config = folder / "decoder.yml"
    config.write_text(config.read_text().replace(f"shortlist:\n    - {NAME}\n    - false\n", f"shortlist: {written}\n"))
    found = read(folder)
    assert expected is not None
    assert found.shortlist is not None
    for name, array in expected.arrays().items():
        np.testing.assert_array_equal(found.shortlist.arrays()[name], array)
    (folder / NAME).unlink()
    assert read(folder).left_out == (f"the shortlist {NAME}, so that every word may be written",)


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was imported with its shortlist."""
    folder = tmp_path_factory.mktemp("imported")
    theirs, out = folder_with(folder, POST_NORM, binary(lists(PIECES))), folder / "run"
    assert run(["import", str(theirs), "--out", str(out)]) == 0
    return out


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "in" / "lines.txt"
    path.parent.mkdir()
    path.write_text(f"{phrases(1)[0][0]}\n")
    return path


def test_what_an_imported_run_writes_is_of_its_list_unless_all_words_are_asked_for(
    imported: Path, text: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ours, line = Translator.load(imported), text.read_text().removesuffix("\n")
    ids = ours.encode(line)
    written = ours.engine.search(ours.engine.encode([ids]), DecodingOptions())[0][0].tokens
    shortlist = read(imported.parent / "theirs").shortlist
    assert shortlist is not None
    assert written
    assert set(written) <= set(shortlist.of(ids).tolist())
    assert "shortlist" not in str(Embedder.load(imported).info)
    every = Translator.load(imported, all_words=True)
    assert every.engine.search(every.engine.encode([ids]), DecodingOptions())[0][0].tokens != written
    for options, is_listed in (([], True), (["--all-words"], False)):
        for command in (run, run_runtime):
            capsys.readouterr()
            assert command(["translate", str(imported), str(text), "--beam", "1", *options]) == 0
            printed = capsys.readouterr()
            (expected,) = (ours if is_listed else every).translate([line], DecodingOptions())
            assert printed.out == f"{expected.text}\n"
            assert ("words of a shortlist" in printed.err) == is_listed


@pytest.mark.parametrize("command", [run, run_runtime], ids=["dikkat", "dikkat-runtime"])
@pytest.mark.parametrize("options", [["--sample"], ["--no-repeat-ngram", "2"], ["--repetition-penalty", "1.5"]])
def test_the_engine_line_names_no_shortlist_where_search_is_among_all_words(
    command: Callable[..., int], options: list[str], imported: Path, text: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(["translate", str(imported), str(text), *options]) == 0
    printed = capsys.readouterr()
    assert "native engine" in printed.err
    assert "shortlist" not in printed.err


def test_files_are_translated_with_all_words_where_they_are_asked_for(
    imported: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    # of whole sentences this model writes loops, which are written again with all words
    lines, path, out = " ".join(phrases(12)[0]).split(), tmp_path / "lines.txt", tmp_path / "out"
    path.write_text("".join(f"{line}\n" for line in lines))
    listed, every = (
        "".join(
            f"{one.text}\n" for one in Translator.load(imported, all_words=words).translate(lines, DecodingOptions())
        )
        for words in (False, True)
    )
    assert every != listed
    words = ["translate-files", str(imported), str(path), "--out", str(out), "--beam", "1", "--workers", "1"]
    assert run([*words, "--all-words"]) == 0
    assert (out / "lines.txt").read_text() == every
    capfd.readouterr()
    assert run_runtime(words) == 2
    assert "was made by all_words true, not false" in capfd.readouterr().err


def test_a_server_leaves_the_list_aside_where_it_is_told_to(imported: Path) -> None:
    for all_words in (False, True):
        (model,) = Catalog([f"en-pt={imported}"], all_words=all_words).models
        assert ("shortlist" in str(model.model.info)) != all_words


@pytest.mark.parametrize("command", [run, run_runtime], ids=["dikkat", "dikkat-runtime"])
def test_a_run_whose_list_is_gone_says_so_in_one_line(
    command: Callable[..., int], imported: Path, text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = tmp_path / "run"
    shutil.copytree(imported, copy)
    (copy / SHORTLIST).unlink()
    capsys.readouterr()
    assert command(["translate", str(copy), str(text)]) == 66
    message = capsys.readouterr().err
    assert f"{copy / SHORTLIST}: is missing, but config.json names it" in message
    assert message.count("\n") == 1
    assert command(["translate", str(copy), str(text), "--all-words"]) == 0


def test_what_is_exported_without_the_list_is_said(
    imported: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy, out = tmp_path / "run", tmp_path / "exported.argosmodel"
    shutil.copytree(imported, copy)
    config = json.loads((copy / "config.json").read_text())
    config["data"] |= {"source_language": "en", "target_language": "pt"}
    (copy / "config.json").write_text(json.dumps(config))
    (copy / "manifest.json").unlink()
    assert run(["export", str(copy), "--to", "argos", "--out", str(out)]) == 0
    assert "the shortlist of the run is not exported" in capsys.readouterr().err


def test_marian_gets_the_list_it_came_with(imported: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "exported"
    assert run(["export", str(imported), "--to", "marian", "--out", str(out)]) == 0
    assert f"Marian writes only words of {out}/lex.s2t.bin, the shortlist" in capsys.readouterr().err
    theirs = (imported.parent / "theirs" / NAME).read_bytes()
    # the same but for the longest list and the checksum: a list need not hold the piece itself, nor a frequent word
    again, before = read(out).shortlist, read(imported.parent / "theirs").shortlist
    assert again is not None
    assert before is not None
    assert struct.unpack_from("<Q", (out / "lex.s2t.bin").read_bytes(), 16) == struct.unpack_from("<Q", theirs, 16)
    for piece in range(2, PIECES + 2):
        assert again.of([piece]).tolist() == before.of([piece]).tolist()


def test_one_vocabulary_is_shared_though_the_matrices_be_two(tmp_path: Path) -> None:
    """Translate in src/translator/translator.h: a list allows the piece itself where both sides name one file."""
    directory = random_run(tmp_path / "run", {"kind": "unigram", "vocab_size": 600}, **MARIAN, tie_embeddings=False)
    size = json.loads((directory / "config.json").read_text())["model"]["vocab_size"]
    starts = np.maximum(np.arange(-2, size - 1, dtype=np.int32), 0)
    arrays = {"always": np.array([2, 3], np.int32), "starts": starts, "words": np.arange(2, size, dtype=np.int32)}
    notes = {OWNER: read_checksum(directory / "model.safetensors")}
    tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
    (directory / SHORTLIST).write_bytes(encode_tensors(tensors, notes))
    out = tmp_path / "exported"
    assert run(["export", str(directory), "--to", "marian", "--out", str(out)]) == 0
    again = read(out)
    assert len(again.orders) == 2
    assert again.shortlist is not None
    assert again.shortlist.of([40, 9]).tolist() == [2, 3, 9, 40]


@pytest.mark.parametrize("kind", ["joint", "separate"])
def test_words_that_are_not_the_most_frequent_ones_travel_in_the_list_of_the_end(kind: str, tmp_path: Path) -> None:
    order, draw = VocabularyOrder.of(20, end=0, unknown=1), np.random.default_rng(6)
    orders = (order,) if kind == "joint" else (order, order)
    own = [[piece] if piece >= 2 else [] for piece in range(22)]
    words = [sorted({*own[piece], *draw.choice(np.arange(2, 22), 3).tolist()}) for piece in range(22)]
    words[0] = words[1] = []
    starts = np.cumsum([0, *map(len, words)]).astype(np.int32)
    joined = np.array([word for listed in words for word in listed], np.int32)
    shortlist = Shortlist(np.array([2, 3, 9, 15], np.int32), starts, joined)
    content = binary_shortlist(shortlist, orders)
    assert content is not None
    (tmp_path / NAME).write_bytes(content)
    again = read_binary_shortlist(tmp_path / NAME, orders)
    for piece in range(2, 22):
        assert again.of([piece, 5]).tolist() == shortlist.of([piece, 5]).tolist()
    # with one vocabulary Marian allows a piece of the source in any case, which this list does not
    narrow = Shortlist(shortlist.always, np.zeros_like(starts), joined[:0])
    assert (binary_shortlist(narrow, orders) is None) == (kind == "joint")


def test_ctranslate2_gets_the_list_and_writes_among_its_words(
    imported: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ctranslate2 = pytest.importorskip("ctranslate2", reason="needs ctranslate2, of the extra [test]")
    out = tmp_path / "exported"
    assert run(["export", str(imported), "--to", "ctranslate2", "--out", str(out)]) == 0
    assert f"the words of {out}/vmap.txt are written" in capsys.readouterr().err
    assert "use_vmap=True" in (out / "README.md").read_text()
    ours, vocabulary = Translator.load(imported), json.loads((out / "shared_vocabulary.json").read_text())
    engine = ctranslate2.Translator(str(out), intra_threads=1)
    for line in phrases(20)[0]:
        ids = ours.encode(line)
        length = DecodingOptions(max_length_factor=0, max_length_offset=40)
        (found,) = ours.engine.search(ours.engine.encode([ids]), length)
        (theirs,) = engine.translate_batch(
            [[vocabulary[number] for number in ids]], beam_size=1, length_penalty=0, use_vmap=True,
            max_decoding_length=40, min_decoding_length=0, return_scores=True,
        )  # fmt: skip
        assert [vocabulary[number] for number in found[0].tokens] == theirs.hypotheses[0]
        # the probabilities, too, are among the words of the list
        assert found[0].log_probability == pytest.approx(theirs.scores[0], abs=5e-3)


def test_a_list_that_ctranslate2_would_read_otherwise_is_not_written() -> None:
    names = ["<blank>", "<s>", "</s>", "<unk>", "▁a", "b", "c"]
    starts = np.array([0, 0, 0, 1, 2, 4, 4, 4], np.int32)

    def written(always: list[int], words: list[int], names: list[str], *, reads_unknown: bool = True) -> bytes | None:
        listed = Shortlist(np.array(always, np.int32), starts, np.array(words, np.int32))
        return vmap_file(listed, names, names, reads_unknown=reads_unknown)

    # the words of the end mark, which is no token of a source there, are always candidates
    expected = "\t</s> <unk> ▁a b\n▁a\tb c\n".encode()
    assert written([2, 3, 5], [4, 5, 5, 6], names) == expected
    # it allows the unknown in any case, gives no words to what it does not know, and reads no names with spaces
    assert written([2, 5], [4, 5, 5, 6], names) is None
    assert written([2, 3, 5], [4, 6, 5, 6], names) is None
    assert written([2, 3, 5], [4, 6, 5, 6], names, reads_unknown=False) == expected
    for odd in ("c d", "c\td", "c\n", ""):
        assert written([2, 3, 5], [4, 5, 5, 6], [*names[:6], odd]) is None


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
