"""Files of other toolkits, written by hand from what their sources say, and numbers by their formulas."""

from __future__ import annotations

import json
import stat
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from dikkat.interop.argos_package import package_metadata
from dikkat.interop.ctranslate2.model_file import ModelFile, model_file_bytes, quantized, read_model_file, restored
from dikkat.interop.ctranslate2.vocabularies import OWN, SUMS, check_checksums, vmap_file, with_checksums
from dikkat.interop.foreign_translator import Languages
from dikkat.interop.guarded_zip import unpacked
from dikkat.interop.marian import _listed, read_binary
from dikkat.interop.marian_npz import OPTIONS, read_npz
from dikkat.interop.marian_shortlist import binary_shortlist, read_binary_shortlist
from dikkat.interop.piece_vocabulary import NEVER, VocabularyOrder, piece_tokenizer
from dikkat.interop.sentencepiece_file import (
    Piece,
    PieceKind,
    SentencePieceModel,
    _encoded_number,
    _encoded_varint,
    pieces_of,
    read_sentencepiece,
    sentencepiece_file,
    with_named,
)
from dikkat_runtime.engine.shortlist import Shortlist
from dikkat_runtime.errors import DataError
from dikkat_runtime.special_tokens import SPECIAL_TOKENS
from dikkat_runtime.text.tokenizer import Tokenizer

Array = NDArray[np.float32]


def marian_file(tensors: dict[str, tuple[int, tuple[int, ...], bytes]], version: int = 1, gap: int = 5) -> bytes:
    """A `.bin`: type, sizes and data of each tensor by its name."""
    names = {name: name.encode() + b"\0" for name in tensors}
    content = struct.pack("<QQ", version, len(tensors))
    for name, (kind, shape, data) in tensors.items():
        content += struct.pack("<QQQQ", len(names[name]), kind, len(shape), len(data))
    content += b"".join(names.values())
    content += b"".join(struct.pack(f"<{len(shape)}i", *shape) for _, shape, _ in tensors.values())
    content += struct.pack("<Q", gap) + b"\7" * gap
    return content + b"".join(data for _, _, data in tensors.values())


FLOATS = np.arange(6, dtype="<f4").reshape(2, 3)
BYTES = np.array([[1, -2, 3], [4, 5, -127]], np.int8)
TENSORS = {
    "floats": (0x404, (2, 3), FLOATS.tobytes()),
    # inputs x outputs, stored with outputs before inputs
    "encoder_l1_self_Wq": (0x4101, (3, 2), BYTES.tobytes() + struct.pack("<f", 4.0)),
    "Wemb": (0x4101, (2, 3), BYTES.tobytes() + struct.pack("<f", 8.0)),
    "special:model.yml": (0x101, (4,), b"a: 1"),
}


def test_a_binary_of_marian_is_read_by_its_types(tmp_path: Path) -> None:
    (tmp_path / "model.bin").write_bytes(marian_file(TENSORS))
    weights, options = read_binary(tmp_path / "model.bin")
    assert options == b"a: 1"
    np.testing.assert_array_equal(weights["floats"].numpy(), FLOATS)
    np.testing.assert_array_equal(weights["encoder_l1_self_Wq"].numpy(), BYTES.T / 4.0)
    np.testing.assert_array_equal(weights["Wemb"].numpy(), BYTES / 8.0)


@pytest.mark.parametrize(
    "content",
    [
        marian_file(TENSORS, version=2),
        marian_file(TENSORS)[:-1],
        marian_file(TENSORS) + b"\0",
        marian_file({name: tensor for name, tensor in TENSORS.items() if name != "special:model.yml"}),
        marian_file({**TENSORS, "Wemb": (0x4101, (2, 3), BYTES.tobytes() + struct.pack("<f", 0.0))}),
        marian_file({**TENSORS, "Wemb": (0x808, (2, 3), bytes(48))}),
    ],
    ids=["version", "cut", "longer", "no options", "multiplier", "type"],
)
def test_another_binary_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "model.bin").write_bytes(content)
    with pytest.raises(DataError, match="not a readable Marian model"):
        read_binary(tmp_path / "model.bin")


def test_an_archive_that_unpacks_to_many_times_its_size_is_no_model(tmp_path: Path) -> None:
    path = tmp_path / "model.npz"
    arrays: dict[str, Any] = {"W": np.zeros((512, 512), np.float32), OPTIONS: np.frombuffer(b"a: 1", np.int8)}
    np.savez_compressed(path, **arrays)
    with pytest.raises(DataError, match="unpacks to many times its size"):
        read_npz(path)
    np.savez(path, **arrays)
    assert read_npz(path)[1] == b"a: 1"


