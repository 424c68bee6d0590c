"""Soft attention with the scaled dot score: readable reference, native kernel, PyTorch's fused kernel, and the choice.

The native kernel does all of it in one call, a head at a time in cache. Weights that are too many to be kept are
computed again on the way back, as in FlashAttention (Dao et al. 2022, section 3.1).
"""

import ctypes
from ctypes import c_int64, c_void_p
from typing import Any, NamedTuple, cast

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from dikkat.kernels.batch_invariant import pad_to_min_length, softmax
from dikkat.kernels.calls import (
    LANES,
    address,
    adjacent,
    check_status,
    dense_rows,
    is_float32,
    is_head_contiguous,
    native_library,
    needs_backward,
    runs_native,
    strides,
)
from dikkat.kernels.dropout import drop_scale, drop_threshold, keep_mask
from dikkat.kernels.gpu.choice import runs_triton
from dikkat.kernels.query_blocks import fits, in_query_blocks
from dikkat.kernels.random_bits import VALUES, random_bits
from dikkat.kernels.rotary import Rotation, apply_rotary, rotation_struct
from dikkat_runtime.native.library import Attention

# Native calls of attention: structures of attention.h, the output with its weights, and the gradients.


class _Gradients(ctypes.Structure):
    """`Gradients` of attention.h."""

    _fields_ = (
        *((name, c_void_p) for name in ("query", "key", "value")),
        *((f"{name}_step", c_int64) for name in ("query", "key", "value")),
    )


class AttentionInputs(NamedTuple):
    """Hold what attention is computed from; with a `table` of rotary angles, queries and keys are first turned."""

    query: Tensor
    key: Tensor
    value: Tensor
    mask: Tensor | None
    beta: float
    random_bits: Tensor | None
    threshold: int
    table: Tensor | None = None
    position_ids: Tensor | None = None


