"""Rotary positions: pairs of a head are turned by an angle that grows with their position (Su et al. 2021)."""

import ctypes
from ctypes import c_int64, c_void_p
from typing import Any, NamedTuple

import torch
from jaxtyping import Complex, Float, Int
from torch import Tensor

from dikkat.kernels.calls import (
    address,
    check_status,
    dense_rows,
    index_address,
    is_float32,
    native_library,
    runs_native,
    strides,
)
from dikkat_runtime.native.library import Rotation as RotationStruct


class Rotation(NamedTuple):
    """Angles for heads at known positions; attention can apply them to queries and keys where it reads them."""

    table: Float[Tensor, "2 L half"]
    """Cosines and sines."""
    position_ids: Int[Tensor, "B T"] | None
    """Rows of the table; None takes the first T."""

    def __call__(self, x: Float[Tensor, "B H T K"]) -> Float[Tensor, "B H T K"]:
        """Turn pairs (2j, 2j+1) of `x` by their angles."""
        if not self.runs_native(x):
            return rotate_reference(x, self.table, self.position_ids)
        rotated: Tensor = _Rotate.apply(x, self.table, self.position_ids, False)
        return rotated

    def check(self, query: Tensor, key: Tensor) -> None:
        """Raise `ValueError` unless it knows the positions of query and key, which must have as many."""
        known = self.table.shape[1] if self.position_ids is None else self.position_ids.shape[1]
        if not query.shape[2] == key.shape[2] == known:
            raise ValueError(
                f"a rotation of {known} positions cannot turn {query.shape[2]} queries and {key.shape[2]} keys"
            )

    def runs_native(self, *heads: Float[Tensor, "B H T K"]) -> bool:
        """Tell whether there is a kernel for the table and all of these."""
        return self.table.dtype == torch.float32 and runs_native(*heads)


def apply_rotary(
    rotation: Rotation | None, query: Float[Tensor, "B H T K"], key: Float[Tensor, "B G S K"]
) -> tuple[Float[Tensor, "B H T K"], Float[Tensor, "B G S K"]]:
    """Turn query and key, of which there are as many positions; without a rotation they stay as they are."""
    return (query, key) if rotation is None else (rotation(query), rotation(key))


def rotate_reference(x: Tensor, table: Tensor, position_ids: Tensor | None) -> Tensor:
    """Turn pairs as complex numbers: each takes one product, and one pass over memory."""
    # (2, T, K/2), or (2, B, 1, T, K/2)
    cosine, sine = table if position_ids is None else table[:, position_ids].unsqueeze(2)
    dtype = torch.promote_types(x.dtype, torch.float32)
    rotated = _as_complex(x.to(dtype)) * torch.complex(cosine.to(dtype), sine.to(dtype))
    # (B, H, T, K/2) -> (B, H, T, K/2, 2) -> (B, H, T, K)
    return torch.view_as_real(rotated).flatten(-2).to(x.dtype)


def _as_complex(x: Float[Tensor, "B H T K"]) -> Complex[Tensor, "B H T half"]:
    pairs = x.unflatten(-1, (-1, 2))
    steps = (pairs.storage_offset(), *pairs.stride()[:-1])
    is_viewable = pairs.stride(-1) == 1 and all(step % 2 == 0 for step in steps)
    return torch.view_as_complex(pairs if is_viewable else pairs.contiguous())


class _Rotate(torch.autograd.Function):
    """The gradient of a rotation is the rotation back."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, table: Tensor, position_ids: Tensor | None, back: bool) -> Tensor:
        ctx.save_for_backward(table, position_ids)
        ctx.back = back
        return rotate(x, table, position_ids, back=back)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None]:
        table, position_ids = ctx.saved_tensors
        return _Rotate.apply(gradient, table, position_ids, not ctx.back), None, None, None


class _Rotating(ctypes.Structure):
    """`Rotating` of kernels.c."""

    _fields_ = (
        *((name, c_int64) for name in ("batch", "heads", "length", "width")),
        ("strides", c_int64 * 3),
        ("x", c_void_p),
        ("rotation", RotationStruct),
        *((name, c_int64) for name in ("back", "is_float32", "threads")),
    )


def rotate(x: Tensor, table: Tensor, position_ids: Tensor | None, *, back: bool) -> Tensor:
    """Call the kernel that turns pairs of `x` (B, H, T, K); the result is a view of (B, T, H, K).

    The float32 table is (2, L, K/2): cosines and sines. `position_ids` (B, T) are rows of it, by default the first T.
    Raises `IndexError` for a position outside of the table and `ValueError` for a table of another width.
    """
    x = dense_rows(x)
    rotation, _keepalive = rotation_struct(table, position_ids, x)
    output = x.new_empty(x.shape[0], x.shape[2], x.shape[1], x.shape[3])
    job = _Rotating(*x.shape, strides(x), address(x), rotation, back, is_float32(x), torch.get_num_threads())
    check_status(native_library().rotate(ctypes.byref(job), address(output)), "a position", rotation.positions)
    return output.transpose(1, 2)


def rotation_struct(
    table: Tensor | None, position_ids: Tensor | None, x: Tensor
) -> tuple[RotationStruct, Tensor | None]:
    """Return the structure for heads `x` (B, H, T, K), and the tensor that must live as long as it does."""
    if table is None:
        return RotationStruct(), None
    cosines, sines = table.unbind()
    if table.dtype != torch.float32 or 2 * table.shape[2] != x.shape[3] or not cosines.is_contiguous():
        raise ValueError(
            f"a table of {table.dtype} and the shape {tuple(table.shape)} cannot turn heads of width {x.shape[3]}"
        )
    if x.shape[2] and not table.shape[1]:
        # an empty tensor has no address, which would mean that nothing is turned
        raise IndexError("a table without positions turns nothing")
    position_ids = None if position_ids is None else position_ids.contiguous()
    rows = None if position_ids is None else index_address(position_ids, (x.shape[0], x.shape[2]), "positions")
    return RotationStruct(address(cosines), address(sines), table.shape[1], rows), position_ids