@pytest.mark.parametrize("value", [0, 1, 127, 128, 255, 300, 16_383, 16_384, 2**32, -1, 2**63 - 1])
def test_whole_numbers_are_those_of_protocol_buffers(value: int) -> None:
    """Seven bits a byte, the lowest first, the eighth bit set where another follows; negatives as of 64 bits."""
    content = _encoded_number(1, value)
    assert content[0] == 1 << 3
    assert all(byte & 0x80 for byte in content[1:-1])
    assert not content[-1] & 0x80
    total = sum((byte & 0x7F) << (7 * number) for number, byte in enumerate(content[1:]))
    assert total == value % 2**64
    assert _encoded_varint(5) == b"\5"


def vocabulary(*scored: tuple[str, float]) -> dict[str, object]:
    entries = [*((token, -9.0) for token in SPECIAL_TOKENS), *scored]
    added = [{"content": token} for token in SPECIAL_TOKENS]
    return {"model": {"vocab": entries, "byte_fallback": False}, "added_tokens": added}


def test_rare_pieces_are_pieces_and_what_is_looked_up_is_none() -> None:
    settings = vocabulary(("▁a", -1.0), ("b", -9.0), ("c", -13.9), ("q", -19.0))
    assert [piece.text for piece in pieces_of(settings)[2:]] == ["▁a", "b", "c"]
    assert [piece.kind for piece in pieces_of(settings, all_entries=True)[2:]] == [PieceKind.NORMAL] * 4
    named = with_named(pieces_of(settings), ["▁a", "▁le", "x", "▁le", "yz"])[5:]
    assert [(piece.text, piece.kind) for piece in named] == [("▁le", PieceKind.UNUSED), ("yz", PieceKind.UNUSED)]


def test_ids_go_there_and_back() -> None:
    """Their end is 3 and their unknown 1, and they have no begin; two pieces more are read as the unknown."""
    order = VocabularyOrder.of(6, end=3, unknown=1).with_unknown(2)
    assert order.rows == (-1, -1, 3, 1, 0, 2, 4, 5, 1, 1)
    assert not order.begins
    theirs = torch.arange(12.0).reshape(6, 2) + 1
    ours = order.matrix(theirs)
    assert ours[:2].tolist() == [[0.0, 0.0]] * 2
    assert torch.equal(ours[2:4], theirs[[3, 1]])
    assert torch.equal(ours[8:], theirs[[1, 1]])
    # the vector of the unknown is that of the unknown itself, whatever its copies have become
    ours[8:] = -5.0
    assert torch.equal(order.theirs(ours), theirs)
    assert order.bias(theirs[:, 0]).tolist() == [NEVER, NEVER, 7.0, 3.0, 1.0, 5.0, 9.0, 11.0, NEVER, NEVER]
    begun = VocabularyOrder.of(4, end=2, unknown=3, padding=0)
    assert begun.rows == (0, 0, 2, 3, 1)
    assert begun.bias(torch.tensor([5.0, 6.0, 7.0, 8.0])).tolist() == [5.0, NEVER, 7.0, 8.0, 6.0]
    assert begun.entries(["<pad>", "a", "</s>", "<unk>"]) == [*SPECIAL_TOKENS, "a"]


def test_what_a_user_has_defined_is_never_cut(tmp_path: Path) -> None:
    """As in the library: the bytes of the piece times the largest score, less 0.1."""
    pieces = [Piece("<unk>", 0.0, PieceKind.UNKNOWN), Piece("</s>", 0.0, PieceKind.CONTROL)]
    pieces += [Piece(text, -1.0, PieceKind.NORMAL) for text in "▁şğ"]
    pieces += [Piece("şğ", 0.0, PieceKind.USER_DEFINED)]
    model = SentencePieceModel(tmp_path / "a.spm", tuple(pieces), b"", True, True)
    tokenizer = piece_tokenizer(model, [*SPECIAL_TOKENS, *(piece.text for piece in pieces[2:])])
    scores = dict(_scores(tokenizer, tmp_path))
    assert scores["şğ"] == pytest.approx(4 * -1.0 - 0.1)
    assert scores["ş"] == -1.0


def _scores(tokenizer: Tokenizer, folder: Path) -> list[tuple[str, float]]:
    tokenizer.save(folder / "tokenizer.json")
    content = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    return [(str(entry), float(score)) for entry, score in content["model"]["vocab"]]


NAME = "encoder/layer_0/ffn/linear_0/weight"


