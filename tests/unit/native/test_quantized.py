"""Eight-bit weights: what they are rounded to, and that the native sums are those of the integers."""

from __future__ import annotations

import ctypes
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tests.unit.native.test_encoder import formula, some_encoder
from torch import Tensor

from dikkat.native import encoder, library
from dikkat.native.encoder import EncoderWeights, encode
from dikkat.native.layers import LinearWeights
from dikkat.native.quantized import pack

needs_kernels = pytest.mark.skipif(library.library() is None, reason=f"no native kernels: {library.why_absent()}")


def in_bytes(weights: EncoderWeights) -> EncoderWeights:
    return replace(weights, linears=tuple(replace(each, packed=pack(each.weight)) for each in weights.linears))


def rounded(weight: Tensor) -> Tensor:
    """Of (..., N): integers up to 127 times one scale a row, in float64."""
    scale = weight.double().abs().amax(dim=-1, keepdim=True) / 127
    return (weight.double() / scale.clamp_min(1e-300)).round() * scale


def byte_product(linear: LinearWeights, x: Tensor) -> Tensor:
    bias = 0.0 if linear.bias is None else linear.bias.double()
    return rounded(x) @ rounded(linear.weight).T + bias


@pytest.mark.parametrize("shape", [(64, 16), (70, 5), (1, 1), (129, 33)])
def test_what_is_packed_is_the_rounded_weight(shape: tuple[int, int]) -> None:
    weight = torch.randn(shape) * torch.rand(shape[0], 1)
    packed = pack(weight)
    # (panels, quads, 64, 4) -> (outputs, inputs), with zeros behind
    integers = packed.weight.transpose(1, 2).flatten(2).flatten(0, 1)
    outputs, inputs = shape
    torch.testing.assert_close((integers * packed.scale[:, None]).double()[:outputs, :inputs], rounded(weight))
    assert not integers[outputs:].any()
    assert not integers[:, inputs:].any()
    assert torch.equal(packed.shift, 128 * integers.sum(1, dtype=torch.int32))
    assert int(integers.abs().amax(1)[:outputs].min()) == 127


def test_a_row_of_zeros_stays_one_and_what_is_no_number_is_refused() -> None:
    assert not pack(torch.zeros(2, 8)).weight.any()
    with pytest.raises(ValueError, match="not finite"):
        pack(torch.tensor([[1.0, torch.nan]]))


@needs_kernels
@pytest.mark.parametrize("post_norm", [False, True])
@pytest.mark.parametrize("widths", ["round", "odd", "tiny"])
def test_native_sums_are_those_of_the_integers(widths: str, post_norm: bool) -> None:
    """Ten times as close to the formula on rounded numbers as that is to the one on whole numbers."""
    weights, lengths = some_encoder(widths, layers=1, post_norm=post_norm), [9, 1, 30]
    x = torch.randn(sum(lengths), weights.linears[0].weight.shape[1])
    found = encode(in_bytes(weights), x, lengths).double()
    exact, whole = formula(weights, x, lengths, product=byte_product), formula(weights, x, lengths)
    distance = (exact - whole).square().mean().sqrt()
    if widths != "tiny":
        # one entry a row is its own largest, and loses nothing
        assert float(distance) > 1e-3
    assert float((found - exact).square().mean().sqrt()) <= max(1e-5, 0.1 * float(distance))


@needs_kernels
def test_a_row_has_the_same_bits_in_any_company() -> None:
    weights, lengths = in_bytes(some_encoder("odd")), [*range(1, 60), 200]
    x = torch.randn(sum(lengths), weights.linears[0].weight.shape[1])
    together, alone = encode(weights, x, lengths), x.split(lengths)
    for sentence, states in zip(alone, together.split(lengths), strict=True):
        assert torch.equal(encode(weights, sentence, [len(sentence)]), states)


@needs_kernels
def test_what_is_no_number_stays_none() -> None:
    weights = in_bytes(some_encoder("round"))
    x = torch.randn(6, weights.linears[0].weight.shape[1])
    x[1, 3] = torch.nan
    states = encode(weights, x, [3, 3])
    assert states[:3].isnan().all()
    assert states[3:].isfinite().all()


@needs_kernels
def test_processors_without_byte_products_find_the_same_bits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = tmp_path / "plain.so"
    command = ["cc", *library.FLAGS, "-mno-avx512vnni", "-o", str(plain), *map(str, library.SOURCES), "-lm"]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("this compiler has no -mno-avx512vnni")
    weights, lengths = in_bytes(some_encoder("odd")), [3, 17, 1, 8, 2]
    x = torch.randn(sum(lengths), weights.linears[0].weight.shape[1])
    found = encode(weights, x, lengths)
    loaded = ctypes.CDLL(str(plain))
    monkeypatch.setattr(encoder, "library", lambda: loaded)
    assert torch.equal(encode(weights, x, lengths), found)