def attention_forward(inputs: AttentionInputs, *, keep_weights: bool) -> tuple[Tensor, Tensor | None]:
    """Compute the output (B, H, T, E), a view of (B, T, H, E), and float32 weights (B, H, T, S) where they are kept.

    Weights are those before dropout. One is dropped where its 16-bit number is below `threshold - VALUES / 2`; the
    others are scaled to keep the mean. With a `table` of rotary angles, queries and keys, which must have one length,
    are first turned. Raises `IndexError` for a position outside of the table.
    """
    batch, heads, queries, _ = inputs.query.shape
    output = inputs.value.new_empty(batch, queries, heads, inputs.value.shape[-1])
    # each row begins at a multiple of `LANES` entries
    keys = inputs.key.shape[2]
    weights = torch.empty(batch, heads, queries, -(-keys // LANES) * LANES)[..., :keys] if keep_weights else None
    job, _keepalive = _job(inputs, weights)
    code = native_library().attention_forward(ctypes.byref(job), address(output))
    check_status(code, "a position", job.rotation.positions)
    return output.transpose(1, 2), weights


def attention_backward(
    gradient: Tensor, inputs: AttentionInputs, weights: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Compute the gradients of query, key and value, before rotation, from that of the output (B, H, T, E).

    Gradients of one length lie side by side, as their tensors do in the projection that was split into them. Weights
    that the forward pass did not keep are computed again, the same to the bit.
    """
    query, key, value, gradient = *inputs[:3], dense_rows(gradient)
    gradients = _gradient_memory(query, key, value)
    if not (query.shape[2] and key.shape[2]):
        # nothing flows where nothing is attended to
        return gradients[0].zero_(), gradients[1].zero_(), gradients[2].zero_()
    job, _keepalive = _job(inputs, weights)
    outputs = _Gradients(*(tensor.data_ptr() for tensor in gradients), *(tensor.stride(2) for tensor in gradients))
    steps = strides(gradient)
    code = native_library().attention_backward(ctypes.byref(job), address(gradient), steps, ctypes.byref(outputs))
    check_status(code, "a position", job.rotation.positions)
    return gradients[0], gradients[1], gradients[2]


def _job(inputs: AttentionInputs, weights: Tensor | None) -> tuple[Attention, tuple[Tensor | None, ...]]:
    """Return the structure, and the tensors that must live as long as it does."""
    query, key, value = map(dense_rows, inputs[:3])
    _, _, _, mask, beta, random_bits, threshold, table, position_ids = inputs
    if table is not None and query.shape[2] != key.shape[2]:
        raise ValueError(f"{query.shape[2]} queries and {key.shape[2]} keys cannot have the same positions")
    rotation, position_ids = rotation_struct(table, position_ids, query)
    mask = None if mask is None else mask.expand(*query.shape[:3], key.shape[2])
    tensors, sizes = (query, key, value), (*query.shape[:3], key.shape[2], query.shape[3], value.shape[3])
    job = Attention(
        *sizes,
        *map(address, tensors),
        *map(strides, tensors),
        mask=address(mask),
        mask_strides=(c_int64 * 4)(*(mask.stride() if mask is not None else (0, 0, 0, 0))),
        random_bits=address(random_bits),
        threshold=threshold - VALUES // 2,
        beta=beta,
        scale=drop_scale(threshold),
        rotation=rotation,
        weights_out=address(weights),
        is_float32=is_float32(query),
        threads=torch.get_num_threads(),
    )
    return job, (query, key, value, mask, position_ids)


def _gradient_memory(query: Tensor, key: Tensor, value: Tensor) -> list[Tensor]:
    is_one_sequence = query.shape[2] == key.shape[2]
    return adjacent(query, key, value) if is_one_sequence else [*adjacent(query), *adjacent(key, value)]


KEPT_WEIGHTS = 1 << 22
"""Weights of a whole batch, at most, that the native kernel keeps for the backward pass; more are computed again."""
SHORT = 128 * 128
"""Weights (T x S), at most, for which two products beat PyTorch's fused kernel on a CPU."""
MAX_LENGTH_ON_GPU = 128
"""Queries, and keys, of the longest sequences that the kernel of a GPU takes: a head's weights are one tile."""
WIDEST_ON_GPU = 64
"""Entries of the widest heads that it takes."""
TYPE_ON_GPU = torch.bfloat16
"""What it takes; tests put float32 here, since Triton's interpreter multiplies no bfloat16."""
FOR_ANY_LENGTH = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
"""PyTorch's own kernels. That of cuDNN plans anew, for 7 ms of the processor, whenever a batch has another length."""


def soft_attention(
    query: Float[Tensor, "B H T K"],
    key: Float[Tensor, "B H S K"],
    value: Float[Tensor, "B H S E"],
    mask: Bool[Tensor, "..."] | None,
    beta: float,
    *,
    bias: Float[Tensor, "..."] | None = None,
    dropout: float = 0.0,
    rotation: Rotation | None = None,
    with_weights: bool = False,
) -> tuple[Float[Tensor, "B H T E"], Float[Tensor, "B H T S"] | None]:
    """Compute `softmax(beta q k^T + bias) v`, with weights in at least float32; rows that may attend to nothing are 0.

    The native kernel takes float32 and bfloat16 on a CPU without a bias, that of a GPU short sequences in training with
    neither bias, rotation nor dropout, `matmul_attention` what `takes_matmul` names, and PyTorch's fused kernel the
    rest. `bias` is broadcastable to (B, H, T, S). A `rotation` first turns queries and keys, which then have one
    length.

    Returns the output and, `with_weights`, the float32 weights it was computed with, before dropout and outside the
    graph, which the backward pass needs as they are; None where the path never has them in float32.
    """
    if bias is None and rotation is None and dropout == 0.0 and _takes_gpu_kernel(query, key, value):
        return _GpuAttention.apply(query, key, value, mask, beta), None
    if bias is None and runs_native(query, key, value):
        if rotation is not None and not rotation.runs_native(query):
            (query, key), rotation = apply_rotary(rotation, query, key), None
        num_weights = query[..., 0].numel() * key.shape[2]
        keep = with_weights or (needs_backward(query, key, value) and num_weights <= KEPT_WEIGHTS)
        bits = random_bits(query.new_empty(*query.shape[:3], key.shape[2])) if dropout > 0.0 else None
        inputs = AttentionInputs(query, key, value, mask, beta, bits, drop_threshold(dropout), *(rotation or ()))
        return cast(tuple[Tensor, Tensor | None], _NativeAttention.apply(keep, *inputs))
    query, key = apply_rotary(rotation, query, key)
    if takes_matmul(query, key, dropout):
        return matmul_attention(query, key, value, mask, beta, bias=bias, dropout=dropout, with_weights=with_weights)
    return _fused_attention(query, key, value, mask, beta, bias, dropout), None


def _takes_gpu_kernel(query: Tensor, key: Tensor, value: Tensor) -> bool:
    """Tell whether the kernel of a GPU takes these: in training, and what `is_head_contiguous`."""
    lengths, width = (query.shape[2], key.shape[2]), query.shape[3]
    if max(lengths) > MAX_LENGTH_ON_GPU or 0 in lengths or width > WIDEST_ON_GPU or value.shape[3] != width:
        return False
    if query.dtype != TYPE_ON_GPU or not needs_backward(query, key, value):
        return False
    return runs_triton(query, key, value) and all(map(is_head_contiguous, (query, key, value)))


def takes_matmul(query: Tensor, key: Tensor, dropout: float) -> bool:
    """Tell whether two products are taken instead of PyTorch's fused kernel, where the native one is not.

    In full precision a CPU always takes them, since the two round otherwise: a sequence would change with the padding
    that carries it from one to the other. In half precision it takes them where that is faster, or dropout is asked.
    """
    if query.device.type != "cpu":
        return False
    if query.dtype in (torch.float32, torch.float64) or dropout > 0.0:
        return True
    return query.shape[-2] * key.shape[-2] <= SHORT


def matmul_attention(
    query: Float[Tensor, "B H T K"],
    key: Float[Tensor, "B H S K"],
    value: Float[Tensor, "B H S E"],
    mask: Bool[Tensor, "..."] | None,
    beta: float,
    *,
    bias: Float[Tensor, "..."] | None = None,
    dropout: float = 0.0,
    with_weights: bool = False,
) -> tuple[Float[Tensor, "B H T E"], Float[Tensor, "B H T S"] | None]:
    """Compute attention by two matrix products, the reference of the native kernel; see `soft_attention`.

    Long sequences are computed a block of queries at a time, short ones padded, so that rounding does not depend on the
    length. Weights are None where half precision has rounded the scores.
    """
    targets, sources = query.shape[2], key.shape[2]
    recomputes = needs_backward(query, key, value, bias) and not with_weights
    if dropout == 0.0 and fits(query, key):
        query, key, value, mask, bias = pad_to_min_length(query, key, value, mask, bias)
    weights: list[Tensor] = []

    def attend(rows: Tensor, allowed: Tensor | None, added: Tensor | None) -> Tensor:
        # (B, H, T, K) x (B, H, K, S) -> (B, H, T, S)
        used = attention_weights(rows @ key.transpose(-2, -1), allowed, beta, added)
        if with_weights and used.dtype == rows.dtype:
            weights.append(used.detach())
        used = used.to(value.dtype)
        return (used * keep_mask(used, dropout) if dropout > 0.0 else used) @ value

    if fits(query, key):
        output = attend(query, mask, bias)
    else:
        output = in_query_blocks(attend, query, key, mask, bias, recomputes=recomputes)
    kept = torch.cat(weights, dim=2)[:, :, :targets, :sources] if weights else None
    return output[:, :, :targets], kept


def attention_weights(scores: Tensor, mask: Tensor | None, beta: float, bias: Tensor | None) -> Tensor:
    """Turn scores (B, H, T, S), which are overwritten, into weights in at least float32; hidden entries are zero."""
    scores = (scores.float() if scores.dtype in (torch.bfloat16, torch.float16) else scores).mul_(beta)
    scores = scores if bias is None else scores + bias
    if mask is None:
        return softmax(scores)
    hidden = ~mask
    return softmax(scores.masked_fill_(hidden, torch.finfo(scores.dtype).min)).masked_fill(hidden, 0.0)


def _fused_attention(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, beta: float, bias: Tensor | None, dropout: float
) -> Tensor:
    added = mask
    if bias is not None:
        added = bias.to(query.dtype)
        if mask is not None:
            # half of the lowest number, since the kernel adds it to a score and must stay finite
            added = torch.where(mask, added, torch.finfo(added.dtype).min / 2)
    with sdpa_kernel(FOR_ANY_LENGTH):
        output = F.scaled_dot_product_attention(query, key, value, attn_mask=added, dropout_p=dropout, scale=beta)
    return output if mask is None else output.masked_fill(~mask.any(dim=-1, keepdim=True), 0.0)


class _GpuAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, beta: float) -> Tensor:
        from dikkat.kernels.gpu.attention import attention_forward

        allowed = torch.ones(1, dtype=torch.bool, device=query.device) if mask is None else mask
        allowed = allowed.expand(*query.shape[:3], key.shape[2])
        ctx.save_for_backward(query, key, value, allowed)
        ctx.beta = beta
        return attention_forward(query, key, value, allowed, beta)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        from dikkat.kernels.gpu.attention import attention_backward

        query, key, value, allowed = ctx.saved_tensors
        outputs = _gradient_memory(query, key, value)
        attention_backward(gradient, query, key, value, allowed, ctx.beta, outputs)
        return *outputs, None, None


class _NativeAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, keep: bool, *inputs: Any) -> tuple[Tensor, Tensor | None]:
        output, weights = attention_forward(AttentionInputs(*inputs), keep_weights=keep)
        query, key, value, mask, ctx.beta, bits, ctx.threshold, *angles = inputs
        ctx.save_for_backward(weights, query, key, value, mask, bits, *angles)
        if weights is not None:
            ctx.mark_non_differentiable(weights)
        ctx.set_materialize_grads(False)
        return output, weights

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor | None, _of_weights: None) -> tuple[Tensor | None, ...]:
        if gradient is None:
            return (None,) * 10
        weights, query, key, value, mask, bits, *angles = ctx.saved_tensors
        inputs = AttentionInputs(query, key, value, mask, ctx.beta, bits, ctx.threshold, *angles)
        return None, *attention_backward(gradient, inputs, weights), *(None,) * 6
