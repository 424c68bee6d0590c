"""The native decoding step against the formula of a decoder in float64, row by row and bit by bit."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from dikkat.native import decoder, library
from dikkat.native.decoder import DecoderSteps, DecoderWeights
from dikkat.native.layers import LinearWeights, NormWeights

needs_kernels = pytest.mark.skipif(library.library() is None, reason=f"no native kernels: {library.why_absent()}")

WIDTHS = {
    "round": (32, 2, 16, 64, 40),
    "odd": (20, 3, 6, 37, 23),
    "tiny": (3, 1, 1, 1, 1),
    "wide heads": (16, 2, 70, 8, 6),
}
"""D, H, K, F, V."""


def some_linear(outputs: int, inputs: int, bias: bool) -> LinearWeights:
    return LinearWeights(torch.randn(outputs, inputs) * inputs**-0.5, torch.randn(outputs) if bias else None)


def some_norm(width: int) -> NormWeights:
    return NormWeights(1 + 0.3 * torch.randn(width), 0.3 * torch.randn(width), 1e-5)


def some_weights(
    widths: str = "round", *, layers: int = 2, post_norm: bool = False, gelu: bool = False, bias: bool = True
) -> DecoderWeights:
    width, heads, head_dim, hidden, vocabulary = WIDTHS[widths]
    joined = heads * head_dim
    shapes = [(3 * joined, width), (width, joined), (joined, width), (width, joined), (hidden, width), (width, hidden)]
    linears = [some_linear(*shape, bias=bias) for _ in range(layers) for shape in shapes]
    norms: list[NormWeights | None] = [some_norm(width) for _ in range(3 * layers)]
    return DecoderWeights(
        num_heads=heads,
        head_dim=head_dim,
        post_norm=post_norm,
        gelu=gelu,
        embedding=torch.randn(vocabulary, width),
        embedding_scale=1.7,
        linears=(*linears, some_linear(vocabulary, width, False)),
        sources=tuple(some_linear(2 * joined, width, bias) for _ in range(layers)),
        norms=(None, *norms) if post_norm else (*norms, some_norm(width)),
        betas=tuple(0.2 + 0.1 * place for place in range(2 * layers)),
    )


def some_memory(weights: DecoderWeights, sentences: int, length: int) -> Tensor:
    return torch.randn(sentences, length, weights.embedding.shape[1])


def applied(linear: LinearWeights, x: Tensor) -> Tensor:
    return F.linear(x, linear.weight.double(), None if linear.bias is None else linear.bias.double())


def normed(norm: NormWeights | None, x: Tensor) -> Tensor:
    if norm is None:
        return x
    weight, bias = (None if part is None else part.double() for part in (norm.weight, norm.bias))
    return F.layer_norm(x, x.shape[-1:], weight, bias, norm.eps)


def attended(query: Tensor, key: Tensor, value: Tensor, may: Tensor, beta: float) -> Tensor:
    """Heads (H, T, K) to rows (T, H * K)."""
    scores = (query @ key.transpose(1, 2) * beta).masked_fill(~may, -torch.inf)
    return (torch.softmax(scores, dim=-1).nan_to_num(0.0) @ value).transpose(0, 1).flatten(1)


def as_it_is(x: Tensor) -> Tensor:
    return x


def formula(
    weights: DecoderWeights,
    tokens: Sequence[int],
    places: Tensor,
    memory: Tensor,
    mask: Tensor,
    product: Callable[[LinearWeights, Tensor], Tensor] = applied,
    kept: Callable[[Tensor], Tensor] = as_it_is,
) -> Tensor:
    """Logits (T, V) of one row in float64; `memory` (S, D) and `mask` (S,) are those of its sentence.

    `product` is what a linear layer computes, `kept` what is left of keys and values in the cache.
    """
    heads, length = weights.num_heads, len(tokens)
    x = weights.embedding.double()[list(tokens)] * weights.embedding_scale + places[:length].double()
    inner = normed(weights.norms[0], x)
    causal = torch.ones(length, length, dtype=torch.bool).tril()
    for layer, source in enumerate(weights.sources):
        # (S, 2 * H * K) -> 2 x (H, S, K)
        of_source = kept(product(source, memory.double()))
        source_key, source_value = of_source.unflatten(1, (2, heads, -1)).permute(1, 2, 0, 3)
        linear, norms = weights.linears[6 * layer : 6 * layer + 6], weights.norms[3 * layer + 1 : 3 * layer + 4]

        def own(y: Tensor, linear: Sequence[LinearWeights] = linear, layer: int = layer) -> Tensor:
            # (T, 3 * H * K) -> 3 x (H, T, K)
            parts = product(linear[0], y).unflatten(1, (3, heads, -1)).permute(1, 2, 0, 3)
            key, value = kept(parts[1]), kept(parts[2])
            return product(linear[1], attended(parts[0], key, value, causal, weights.betas[2 * layer]))

        def cross(
            y: Tensor,
            linear: Sequence[LinearWeights] = linear,
            layer: int = layer,
            key: Tensor = source_key,
            value: Tensor = source_value,
        ) -> Tensor:
            query = product(linear[2], y).unflatten(1, (heads, -1)).transpose(0, 1)
            beta = weights.betas[2 * layer + 1]
            return product(linear[3], attended(query, key, value, mask, beta))

        def feed_forward(y: Tensor, linear: Sequence[LinearWeights] = linear) -> Tensor:
            hidden = product(linear[4], y)
            return product(linear[5], F.gelu(hidden) if weights.gelu else F.relu(hidden))

        for sub_layer, norm in zip((own, cross, feed_forward), norms, strict=True):
            x = x + sub_layer(inner)
            inner = normed(norm, x)
            x = inner if weights.post_norm else x
    return product(weights.linears[-1], inner)


class Rows:
    """Native steps beside the plain tokens of every row, whose truth is the formula."""

    def __init__(self, weights: DecoderWeights, lengths: Sequence[int], rows: int, size: int = 9) -> None:
        self.weights, self.rows = weights, rows
        self.mask = torch.arange(size) < torch.tensor(lengths)[:, None]
        self.memory = some_memory(weights, len(lengths), size)
        self.places = torch.randn(80, weights.embedding.shape[1])
        self.steps = DecoderSteps(weights, self.memory, self.mask, rows)
        self.written: list[list[int]] = [[] for _ in range(len(lengths) * rows)]
        self.owners = [sentence for sentence in range(len(lengths)) for _ in range(rows)]

    def step(self) -> Tensor:
        tokens = torch.randint(0, self.weights.embedding.shape[0], (len(self.written),))
        for row, token in zip(self.written, tokens.tolist(), strict=True):
            row.append(token)
        return self.steps.step(tokens, self.places[len(self.written[0]) - 1])

    def expected(self) -> Tensor:
        found = []
        for row, owner in zip(self.written, self.owners, strict=True):
            found.append(formula(self.weights, row, self.places, self.memory[owner], self.mask[owner])[-1])
        return torch.stack(found)

    def reorder(self, choose: random.Random) -> None:
        starts = range(0, len(self.written), self.rows)
        index = [start + choose.randrange(self.rows) for start in starts for _ in range(self.rows)]
        self.steps.reorder(torch.tensor(index))
        self.written = [list(self.written[row]) for row in index]

    def drop(self, choose: random.Random) -> None:
        sentences = len(self.written) // self.rows
        keep = sorted(choose.sample(range(sentences), sentences - 1))
        self.steps.drop(torch.tensor(keep))
        kept = [sentence * self.rows + row for sentence in keep for row in range(self.rows)]
        self.written, self.owners = [self.written[row] for row in kept], [self.owners[row] for row in kept]


def close(found: Tensor, expected: Tensor) -> None:
    assert found.shape == expected.shape
    assert found.dtype == torch.float32
    torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-5)


@needs_kernels
@pytest.mark.parametrize("widths", WIDTHS)
@pytest.mark.parametrize(
    ("post_norm", "gelu", "bias"), [(False, False, True), (True, True, False), (True, False, True)]
)
def test_every_step_is_the_formula(widths: str, post_norm: bool, gelu: bool, bias: bool) -> None:
    """70 positions, so that the cache grows twice; one sentence has nothing to attend to."""
    rows = Rows(some_weights(widths, post_norm=post_norm, gelu=gelu, bias=bias), [9, 4, 0], rows=2)
    for place in range(70):
        assert rows.steps.length == place
        found = rows.step()
        if place in (0, 1, 2, 15, 16, 31, 32, 33, 63, 64, 69):
            close(found, rows.expected())


@needs_kernels
@pytest.mark.parametrize("number", [1, 2, 3, 4, 5, 8, 23, 24, 25, 29, 31, 64, 67, 130])
def test_any_number_of_rows(number: int) -> None:
    rows = Rows(some_weights("odd"), [9] * number, rows=1)
    rows.step()
    close(rows.step(), rows.expected())


@needs_kernels
@pytest.mark.parametrize("seed", range(6))
def test_rows_that_change_places_and_sentences_that_leave(seed: int) -> None:
    choose = random.Random(seed)
    rows = Rows(some_weights("odd", post_norm=seed % 2 == 0), [9, 2, 5, 1], rows=choose.choice([1, 2, 3, 5]))
    for _ in range(40):
        close(rows.step(), rows.expected())
        if choose.random() < 0.7:
            rows.reorder(choose)
        if len(set(rows.owners)) > 1 and choose.random() < 0.1:
            rows.drop(choose)


@needs_kernels
def test_a_gap_in_the_mask_is_not_attended_to() -> None:
    rows = Rows(some_weights(), [20], rows=2, size=20)
    rows.mask[0, [0, 7, 16]] = False
    rows.steps = DecoderSteps(rows.weights, rows.memory, rows.mask, 2)
    close(rows.step(), rows.expected())


COMPANY = 151
"""Rows at once, enough for two threads and for panels of weights."""


@pytest.fixture
def threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@needs_kernels
@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("widths", ["round", "odd"])
def test_a_row_has_the_same_bits_alone_in_company_with_padding_and_on_two_threads(widths: str) -> None:
    assert_company_changes_nothing(some_weights(widths, gelu=True))


def assert_company_changes_nothing(weights: DecoderWeights) -> None:
    size, sentences, steps = 7, COMPANY, 36
    memory, mask = some_memory(weights, sentences, size), torch.ones(sentences, size, dtype=torch.bool)
    tokens = torch.randint(0, weights.embedding.shape[0], (steps, sentences))
    places = torch.randn(steps, weights.embedding.shape[1])

    def run(chosen: list[int], threads: int = 1, padding: int = 0) -> Tensor:
        torch.set_num_threads(threads)
        padded = F.pad(memory[chosen], (0, 0, 0, padding), value=3.0)
        taken = DecoderSteps(weights, padded, F.pad(mask[chosen], (0, padding)), 1)
        return torch.stack([taken.step(tokens[step][chosen], places[step]) for step in range(steps)])

    together = run(list(range(sentences)))
    for chosen in ([0], [COMPANY - 1], [5, 66], [1, 2, 3], list(range(20, 71))):
        assert torch.equal(run(chosen), together[:, chosen])
        assert torch.equal(run(chosen, padding=30), together[:, chosen])
    assert torch.equal(run(list(range(sentences)), threads=2), together)


@needs_kernels
@pytest.mark.parametrize("widths", ["round", "odd"])
def test_two_threads_really_share_the_work(widths: str) -> None:
    """Otherwise the test of their bits shows nothing: a thread more for each 2**20 multiply-adds, says decoder.c."""
    products = sum(each.weight.numel() for each in some_weights(widths).linears)
    assert COMPANY * products > 1 << 20


@needs_kernels
def test_what_is_held_is_handed_over() -> None:
    """Keys and values of the first layer under post-norm are a projection of what is fed in."""
    rows = Rows(some_weights("odd", post_norm=True), [9, 4], rows=2)
    for _ in range(35):
        rows.step()
    rows.reorder(random.Random(1))
    rows.step()
    key, value = rows.steps.keys_and_values()[0]
    fed = rows.weights.embedding[torch.tensor(rows.written)] * rows.weights.embedding_scale + rows.places[:36]
    # (R, T, 3 * H * K) -> 3 x (R, H, T, K)
    parts = applied(rows.weights.linears[0], fed.double()).unflatten(2, (3, 3, 6)).permute(2, 0, 3, 1, 4)
    close(key, parts[1])
    close(value, parts[2])


@needs_kernels
def test_a_changed_weight_counts_at_the_next_step() -> None:
    first, second = (Rows(some_weights("odd"), [5], rows=1) for _ in range(2))
    for rows in (first, second):
        torch.manual_seed(3)
        with torch.no_grad():
            rows.weights.linears[0].weight.copy_(torch.randn(rows.weights.linears[0].weight.shape))
        close(rows.step(), rows.expected())


@needs_kernels
@pytest.mark.parametrize("gelu", [False, True])
def test_a_number_that_is_none_is_not_hidden(gelu: bool) -> None:
    for place in range(13):
        weights = some_weights(gelu=gelu)
        weights.linears[place].weight[:, 0] = torch.nan
        assert Rows(weights, [5], rows=1).step().isnan().all()


@needs_kernels
def test_tokens_that_cannot_be_are_refused_and_change_nothing() -> None:
    rows = Rows(some_weights("odd"), [5, 5], rows=1)
    for token in (-1, 23):
        with pytest.raises(IndexError, match="a token must lie between 0 and 22"):
            rows.steps.step(torch.tensor([1, token]), rows.places[0])
    with pytest.raises(ValueError, match=r"the cache has 2 rows, but the tokens have the shape \(3,\)"):
        rows.steps.step(torch.tensor([1, 2, 3]), rows.places[0])
    assert rows.steps.length == 0
    close(rows.step(), rows.expected())


@needs_kernels
def test_tokens_of_another_type_are_tokens() -> None:
    found = []
    for tokens in (torch.tensor([3, 4]), torch.tensor([3, 4], dtype=torch.int32), torch.tensor([3, 0, 4, 0])[::2]):
        torch.manual_seed(1)
        rows = Rows(some_weights(), [5, 5], rows=1)
        found.append(rows.steps.step(tokens, rows.places[0]))
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0], found[2])


@pytest.mark.usefixtures("without_kernels")
def test_asking_for_a_step_that_is_not_here_is_an_error() -> None:
    assert not decoder.can_step()
    weights = some_weights()
    with pytest.raises(RuntimeError, match="there is no native code here; ask can_step first"):
        DecoderSteps(weights, some_memory(weights, 1, 2), torch.ones(1, 2, dtype=torch.bool), 1)
