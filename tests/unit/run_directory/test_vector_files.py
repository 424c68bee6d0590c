"""Files of vectors that come piece by piece are those that the safetensors library writes at once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import safetensors.torch
import torch
from torch import Tensor

from dikkat.run_directory.tensor_files import encode_tensors, read_tensors, write_vectors
from dikkat_runtime.errors import CannotCreateError, DiskError

VECTORS = {
    name: torch.randn(size, generator=torch.Generator().manual_seed(size))
    for name, size in {"second": 1001, "average": 4096, "momentum": 0, "first": 17}.items()
}
SIZES = {name: vector.numel() for name, vector in VECTORS.items()}


def test_pieces_make_the_file_that_the_library_makes_of_the_whole(tmp_path: Path) -> None:
    path = tmp_path / "optimizer.safetensors"
    # all in the same memory, as they come from other ranks
    memory = torch.empty(100)

    def pieces(vector: Tensor) -> Iterator[Tensor]:
        for piece in vector.split(100):
            yield memory[: len(piece)].copy_(piece)

    write_vectors(path, SIZES, {name: pieces(vector) for name, vector in VECTORS.items()}, {"step": "12"})
    assert path.read_bytes() == encode_tensors(VECTORS, {"step": "12"})
    read = safetensors.torch.load_file(path)
    assert all(torch.equal(read[name], vector) for name, vector in VECTORS.items())
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(Exception, match="does not match its checksum"):
        read_tensors(path)


def test_a_file_that_cannot_be_written_is_gone(tmp_path: Path) -> None:
    def full() -> Iterator[Tensor]:
        yield torch.zeros(5)
        raise OSError(28, "No space left on device")

    path = tmp_path / "optimizer.safetensors"
    with pytest.raises(DiskError, match="No space left on device"):
        write_vectors(path, {"first": 10}, {"first": full()}, {})
    assert not path.exists()
    with pytest.raises(CannotCreateError, match="does not exist"):
        write_vectors(tmp_path / "nowhere" / "a", {"first": 0}, {"first": []}, {})
