"""Positions by name, and the table that ends."""

from __future__ import annotations

import pytest
import torch

from dikkat.nn.named_positions import attention_positions, embedding_positions
from dikkat.nn.positions import BeyondPositionsError, LearnedPositions, NoPositions, SinusoidalPositions, sinusoids
from dikkat.nn.relative import BucketBias
from dikkat_runtime.errors import DataError


@pytest.mark.seed("C10")
def test_every_name_leads_to_one_place() -> None:
    """Positions are added to the embeddings, or enter in attention; never both."""
    for name in ("sinusoidal", "sinusoidal_halves", "sinusoidal_concatenated", "learned"):
        assert not isinstance(embedding_positions(name, 8, 16), NoPositions)
        assert attention_positions(name, 2, 4, causal=True) is None
    for name in ("rotary", "alibi", "relative", "relative_buckets"):
        assert isinstance(embedding_positions(name, 8, 16), NoPositions)
        assert attention_positions(name, 2, 4, causal=True) is not None
    assert isinstance(embedding_positions("none", 8, 16), NoPositions)
    assert attention_positions("none", 2, 4, causal=False) is None


def test_the_names_of_both_published_tables() -> None:
    for name, layout in (
        ("sinusoidal", "interleaved"),
        ("sinusoidal_halves", "halves"),
        ("sinusoidal_concatenated", "concatenated"),
    ):
        module = embedding_positions(name, 8, 16)
        assert isinstance(module, SinusoidalPositions)
        assert torch.equal(module(torch.zeros(1, 3, 8))[0], sinusoids(3, 8, layout))  # type: ignore[arg-type]


def test_only_a_decoder_saves_the_buckets_of_the_future() -> None:
    for causal in (False, True):
        module = attention_positions("relative_buckets", 2, 4, causal=causal)
        assert isinstance(module, BucketBias)
        assert module.bidirectional is not causal


def test_unknown_names_are_refused() -> None:
    message = "positions must be one of none, sinusoidal, .*, rotary, .*, not 'spiral'"
    with pytest.raises(ValueError, match=message):
        embedding_positions("spiral", 8, 16)
    with pytest.raises(ValueError, match=message):
        attention_positions("spiral", 2, 4, causal=True)


def test_learned_positions_are_rows_of_their_table() -> None:
    module, x = LearnedPositions(8, 10), torch.randn(2, 3, 8)
    torch.testing.assert_close(module(x, offset=7) - x, module.embedding[7:].expand(2, 3, 8), rtol=0, atol=1e-6)
    module(x).sum().backward()
    assert module.embedding.grad is not None
    assert module.embedding.grad.abs().sum(-1).bool().tolist() == [True] * 3 + [False] * 7


def test_a_sequence_beyond_the_table_is_the_users_error() -> None:
    module = LearnedPositions(8, 10)
    message = "a sequence must fit into max_positions = 10 learned positions, but reaches 11"
    for length, offset in ((11, 0), (1, 10)):
        with pytest.raises(BeyondPositionsError, match=message):
            module(torch.randn(1, length, 8), offset)
    assert issubclass(BeyondPositionsError, DataError)
    assert issubclass(BeyondPositionsError, ValueError)


def test_no_positions_change_nothing() -> None:
    x = torch.randn(1, 3, 8)
    assert NoPositions()(x, offset=5) is x
