"""Cells captured from running models against what the modules themselves compute."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from tests.unit.models.small import real_tokens, small_model, some_tokens
from torch import Tensor, nn

from dikkat.explain.capture import Capture, capture_attention
from dikkat.explain.trace import ModelTrace
from dikkat.models.encoder_decoder import EncoderDecoder
from dikkat.nn.masks import causal_mask
from dikkat.nn.multi_head_attention import MultiHeadAttention
from dikkat.nn.recorder import MapName
from dikkat_runtime.errors import UsageError

NAMES = [
    MapName(stack, layer, kind)  # type: ignore[arg-type]
    for stack, kind in (("encoder", "self"), ("decoder", "self"), ("decoder", "cross"))
    for layer in (0, 1)
]
SOURCE, TARGET = 6, 4


def traces(capture: Capture, queries: int, keys: int) -> list[list[ModelTrace]]:
    """Of every head and query."""
    names = [[f"{side}{n}" for n in range(count)] for side, count in (("q", queries), ("k", keys))]
    return [
        [capture.trace(head, query, *names, positions_added=True) for query in range(queries)]
        for head in range(capture.seen.query.shape[1])
    ]


def lengths(name: MapName) -> tuple[int, int]:
    return (SOURCE if name.stack == "encoder" else TARGET), (
        TARGET if name.kind + name.stack == "selfdecoder" else SOURCE
    )


def captured(model: EncoderDecoder, name: MapName, real: int = SOURCE) -> Capture:
    source, target, mask = some_tokens(1, SOURCE), some_tokens(1, TARGET), real_tokens([real], SOURCE)
    return capture_attention(model, name, lambda: model(source, target, mask))


@pytest.mark.seed("D10")
@pytest.mark.parametrize("settings", [{}, {"norm_placement": "post"}, {"attention_bias": False}], ids=str)
@pytest.mark.parametrize("name", NAMES, ids=str)
def test_the_total_is_the_output_of_the_module(name: MapName, settings: dict[str, object]) -> None:
    capture = captured(small_model(**settings), name, real=4)
    for row in traces(capture, *lengths(name)):
        for result in row:
            assert result.difference <= 1e-6
            assert np.abs(result.module_output).max() > 1e-3
            assert result.trace.weights.sum() == pytest.approx(1.0, abs=1e-12)
            assert result.has_bias == settings.get("attention_bias", True)


FORMS: list[dict[str, object]] = [
    {"positions": "learned"},
    {"positions": "rotary"},
    {"positions": "alibi"},
    {"positions": "relative"},
    {"positions": "relative_buckets"},
    {"score": "dot"},
    {"score": "additive"},
    {"score": "bilinear"},
    {"selection": "argmax"},
    {"selection": "straight_through"},
    {"selection": "gumbel"},
    {"inverse_temperature": 2.0, "positions": "relative", "score": "bilinear"},
    {"attention_window": 1, "global_tokens": 1, "num_kv_heads": 2, "head_dim": 6, "positions": "rotary"},
]


@pytest.mark.seed("D10")
@pytest.mark.parametrize("settings", FORMS, ids=str)
@pytest.mark.parametrize("name", NAMES[1::2], ids=str)
def test_every_form_of_attention_that_a_config_can_name(name: MapName, settings: dict[str, object]) -> None:
    capture = captured(small_model(**settings), name, real=5)
    rows = traces(capture, *lengths(name))
    assert max(result.difference for row in rows for result in row) <= 1e-6
    weights = np.array([[result.trace.weights for result in row] for row in rows])
    module_weights = capture.module.weights(*capture.seen[:2], capture.seen.mask)
    assert_allclose(weights, module_weights[0].detach().numpy(), rtol=0, atol=1e-6)
    assert rows[0][0].trace.cell.hard == ("selection" in settings)
    has_bias = rows[0][0].trace.cell.bias is not None
    assert has_bias == (name.kind == "self" and settings.get("positions") in ("alibi", "relative", "relative_buckets"))
    turned = {"rotary": name.kind == "self" and settings.get("positions") == "rotary"}
    turned["bilinear"] = settings.get("score") == "bilinear"
    assert rows[0][0].turns == tuple(turn for turn, is_so in turned.items() if is_so)


def test_a_score_that_is_a_function_has_no_known_terms() -> None:
    module = MultiHeadAttention(8, 2, score=lambda q, k: q @ k.transpose(-2, -1))
    capture = capture_attention(module, MapName("", 0, "self"), lambda: module(torch.randn(1, 3, 8)))
    with pytest.raises(UsageError, match="has a score function of its own, whose terms are not known"):
        capture.trace(0, 0, "abc", "abc", positions_added=True)


@pytest.mark.seed("D7")
def test_query_and_keys_come_from_the_trained_matrices() -> None:
    """q1·k_j of the first encoder layer for each j, from the embeddings and the weights themselves, in float64."""
    model = small_model(norm_placement="post").double()
    source = some_tokens(1, SOURCE)
    run = lambda: model.encode(source, real_tokens([SOURCE], SOURCE))  # noqa: E731
    capture = capture_attention(model, MapName("encoder", 0, "self"), run)
    embedded = model.positions(model.source_embedding(source))[0].detach().numpy()
    module = model.encoder.blocks[0].self_attention
    assert isinstance(module, MultiHeadAttention)
    weight, bias = (part.detach().numpy() for part in (module.in_projection.weight, module.in_projection.bias))
    width = module.head_dim
    for head in range(4):
        q, k, v = (
            embedded @ weight[start : start + width].T + bias[start : start + width]
            for start in (16 * part + width * head for part in range(3))
        )
        result = capture.trace(head, 0, "abcdef", "abcdef", positions_added=True)
        assert_allclose(result.query_input, embedded[0], rtol=0, atol=1e-12)
        assert_allclose(result.trace.cell.query, q[0], rtol=0, atol=1e-12)
        assert_allclose(result.trace.cell.values, v, rtol=0, atol=1e-12)
        assert_allclose(result.trace.scores, [q[0] @ k[j] for j in range(SOURCE)], rtol=0, atol=1e-12)
        assert_allclose(result.trace.scaled, result.trace.scores / math.sqrt(width), rtol=1e-12)


@pytest.mark.seed("D9", "D11")
def test_all_cells_together_are_the_matrix_form() -> None:
    """softmax(QK'/sqrt(K)) V by PyTorch, against one cell after the other."""
    capture = captured(small_model(), MapName("decoder", 1, "self"))
    seen = capture.seen
    assert seen.mask is not None
    whole = nn.functional.scaled_dot_product_attention(seen.query, seen.key, seen.value, attn_mask=seen.mask)
    loop = np.array([[result.trace.total for result in row] for row in traces(capture, TARGET, TARGET)])
    assert_allclose(loop, whole[0].numpy(), rtol=0, atol=1e-6)
    result = traces(capture, TARGET, TARGET)[0][1].trace
    assert result.allowed.tolist() == [True, True, False, False]
    assert_allclose(result.weighted, result.weights[:, None] * seen.value[0, 0].double().numpy(), rtol=1e-12)


@pytest.mark.seed("D12")
def test_eight_heads_side_by_side_times_the_output_matrix() -> None:
    module, x = MultiHeadAttention(512, 8, bias=False), torch.randn(1, 5, 512)
    assert sum(parameter.numel() for parameter in module.parameters()) == 1_048_576
    outputs: list[Tensor] = []
    capture = capture_attention(module, MapName("", 0, "self"), lambda: outputs.append(module(x)))
    z = np.array([[result.trace.total for result in row] for row in traces(capture, 5, 5)])
    assert z.shape == (8, 5, 64)
    joined = np.concatenate(list(z), axis=1) @ module.out_projection.weight.detach().double().numpy().T
    assert_allclose(joined, outputs[0][0].numpy(), rtol=0, atol=1e-6)


def test_heads_that_share_keys_and_have_a_free_width() -> None:
    module, x = MultiHeadAttention(8, 4, head_dim=6, num_kv_heads=2), torch.randn(1, 3, 8)
    capture = capture_attention(module, MapName("", 0, "self"), lambda: module(query=x, mask=causal_mask(3)))
    rows = traces(capture, 3, 3)
    assert max(result.difference for row in rows for result in row) <= 1e-6
    assert_allclose(rows[0][0].trace.cell.keys, rows[1][0].trace.cell.keys)
    assert not np.allclose(rows[1][0].trace.cell.keys, rows[2][0].trace.cell.keys)


def test_a_query_whose_keys_are_all_masked_gives_zero() -> None:
    module, x = MultiHeadAttention(8, 2), torch.randn(1, 3, 8)
    mask = torch.tensor([True, False, True])[None, None, :, None].expand(1, 1, 3, 3)
    capture = capture_attention(module, MapName("", 0, "self"), lambda: module(x, mask=mask))
    result = traces(capture, 3, 3)[0][1]
    assert not result.trace.total.any()
    assert result.difference == 0.0


def test_nothing_listens_afterwards_even_after_an_error() -> None:
    model = small_model()
    with pytest.raises(ZeroDivisionError):
        capture_attention(model, NAMES[0], lambda: 1 // 0)
    module = model.encoder.blocks[0].self_attention
    assert isinstance(module, MultiHeadAttention)
    hooks = [*module._observers, *module._forward_pre_hooks, *module.out_projection._forward_pre_hooks]
    assert hooks == []


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (MapName("encoder", 2, "self"), "there is no layer 3 in the encoder: choose from 1 to 2"),
        (MapName("decoder", -1, "cross"), "there is no layer 0 in the decoder: choose from 1 to 2"),
        (MapName("encoder", 0, "cross"), "there is no cross-attention in the encoder; only a decoder attends"),
        (MapName("middle", 0, "self"), 'there is no stack "middle"; choose from decoder, encoder'),
    ],
)
def test_an_attention_that_is_not_there(name: MapName, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        capture_attention(small_model(), name, lambda: None)


@pytest.mark.parametrize("head", [-1, 4])
def test_a_head_that_is_not_there(head: int) -> None:
    capture = captured(small_model(), NAMES[0])
    with pytest.raises(UsageError, match=f"there is no head {head + 1}: choose from 1 to 4"):
        capture.trace(head, 0, "abcdef", "abcdef", positions_added=True)
