"""Rows of seed 002, self-attention and positional encoding, that no other test covers (C2 belongs to `compare`)."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest
import torch
from examples.position_probe import (
    LAYERS,
    LENGTH,
    deep_encoder,
    position_accuracies,
    position_accuracy,
    random_words,
)
from tests.unit.models.small import VOCABULARY, config, small_model
from torch import Tensor, nn

from dikkat.config import build_config
from dikkat.models.factory import build_model
from dikkat.nn import (
    Dropout,
    LearnedPositions,
    MultiHeadAttention,
    PositionedDecoderBlock,
    PositionedEncoderBlock,
    SinusoidalPositions,
    causal_mask,
    key_mask,
    record_attention,
    valid_length_mask,
)
from dikkat.nn.cache import SelfAttentionCache
from dikkat.nn.positions import sinusoids

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.seed("C1")
def test_recorded_weights_beyond_the_valid_length_are_exactly_zero() -> None:
    module = MultiHeadAttention(100, 5, dropout=0.5).eval()
    with record_attention(module) as maps:
        output = module(torch.ones(2, 4, 100), mask=valid_length_mask(torch.tensor([3, 2]), 4))
    assert output.shape == (2, 4, 100)
    ((weights,),) = maps.values()
    assert weights.shape == (2, 5, 4, 4)
    for row, length in enumerate((3, 2)):
        assert (weights[row, :, :, length:] == 0).all()
        torch.testing.assert_close(weights[row, :, :, :length], torch.full((5, 4, length), 1 / length))
    torch.testing.assert_close(output, output[:, :1].expand(2, 4, 100), rtol=0, atol=1e-6)


@pytest.mark.seed("C4")
@pytest.mark.parametrize(("width", "length"), [(32, 60), (7, 60), (32, 1001), (33, 3000)])
def test_positions_keep_the_shape_at_any_width_and_length(width: int, length: int) -> None:
    """The faulty table ends at 1,000 rows and fills only even widths (F27)."""
    x = torch.randn(2, length, width)
    added = SinusoidalPositions(width)(x)
    assert added.shape == x.shape
    torch.testing.assert_close(added - x, sinusoids(length, width).expand(2, -1, -1), rtol=0, atol=1e-6)


@pytest.mark.seed("C4")
def test_dropout_falls_on_the_sum_in_training_only() -> None:
    """As every model of ours has it: embeddings, positions, dropout."""
    encode = nn.Sequential(SinusoidalPositions(32), Dropout(0.5))
    x = torch.randn(2, 60, 32)
    total = x + sinusoids(60, 32)
    torch.testing.assert_close(encode.eval()(x), total, rtol=0, atol=1e-6)
    dropped = encode.train()(x)
    assert 0.45 < (dropped == 0).float().mean() < 0.55
    torch.testing.assert_close(dropped[dropped != 0], 2 * total[dropped != 0], rtol=0, atol=1e-5)
    model = build_model(config(dropout=0.5), seed=1)
    hidden: list[Tensor] = []
    model.encoder.blocks[0].register_forward_pre_hook(lambda _, inputs: hidden.append(inputs[0]))
    source = torch.randint(3, VOCABULARY, (4, 9))
    for training in (True, False):
        model.train(training).encode(source, torch.ones(4, 9, dtype=torch.bool))
    expected = model.positions(model.source_embedding(source))
    torch.testing.assert_close(hidden[1], expected)
    assert 0.4 < (hidden[0] == 0).float().mean() < 0.6


@pytest.mark.seed("C8")
def test_a_shift_is_a_rotation_in_float64() -> None:
    """P(i + d) = R(d w_j) P(i) for every i below 1,000, and P(i) . P(i + d) depends on d alone."""
    width = 32
    table = sinusoids(1050, width, dtype=torch.float64)
    angles = torch.pow(10000.0, -torch.arange(0, width, 2, dtype=torch.float64) / width)
    for shift in (1, 5, 50):
        cosine, sine = torch.cos(shift * angles), torch.sin(shift * angles)
        # (D/2, 2, 2): of each pair of columns, the same for every position
        rotation = torch.stack((torch.stack((cosine, sine), -1), torch.stack((-sine, cosine), -1)), -2)
        pairs = table[:1000].view(1000, width // 2, 2)
        turned = torch.einsum("jab,ijb->ija", rotation, pairs).flatten(1)
        assert (turned - table[shift : 1000 + shift]).abs().max() <= 1e-9
        products = (table[:1000] * table[shift : 1000 + shift]).sum(-1)
        assert (products - cosine.sum()).abs().max() <= 1e-9
    assert torch.equal(sinusoids(1050, width), table.float())


# C9: what becomes of the positions in a deep stack --------------------------------------------------------------------


def accuracies(again: bool, positions: nn.Module) -> list[float]:
    """By layer, on random words whose vectors say nothing of their position."""
    torch.manual_seed(3)
    encoder = deep_encoder(again)
    x = positions(random_words())
    return position_accuracies([*encoder.blocks], lambda: encoder(x))


@pytest.mark.seed("C9")
def test_positions_fade_with_depth_unless_every_layer_adds_them_again() -> None:
    """The ablation of the exercise: no positions, positions once, positions in every layer."""
    sinusoidal = SinusoidalPositions(32)
    none, once, again = (
        accuracies(False, nn.Identity()),
        accuracies(False, sinusoidal),
        accuracies(True, sinusoidal),
    )
    assert [len(result) for result in (none, once, again)] == [LAYERS + 1] * 3
    assert max(none) < 2.5 / LENGTH, "chance"
    assert once[0] > 0.5
    assert once[-1] < once[0] - 0.03
    assert again[-1] > 0.9
    assert again[0] == once[0]


@pytest.mark.seed("C9")
def test_the_probe_reads_what_is_there_and_nothing_else() -> None:
    marked = torch.eye(5).expand(40, 5, 5)
    assert position_accuracy(marked) == 1.0
    assert position_accuracy(torch.randn(400, 5, 3)) < 0.3
    with pytest.raises(ValueError, match="a probe of width 30 needs more than 30 tokens to be fitted, but has 10"):
        position_accuracy(torch.randn(4, 5, 30))


@pytest.mark.seed("C9")
def test_a_decoder_block_adds_the_positions_of_its_step() -> None:
    block = PositionedDecoderBlock(SinusoidalPositions(8), 8, 2, 16).eval()
    x, memory, real = torch.randn(2, 5, 8), torch.randn(2, 3, 8), torch.ones(2, 3, dtype=torch.bool)
    whole = block(x, memory, causal_mask(5), key_mask(real))
    cache, source = SelfAttentionCache(), block.cross_attention.project_memory(memory)
    with torch.no_grad():
        steps = [block.step(x[:, t : t + 1], cache, source, key_mask(real)) for t in range(5)]
    torch.testing.assert_close(torch.cat(steps, 1), whole, rtol=0, atol=1e-5)
    own = LearnedPositions(8, 16)
    positioned = PositionedEncoderBlock(own, 8, 2, 16)
    positioned(x).square().sum().backward()
    assert own.embedding.grad is not None
    assert own.embedding.grad[:5].abs().sum(-1).all()


@pytest.mark.seed("C10")
@pytest.mark.parametrize("name", ["learned", "sinusoidal", "rotary", "alibi", "relative"])
def test_one_key_chooses_the_positions_and_each_of_them_knows_the_order(name: str) -> None:
    settings = build_config({"model": {**config().model_dump(), "positions": name}}).model
    assert settings.positions == name
    model = small_model(positions=name)
    source = torch.tensor([[5, 9, 7, 8, 6]])
    mask, order = torch.ones(1, 5, dtype=torch.bool), torch.tensor([3, 0, 4, 2, 1])
    with torch.no_grad():
        shifted = model.encode(source[:, order], mask)
        assert (shifted - model.encode(source, mask)[:, order]).abs().max() > 1e-2


# C6: binary numbers ---------------------------------------------------------------------------------------------------


@pytest.mark.seed("C6")
def test_the_page_counts_in_binary() -> None:
    """Its block is run; bit k of what it prints flips every 2^k numbers."""
    page = (ROOT / "docs/attention/order-and-cost.md").read_text(encoding="utf-8")
    (block,) = (code for code in re.findall(r"^```python\n(.*?)^```$", page, re.M | re.S) if "in binary is" in code)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(block, {})
    lines = printed.getvalue().split("\n")
    assert lines[0] == "0 in binary is 000"
    assert lines[7:] == ["7 in binary is 111", ""]
    rows = [line.rsplit(" ", 1) for line in lines[:-1]]
    assert [text for text, _ in rows] == [f"{number} in binary is" for number in range(8)]
    for bit in range(3):
        column = [digits[2 - bit] for _, digits in rows]
        assert [n for n in range(1, 8) if column[n] != column[n - 1]] == list(range(2**bit, 8, 2**bit))
