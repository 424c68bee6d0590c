"""Eight-bit weights: what they are rounded to, and that the native sums are those of the integers."""

from __future__ import annotations

import ctypes
import os
import shlex
import subprocess
from pathlib import Path

import pytest
import torch
from torch import Tensor

from dikkat import kernels
from dikkat.kernels import int8_products, library
from dikkat.kernels.calls import ARGUMENTS
from dikkat.kernels.int8_products import gradients, pack, packed_product, product
from dikkat_runtime.native.cpu import processor_flags
from dikkat_runtime.native.first_use import openmp_flags
from dikkat_runtime.native.library_cache import SOURCES, flags_of

needs_kernels = pytest.mark.skipif(library.library() is None, reason=f"no native kernels: {library.why_absent()}")


def rounded(weight: Tensor) -> Tensor:
    """Of (..., N): integers up to 127 times one scale a row, in float64."""
    scale = weight.double().abs().amax(dim=-1, keepdim=True) / 127
    return (weight.double() / scale.clamp_min(1e-300)).round() * scale


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


def random_numbers(shape: tuple[int, int], dtype: torch.dtype, seed: int) -> Tensor:
    """Rows and columns of very different sizes, and one of zeros of each."""
    generator = torch.Generator().manual_seed(seed)
    rows, columns = shape
    result = torch.randn(shape, generator=generator) * torch.rand(rows, 1, generator=generator)
    result *= torch.rand(1, columns, generator=generator)
    result[rows // 2 : rows // 2 + 1], result[:, columns // 2] = 0.0, 0.0
    return result.to(dtype)


SIZES = ((7, 5, 3), (1, 1, 1), (97, 16, 64), (300, 256, 70), (523, 33, 129))
"""Rows, inputs, outputs."""


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize(("rows", "inputs", "outputs"), [*SIZES, (70, 530, 70)])
@pytest.mark.parametrize("columns", [False, True])
def test_products_are_those_of_the_rounded_factors(
    rows: int, inputs: int, outputs: int, columns: bool, dtype: torch.dtype
) -> None:
    """Against float64 on integers times scales, natively where that is here; the error is that of the last rounding."""
    x, weight = random_numbers((rows, inputs), dtype, 1), random_numbers((outputs, inputs), dtype, 2)
    bias = torch.randn(outputs).to(dtype)
    arguments = weight.T.contiguous() if columns else weight
    exact = rounded(x) @ rounded(weight).T
    for result, wanted in (
        (product(x, arguments, bias, columns=columns), exact + bias.double()),
        (product(x, arguments, columns=columns), exact),
        (packed_product(x, pack(arguments, columns=columns), x.new_empty(rows, outputs)), exact),
    ):
        assert result.dtype == dtype
        bound = 2 * torch.finfo(dtype).eps * float(wanted.abs().max()) + 1e-6
        assert float((result.double() - wanted).abs().max()) <= bound


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize(("rows", "inputs", "outputs"), SIZES)
def test_a_gate_is_a_pass_of_its_own_to_the_bit(rows: int, inputs: int, outputs: int, dtype: torch.dtype) -> None:
    x, weight = random_numbers((rows, inputs), dtype, 1), random_numbers((inputs, outputs), dtype, 2)
    relu_output = random_numbers((rows, outputs), dtype, 3)
    relu_output[:, ::3] = 0.0
    relu_output[-1, -1] = torch.nan
    relu_output[0, 0] = -torch.inf
    open_ = product(x, weight, columns=True)
    separate = torch.ops.aten.threshold_backward(open_, relu_output, 0.0)
    assert torch.equal(product(x, weight, columns=True, relu_output=relu_output), separate)
    assert torch.equal(product(x, weight, columns=True, relu_output=relu_output.T.contiguous().T), separate)
    assert not separate[:, ::3].masked_fill(relu_output[:, ::3].isnan(), 0.0).any()
    assert separate[-1, -1] == open_[-1, -1]


def weight_gradient(gradient: Tensor, x: Tensor, *, with_bias: bool) -> tuple[Tensor, Tensor | None]:
    of_x, of_weight, of_bias = gradients(gradient, x, None, with_bias=with_bias)
    assert of_x is None
    return of_weight, of_bias


@needs_kernels
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize(("rows", "inputs", "outputs"), [*SIZES, (4100, 300, 260), (0, 3, 2)])
@pytest.mark.parametrize("gated", [False, True])
def test_what_flows_back_together_has_the_bits_of_what_flows_alone(
    rows: int, inputs: int, outputs: int, gated: bool, dtype: torch.dtype
) -> None:
    gradient, x = random_numbers((rows, outputs), dtype, 1), random_numbers((rows, inputs), dtype, 2)
    weight = random_numbers((outputs, inputs), dtype, 3)
    relu_output = random_numbers((rows, inputs), dtype, 4) if gated else None
    of_x, of_weight, of_bias = gradients(gradient, x, weight, with_bias=True, relu_output=relu_output)
    assert of_x is not None
    assert torch.equal(of_x, product(gradient, weight, columns=True, relu_output=relu_output))
    alone, sums = weight_gradient(gradient, x, with_bias=True)
    assert torch.equal(of_weight, alone)
    assert of_bias is not None
    assert sums is not None
    assert torch.equal(of_bias, sums)
    arguments = torch.empty_like(of_weight), torch.empty_like(of_bias)
    again, *filled = gradients(
        gradient.T.contiguous().T, x, weight.T.contiguous().T, *arguments, with_bias=True, relu_output=relu_output
    )
    assert again is not None
    assert torch.equal(again, of_x)
    for index, result, wanted in zip(arguments, filled, (of_weight, of_bias), strict=True):
        assert result is index
        assert torch.equal(index, wanted)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize(("rows", "inputs", "outputs"), SIZES)
def test_the_gradient_of_a_weight_rounds_the_columns_of_each_block(
    rows: int, inputs: int, outputs: int, dtype: torch.dtype
) -> None:
    gradient, x = random_numbers((rows, outputs), dtype, 1), random_numbers((rows, inputs), dtype, 2)
    wanted = torch.zeros(outputs, inputs, dtype=torch.float64)
    # an even number of blocks of at most 256 rows, as equal as fours allow
    size = {300: 152, 523: 132}.get(rows, rows)
    for a, b in zip(gradient.split(size), x.split(size), strict=True):
        wanted += rounded(a.T) @ rounded(b.T).T
    result, of_bias = weight_gradient(gradient, x, with_bias=True)
    assert of_bias is not None
    assert result.dtype == of_bias.dtype == dtype
    close = 2 * torch.finfo(dtype).eps
    assert float((result.double() - wanted).abs().max()) <= close * float(wanted.abs().max()) + 1e-6
    summed = gradient.double().sum(0)
    bound = close * float(summed.abs().max()) + 1e-6 * float(gradient.double().abs().sum(0).max())
    assert float((of_bias.double() - summed).abs().max()) <= bound
    assert weight_gradient(gradient, x, with_bias=False)[1] is None


@needs_kernels
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize(("rows", "inputs", "outputs"), SIZES)
def test_native_code_and_pytorch_find_the_same(rows: int, inputs: int, outputs: int, dtype: torch.dtype) -> None:
    x, weight = random_numbers((rows, inputs), dtype, 1), random_numbers((outputs, inputs), dtype, 2)
    gradient, bias = random_numbers((rows, outputs), dtype, 3), torch.randn(outputs).to(dtype)

    def all_found() -> list[Tensor]:
        packed = [pack(weight), pack(weight, columns=True)]
        integers = [item for one in packed for item in (one.weight, one.scale, one.shift)]
        of_weight, of_bias = weight_gradient(gradient, x, with_bias=True)
        assert of_bias is not None
        products = product(x, weight, bias), product(gradient, weight, columns=True, relu_output=x)
        return [*integers, *products, of_weight, of_bias]

    native = all_found()
    with kernels.use("torch"):
        reference = all_found()
    for index, (ours, theirs) in enumerate(zip(native, reference, strict=True)):
        if index < 6:
            assert torch.equal(ours, theirs)
        else:
            bound = 2 * torch.finfo(dtype).eps * float(theirs.abs().max())
            if index == 9:  # the order of its sums is another
                bound += 1e-6 * float(gradient.float().abs().sum(0).max())
            assert float((ours.double() - theirs.double()).abs().max()) <= bound


@needs_kernels
def test_neither_threads_nor_neighbours_nor_strides_change_a_bit() -> None:
    x, weight = random_numbers((700, 48), torch.bfloat16, 1), random_numbers((130, 48), torch.bfloat16, 2)
    gradient = random_numbers((700, 130), torch.bfloat16, 3)
    together, threads = product(x, weight), torch.get_num_threads()

    def flows(gradient: Tensor, x: Tensor) -> Tensor:
        of_weight, of_bias = weight_gradient(gradient, x, with_bias=True)
        assert of_bias is not None
        return torch.cat((of_weight, of_bias[:, None]), dim=1)

    result = flows(gradient, x)
    try:
        for number in (1, 3):
            torch.set_num_threads(number)
            assert torch.equal(product(x, weight), together)
            assert torch.equal(flows(gradient, x), result)
    finally:
        torch.set_num_threads(threads)
    for row in (0, 5, 333, 699):
        assert torch.equal(product(x[row : row + 1], weight), together[row : row + 1])
    wide = torch.cat((x, x), dim=1)
    assert torch.equal(product(wide[:, 48:], weight), together)
    assert torch.equal(product(x.T.contiguous().T, weight.T.contiguous().T), together)
    assert torch.equal(flows(gradient.T.contiguous().T, wide[:, 48:]), result)


@needs_kernels
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("outputs", [576, 520, 545])
def test_large_outputs_have_the_bits_of_small_ones(outputs: int, dtype: torch.dtype) -> None:
    """From a million numbers on they go past the cache, if a row is made of whole lines or not."""
    x, weight = random_numbers((2100, 48), dtype, 1), random_numbers((outputs, 48), dtype, 2)
    relu_output = random_numbers((2100, outputs), dtype, 3)
    result, gated = product(x, weight), product(x, weight, relu_output=relu_output)
    for part in torch.arange(2100).split(500):
        assert torch.equal(result[part], product(x[part], weight))
        assert torch.equal(gated[part], product(x[part], weight, relu_output=relu_output[part]))
    wide = random_numbers((300, 2050), dtype, 4)
    of_weight, of_bias = weight_gradient(wide, relu_output[:300], with_bias=True)
    assert of_bias is not None
    for part in torch.arange(2050).split(450):
        of_part, sums = weight_gradient(wide[:, part], relu_output[:300], with_bias=True)
        assert torch.equal(of_weight[part], of_part)
        assert sums is not None
        assert torch.equal(of_bias[part], sums)
    assert product(x, weight[:0]).shape == (2100, 0)


@pytest.mark.parametrize("poison", [torch.nan, torch.inf])
def test_what_is_no_number_stays_none_and_zeros_stay_zeros(poison: float) -> None:
    x, weight = torch.ones(3, 8), torch.ones(5, 8)
    x[1, 2] = poison
    result = product(x, weight)
    assert result[1].isnan().all()
    torch.testing.assert_close(result[[0, 2]], torch.full((2, 5), 8.0))
    of_weight, of_bias = weight_gradient(x, torch.ones(3, 2), with_bias=True)
    assert of_weight[2].isnan().all()
    assert of_bias is not None
    assert (~of_bias.isfinite()).nonzero().tolist() == [[2]]
    weight[3, 0] = poison
    assert pack(weight).scale.isnan().nonzero().tolist() == [[3]]
    assert pack(weight, columns=True).scale.isnan().nonzero().tolist() == [[0]]
    assert not pack(torch.zeros(2, 8)).weight.any()
    assert not product(torch.zeros(2, 8), torch.ones(5, 8)).any()
    for nothing in weight_gradient(torch.zeros(0, 3), torch.zeros(0, 2), with_bias=True):
        assert nothing is not None
        assert not nothing.any()
    assert product(torch.zeros(0, 8), torch.ones(5, 8)).shape == (0, 5)


@needs_kernels
@pytest.mark.parametrize(
    ("without", "instructions"),
    [
        (("-mno-avx512vnni", "-mno-avxvnni"), {"avx512_vnni", "avx_vnni"}),
        (("-mno-amx-int8",), {"amx_int8"}),
        (("-mno-avx2",), {"avx2"}),
    ],
    ids=["byte products", "tiles", "long vectors"],
)
def test_processors_that_lack_instructions_find_the_same_bits(
    without: tuple[str, ...], instructions: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not instructions & processor_flags():
        pytest.skip(
            f"NOT TESTED: this processor has none of {', '.join(sorted(instructions))}, so nothing would differ"
        )
    compiler, plain = shlex.split(os.environ.get("CC", "cc")), tmp_path / "plain.so"
    # the products of bytes alone: all kernels would take the compiler four times as long
    sources = [str(source) for source in SOURCES if source.name.startswith("byte_") or source.name == "threads.c"]
    flags = [*flags_of("native"), *openmp_flags(compiler, 60), *without]
    done = subprocess.run([*compiler, *flags, *sources, "-o", str(plain)], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"{shlex.join(compiler)}: {done.stderr[:200]}")
    loaded = ctypes.CDLL(str(plain))
    for name in ("byte_gradients", "byte_linear"):
        getattr(loaded, name).argtypes = ARGUMENTS[name]
    factors = [
        (random_numbers((rows, inputs), torch.bfloat16, 1), random_numbers((outputs, inputs), torch.bfloat16, 2))
        for rows, inputs, outputs in [(1, 64, 64), (5, 80, 70), (19, 300, 200), (36, 30, 130), (290, 256, 64)]
    ]
    result = [product(rows, weight) for rows, weight in factors]
    sums = [weight_gradient(output, rows, with_bias=True) for output, (rows, _) in zip(result, factors, strict=True)]
    monkeypatch.setattr(int8_products, "native_library", lambda *_: loaded)
    for (rows, weight), output, (of_weight, of_bias) in zip(factors, result, sums, strict=True):
        assert torch.equal(product(rows, weight), output)
        again, total = weight_gradient(output, rows, with_bias=True)
        assert torch.equal(again, of_weight)
        assert total is not None
        assert of_bias is not None
        assert torch.equal(total, of_bias)