def test_a_row_is_rounded_to_the_nearest_step_of_its_largest_magnitude() -> None:
    numbers = np.array([[1.0, -2.0, 0.4], [0.25, 0.1, -0.2], [0, 0, 0]], np.float32)
    rounded = quantized({NAME: numbers})
    steps = np.array([127 / 2, 127 / 0.25], np.float32)
    np.testing.assert_allclose(rounded[f"{NAME}_scale"][:2], steps, rtol=1e-6)
    np.testing.assert_array_equal(rounded[NAME][:2], np.rint(numbers[:2] * steps[:, None]))
    assert rounded[NAME][0].tolist() == [64, -127, 25]
    assert not rounded[NAME][2].any()
    np.testing.assert_allclose(restored(rounded)[NAME], numbers, atol=2 / 127 / 2 * 1.001)
    square: dict[str, Any] = {"w": np.array([[10, 20], [30, 40]], np.int8), "w_scale": np.array([10, 5], np.float32)}
    assert restored(square)["w"].tolist() == [[1, 2], [6, 8]], "a scale for each row"


def variable(name: str, shape: tuple[int, ...], kind: int, size: int, data: bytes) -> bytes:
    raw = name.encode() + b"\0"
    head = struct.pack("<H", len(raw)) + raw + struct.pack("<B", len(shape)) + struct.pack(f"<{len(shape)}I", *shape)
    return head + struct.pack("<BI", kind, size) + data


def ctranslate2_file(version: int, revision: int, *variables: bytes) -> bytes:
    name = b"TransformerSpec\0"
    head = struct.pack("<I", version) + struct.pack("<H", len(name)) + name
    return head + struct.pack("<II", revision, len(variables)) + b"".join(variables) + struct.pack("<I", 0)


def test_bfloat16_and_the_sizes_of_the_oldest_version(tmp_path: Path) -> None:
    path = tmp_path / "model.bin"
    halves = (np.array([1.5, -2.0, 1 / 3], np.float32).view(np.uint32) >> 16).astype("<u2")
    path.write_bytes(ctranslate2_file(6, 7, variable("b", (3,), 5, 6, halves.tobytes())))
    np.testing.assert_allclose(read_model_file(path).variables["b"], [1.5, -2.0, 1 / 3], rtol=2**-8)
    numbers = np.array([[1, 2], [3, 4]], "<f4")
    path.write_bytes(ctranslate2_file(3, 3, variable("a", (2, 2), 4, 4, numbers.tobytes())))
    np.testing.assert_array_equal(read_model_file(path).variables["a"], numbers)


def test_variables_are_written_in_the_order_of_their_names(tmp_path: Path) -> None:
    arrays = {name: np.full(2, value, np.float32) for value, name in enumerate(("c", "a", "b"))}
    content = model_file_bytes(ModelFile(arrays, {}))
    assert content == model_file_bytes(ModelFile(dict(sorted(arrays.items())), {}))


def test_checksums_do_not_hang_on_the_order_of_settings(tmp_path: Path) -> None:
    files = {"model.bin": b"numbers"}
    config = with_checksums({"b": 1, OWN: {"kind": "x", "more": 2}, "a": [2]}, files)
    (tmp_path / "model.bin").write_bytes(files["model.bin"])
    own = dict(sorted(config[OWN].items(), reverse=True))
    check_checksums(tmp_path, dict(sorted({**config, OWN: own}.items())))
    with pytest.raises(DataError, match=r"config\.json: damaged: its content does not match"):
        check_checksums(tmp_path, {**config, "b": 2})
    (tmp_path / "model.bin").write_bytes(b"numbres")
    with pytest.raises(DataError, match=r"model\.bin: damaged: its content does not match"):
        check_checksums(tmp_path, config)
    with pytest.raises(DataError, match="it has lost its checksums"):
        check_checksums(tmp_path, {**config, OWN: {name: value for name, value in config[OWN].items() if name != SUMS}})


def shortlist(always: list[int], *lists: list[int]) -> Shortlist:
    starts = np.cumsum([0, *map(len, lists)]).astype(np.int32)
    return Shortlist(np.array(always, np.int32), starts, np.array([word for one in lists for word in one], np.int32))


def test_a_map_of_words_names_the_list_of_the_end_with_what_is_always_written() -> None:
    names = ["<blank>", "<s>", "</s>", "<unk>", "a", "b"]
    content = vmap_file(shortlist([3], [], [], [2, 5], [], [4], [4, 5]), names, names, reads_unknown=False)
    assert content == b"\t</s> <unk> b\na\ta\nb\ta b\n"
    unknown_has_words = shortlist([2, 3], [], [], [], [4], [4], [5])
    assert vmap_file(unknown_has_words, names, names, reads_unknown=True) is None
    assert vmap_file(unknown_has_words, names, names, reads_unknown=False) == b"\t</s> <unk>\na\ta\nb\tb\n"


