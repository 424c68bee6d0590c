"""Safetensors files that notice their own damage."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import safetensors.torch
import torch

from dikkat.run_directory.tensor_files import decode_tensors, encode_tensors, read_tensors
from dikkat_runtime.errors import DataError, MissingInputError
from dikkat_runtime.run.weights import read_arrays

HERE = Path("some/model.safetensors")


def example() -> dict[str, torch.Tensor]:
    torch.manual_seed(0)
    packed = torch.randn(4, 3)
    return {
        "matrix": torch.randn(2, 3),
        "transposed": torch.randn(3, 2).t(),
        "query": packed[:2],
        "key": packed[1:],
        "scalar": torch.tensor(7, dtype=torch.int64),
        "empty": torch.empty(0, 5),
        "half": torch.randn(3).bfloat16(),
        "flags": torch.tensor([True, False]),
        "state": torch.arange(5, dtype=torch.uint8),
        "learned": torch.nn.Parameter(torch.randn(2)),
    }


def test_round_trip_is_bit_exact() -> None:
    tensors = example()
    loaded = decode_tensors(encode_tensors(tensors, {"step": "3"}), HERE)
    assert loaded.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert loaded[name].dtype == tensor.dtype
        assert torch.equal(loaded[name], tensor), name


def test_equal_tensors_give_equal_bytes() -> None:
    notes = {str(number): "x" for number in range(20)}
    assert encode_tensors(example(), notes) == encode_tensors(dict(reversed(example().items())), notes)


def test_tied_weights_are_stored_once_and_come_back_under_every_name() -> None:
    shared = torch.randn(100, 10)
    content = encode_tensors({"source.embedding": shared, "target.embedding": shared, "output": shared}, {})
    assert len(content) < 2 * shared.numel() * 4
    loaded = decode_tensors(content, HERE)
    assert loaded.keys() == {"source.embedding", "target.embedding", "output"}
    assert all(torch.equal(tensor, shared) for tensor in loaded.values())


def test_other_programs_can_read_the_file() -> None:
    loaded = safetensors.torch.load(encode_tensors({"a": torch.ones(2)}, {}))
    assert torch.equal(loaded["a"], torch.ones(2))


def test_every_single_flipped_bit_is_noticed() -> None:
    content = encode_tensors({"a": torch.arange(3.0), "b": torch.arange(2)}, {"step": "7"})
    for position in range(len(content)):
        for bit in range(8):
            damaged = bytearray(content)
            damaged[position] ^= 1 << bit
            with pytest.raises(DataError, match=r"some/model\.safetensors: damaged"):
                decode_tensors(bytes(damaged), HERE)


def test_every_truncation_is_noticed() -> None:
    content = encode_tensors({"a": torch.arange(3.0)}, {})
    for length in range(len(content)):
        with pytest.raises(DataError, match="damaged"):
            decode_tensors(content[:length], HERE)


def test_weights_of_another_program_are_refused() -> None:
    with pytest.raises(DataError, match="not weights written by dikkat"):
        decode_tensors(safetensors.torch.save({"a": torch.ones(2)}), HERE)


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(MissingInputError, match=r"none\.safetensors: cannot be read: No such file"):
        read_tensors(tmp_path / "none.safetensors")


def test_a_file_of_another_length_is_not_read(tmp_path: Path) -> None:
    """A disk may make a file of any length, and half a terabyte fits into no memory."""
    path = tmp_path / "model.safetensors"
    path.write_bytes(encode_tensors({"matrix": torch.ones(2, 3)}, {}))
    assert read_arrays(path, "F32")["matrix"].shape == (2, 3)
    size = path.stat().st_size
    for changed, said in ((1 << 39, "it has 549,755,813,888 bytes"), (size + 1, f"it has {size + 1} bytes")):
        os.truncate(path, changed)
        with pytest.raises(DataError, match=f"damaged.* \\({said}, but its header tells of {size}\\)"):
            read_arrays(path, "F32")
        with pytest.raises(DataError, match=r"damaged.* \(its tensors are not as long as the file\)"):
            read_tensors(path)
