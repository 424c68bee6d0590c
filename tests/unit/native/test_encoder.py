"""The native encoder against the formula of an encoder in float64, and a sentence alone against its company."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pytest
import torch
from tests.unit.native.test_decoder import WIDTHS, applied, attended, normed, some_linear, some_norm
from torch import Tensor
from torch.nn import functional as F

from dikkat.native import calls, encoder, library
from dikkat.native.encoder import EncoderWeights, encode
from dikkat.native.layers import LinearWeights, NormWeights

needs_kernels = pytest.mark.skipif(library.library() is None, reason=f"no native kernels: {library.why_absent()}")
LENGTHS = [9, 4, 1, 40, 150, 3]


def some_encoder(
    widths: str = "round", *, layers: int = 2, post_norm: bool = False, gelu: bool = False, bias: bool = True
) -> EncoderWeights:
    width, heads, head_dim, hidden, _ = WIDTHS[widths]
    joined = heads * head_dim
    shapes = [(3 * joined, width), (width, joined), (hidden, width), (width, hidden)]
    norms: list[NormWeights | None] = [some_norm(width) for _ in range(2 * layers)]
    return EncoderWeights(
        num_heads=heads,
        head_dim=head_dim,
        post_norm=post_norm,
        gelu=gelu,
        linears=tuple(some_linear(*shape, bias=bias) for _ in range(layers) for shape in shapes),
        norms=(None, *norms) if post_norm else (*norms, some_norm(width)),
        betas=tuple(0.2 + 0.1 * place for place in range(layers)),
    )


def formula(
    weights: EncoderWeights,
    embedded: Tensor,
    lengths: Sequence[int],
    product: Callable[[LinearWeights, Tensor], Tensor] = applied,
) -> Tensor:
    """States (N, D) in float64, sentence by sentence; `product` is what a linear layer computes."""
    return torch.cat([sentence_states(weights, each.double(), product) for each in embedded.split(list(lengths))])


def sentence_states(weights: EncoderWeights, x: Tensor, product: Callable[[LinearWeights, Tensor], Tensor]) -> Tensor:
    inner = normed(weights.norms[0], x)
    everything = torch.ones(len(x), len(x), dtype=torch.bool)
    for layer, beta in enumerate(weights.betas):
        linear, norms = weights.linears[4 * layer : 4 * layer + 4], weights.norms[2 * layer + 1 : 2 * layer + 3]
        # (S, 3 * H * K) -> 3 x (H, S, K)
        parts = product(linear[0], inner).unflatten(1, (3, weights.num_heads, -1)).permute(1, 2, 0, 3)
        x = x + product(linear[1], attended(parts[0], parts[1], parts[2], everything, beta))
        inner = normed(norms[0], x)
        x = inner if weights.post_norm else x
        hidden = product(linear[2], inner)
        x = x + product(linear[3], F.gelu(hidden) if weights.gelu else F.relu(hidden))
        inner = normed(norms[1], x)
        x = inner if weights.post_norm else x
    return inner


@pytest.fixture
def threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@needs_kernels
@pytest.mark.parametrize("widths", WIDTHS)
@pytest.mark.parametrize(
    "kind", [{}, {"post_norm": True}, {"gelu": True, "bias": False}, {"layers": 0}, {"post_norm": True, "layers": 3}]
)
def test_states_are_those_of_the_formula(widths: str, kind: dict[str, bool]) -> None:
    weights = some_encoder(widths, **kind)
    embedded = torch.randn(sum(LENGTHS), WIDTHS[widths][0])
    before = embedded.clone()
    found = encode(weights, embedded, LENGTHS)
    torch.testing.assert_close(found.double(), formula(weights, embedded, LENGTHS), rtol=0, atol=2e-5)
    assert torch.equal(embedded, before)


@needs_kernels
@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("widths", ["round", "odd"])
def test_a_sentence_has_the_same_bits_alone_in_company_and_on_two_threads(widths: str) -> None:
    weights, lengths = some_encoder(widths), [*range(1, 60), 200, 1]
    embedded = torch.randn(sum(lengths), WIDTHS[widths][0])
    found = []
    for count in (1, 2):
        torch.set_num_threads(count)
        found.append(encode(weights, embedded, lengths))
    assert torch.equal(*found)
    for sentence, states in zip(embedded.split(lengths), found[0].split(lengths), strict=True):
        assert torch.equal(encode(weights, sentence, [len(sentence)]), states)


@needs_kernels
def test_what_is_no_number_stays_in_its_sentence() -> None:
    weights, embedded = some_encoder(), torch.randn(7, 32)
    embedded[1, 2] = torch.nan
    found = encode(weights, embedded, [3, 4])
    assert found[:3].isnan().all()
    assert found[3:].isfinite().all()


@needs_kernels
def test_nothing_to_encode_is_nothing() -> None:
    assert encode(some_encoder(), torch.empty(0, 32), []).shape == (0, 32)


def test_without_native_code_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (calls, encoder):
        monkeypatch.setattr(module, "library", lambda: None)
    assert not encoder.can_encode()
    with pytest.raises(RuntimeError, match="ask can_encode first"):
        encode(some_encoder(), torch.randn(2, 32), [2])