def test_a_shortlist_of_marian_goes_there_and_back_and_has_its_checksum(tmp_path: Path) -> None:
    """The hash of boost: seed ^= number + 0x9E3779B9 + (seed << 6) + (seed >> 2), in 64 bits."""
    order = VocabularyOrder.of(8, end=0, unknown=1)
    ours = shortlist([2, 3, 4], [], [], [2, 7], [3], [4, 5], [9], [6, 7], [8], [9], [4])
    content = binary_shortlist(ours, (order, order.with_unknown(0), order)[:1] * 2)
    assert content is not None
    magic, checksum = struct.unpack_from("<2Q", content)
    seed = 0
    for (number,) in struct.iter_unpack("<Q", content[16 : 16 + (len(content) - 16) // 8 * 8]):
        seed ^= (number + 0x9E3779B9 + (seed << 6) + (seed >> 2)) & (2**64 - 1)
    assert (magic, checksum) == (0xF11A48D5013417F5, seed)
    path = tmp_path / "lex.bin"
    path.write_bytes(content)
    again = read_binary_shortlist(path, (order, order))
    for ids in ([4], [5, 6], [7, 8, 9]):
        assert again.of(ids).tolist() == ours.of(ids).tolist()
    path.write_bytes(
        binary_shortlist(shortlist([4], [], [], [], [3], [4], [5], [6], [7], [8], [9]), (order, order)) or b""
    )
    assert 2 in read_binary_shortlist(path, (order, order)).always, "the end may always be written"


def test_pieces_of_a_list_are_read_by_the_rules_of_yaml(tmp_path: Path) -> None:
    lines = ["'it''s': 0", r'"\0x": 1', "plain: 2", r'"\u015f\"": 3', "'': 4", "- a: 5"]
    path = tmp_path / "vocab.yml"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    assert _listed(path) == ("it's", "\0x", "plain", 'ş"', "", "- a")


def test_a_package_names_both_languages() -> None:
    metadata = package_metadata(Languages("en", "tr"))
    assert [metadata[name] for name in ("from_code", "from_name", "to_code", "to_name")] == [
        "en", "English", "tr", "Turkish",
    ]  # fmt: skip


def zip_of(path: Path, *entries: tuple[str, bytes, int]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, content, mode in entries:
            entry = zipfile.ZipInfo(name)
            entry.external_attr = mode << 16
            archive.writestr(entry, content)
    return path


@pytest.mark.parametrize(
    ("name", "mode", "message"),
    [
        ("../out", stat.S_IFREG, "names a file outside the package"),
        ("a/../../out", stat.S_IFREG, "names a file outside the package"),
        ("/out", stat.S_IFREG, "names a file outside the package"),
        ("a\\out", stat.S_IFREG, "names a file outside the package"),
        ("link", stat.S_IFLNK, "holds a link"),
    ],
)
def test_no_file_of_a_package_leads_elsewhere(name: str, mode: int, message: str, tmp_path: Path) -> None:
    path = zip_of(tmp_path / "a.zip", ("good", b"x", stat.S_IFREG), (name, b"x", mode | 0o644))
    with pytest.raises(DataError, match=message), unpacked(path, lambda files: {parts: parts for parts in files}):
        raise AssertionError("nothing is unpacked")


def test_a_package_that_unpacks_to_many_times_its_size_is_none(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    for size, is_refused in ((50 << 16, False), ((50 << 16) + 1, True)):
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("zeros", bytes(size))
        if not is_refused:
            with unpacked(path, lambda files: {one: one for one in files}) as folder:
                assert (folder / "zeros").stat().st_size == size
            continue
        with pytest.raises(DataError, match="not a package"), unpacked(path, lambda files: {}):
            raise AssertionError("nothing is unpacked")


def test_a_sentencepiece_file_reads_negative_numbers_as_they_are_written(tmp_path: Path) -> None:
    sentencepiece = pytest.importorskip("sentencepiece")
    settings = vocabulary(("▁a", -1.0), ("b", -2.0), ("▁", -3.0)) | {
        "normalizer": {"normalizers": [{"type": "Strip"}]},
        "pre_tokenizer": {"pretokenizers": [{"prepend_scheme": "always"}]},
    }
    path = tmp_path / "a.spm"
    path.write_bytes(sentencepiece_file(pieces_of(settings), settings))
    assert [piece.text for piece in read_sentencepiece(path).pieces] == ["</s>", "<unk>", "▁a", "b", "▁"]
    library = sentencepiece.SentencePieceProcessor(model_file=str(path))
    assert (library.unk_id(), library.bos_id(), library.eos_id(), library.pad_id()) == (1, -1, 0, -1)
    assert library.encode("  a  ab ", out_type=str) == ["▁a", "▁a", "b"]
