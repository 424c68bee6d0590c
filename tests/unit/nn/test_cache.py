"""The key/value caches against plain bookkeeping with `torch.cat`."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from dikkat.nn.cache import CrossAttentionCache, DecoderCache, SelfAttentionCache

HEADS, WIDTH, VALUE_WIDTH = 2, 3, 4


class ByTheBook:
    """Keys and values as plain tensors: appended by `cat`, reordered by indexing."""

    def __init__(self, rows: int) -> None:
        self.key, self.value = torch.empty(rows, HEADS, 0, WIDTH), torch.empty(rows, HEADS, 0, VALUE_WIDTH)

    def append(self, key: Tensor, value: Tensor) -> None:
        self.key, self.value = torch.cat((self.key, key), dim=2), torch.cat((self.value, value), dim=2)

    def reorder(self, index: Tensor) -> None:
        self.key, self.value = self.key[index], self.value[index]


def some(rows: int, length: int = 1) -> tuple[Tensor, Tensor]:
    return torch.randn(rows, HEADS, length, WIDTH), torch.randn(rows, HEADS, length, VALUE_WIDTH)


@dataclass(frozen=True)
class Append:
    length: int


@dataclass(frozen=True)
class Reorder:
    places: tuple[float, ...]
    """Row numbers as shares of the number of rows, which is known only when the step is taken."""


STEPS = st.lists(
    st.one_of(
        st.builds(Append, st.sampled_from([1, 1, 1, 2, 5, 17])),
        st.builds(Reorder, st.lists(st.floats(0, 0.999), min_size=1, max_size=5).map(tuple)),
    ),
    max_size=25,
)


@settings(max_examples=60, deadline=None)
@given(rows=st.integers(1, 5), steps=STEPS)
def test_any_sequence_of_steps_keeps_the_books(rows: int, steps: list[Append | Reorder]) -> None:
    cache, book = SelfAttentionCache(), ByTheBook(rows)
    for step in steps:
        if isinstance(step, Append):
            key, value = some(book.key.shape[0], step.length)
            book.append(key, value)
            cached_key, cached_value = cache.append(key, value)
            assert torch.equal(cached_key, book.key)
            assert torch.equal(cached_value, book.value)
        elif cache.length:
            index = torch.tensor([int(position * book.key.shape[0]) for position in step.places])
            book.reorder(index)
            cache.reorder(index)
        assert cache.length == book.key.shape[2]


def test_a_reorder_before_anything_is_held_does_nothing() -> None:
    cache = SelfAttentionCache()
    cache.reorder(torch.tensor([1, 0]))
    assert cache.length == 0
    key, value = some(2)
    assert torch.equal(cache.append(key, value)[0], key)


def test_appending_moves_no_held_row_until_the_buffer_is_full() -> None:
    """Amortised constant time a step: 1,000 appends allocate some ten times, not a thousand."""
    cache, addresses = SelfAttentionCache(), set()
    for _ in range(1000):
        key, _ = cache.append(*some(1))
        addresses.add(key.untyped_storage().nbytes())
    assert len(addresses) <= 10


def test_what_was_returned_is_not_changed_by_a_later_reorder() -> None:
    cache = SelfAttentionCache()
    key, _ = cache.append(*some(3))
    before = key.clone()
    cache.reorder(torch.tensor([2, 2, 0]))
    cache.append(*some(3))
    assert torch.equal(key, before)


@settings(max_examples=40, deadline=None)
@given(
    sentences=st.integers(1, 4),
    rows=st.integers(1, 3),
    keeps=st.lists(st.lists(st.floats(0, 0.999), min_size=1, max_size=4), max_size=4),
)
def test_drop_keeps_whole_sentences_with_all_their_rows(sentences: int, rows: int, keeps: list[list[float]]) -> None:
    cross = [CrossAttentionCache(*some(sentences, 6)) for _ in range(2)]
    mask = torch.rand(sentences, 1, 1, 6) < 0.5
    cache = DecoderCache([CrossAttentionCache(layer.key, layer.value) for layer in cross], mask, rows)
    books = [ByTheBook(sentences * rows) for _ in range(2)]
    kept = list(range(sentences))
    for shares in [*keeps, [0.0]]:
        for layer, book in zip(cache.layers, books, strict=True):
            newest = some(len(kept) * rows)
            book.append(*newest)
            assert torch.equal(layer.append(*newest)[0], book.key)
        indices = sorted({int(share * len(kept)) for share in shares})
        cache.drop(torch.tensor(indices))
        for book in books:
            book.reorder(torch.tensor([index * rows + row for index in indices for row in range(rows)]))
        kept = [kept[index] for index in indices]
        assert torch.equal(cache.mask, mask[kept])
        for layer_memory, whole in zip(cache.cross_attention, cross, strict=True):
            assert torch.equal(layer_memory.key, whole.key[kept])
            assert torch.equal(layer_memory.value, whole.value[kept])
    assert cache.length == len(keeps) + 1


def test_a_reorder_reaches_every_layer_and_leaves_the_source_alone() -> None:
    cross = [CrossAttentionCache(*some(2, 5)) for _ in range(3)]
    addresses = [layer.key.data_ptr() for layer in cross]
    cache, index = DecoderCache(cross, torch.ones(2, 1, 1, 5, dtype=torch.bool), 2), torch.tensor([1, 1, 2, 3])
    held = [some(4) for _ in cross]
    for layer, (key, value) in zip(cache.layers, held, strict=True):
        layer.append(key, value)
    cache.reorder(index)
    for layer, (key, _) in zip(cache.layers, held, strict=True):
        assert torch.equal(layer.append(*some(4))[0][:, :, :1], key[index])
    assert [layer.key.data_ptr() for layer in cache.cross_attention] == addresses


def test_a_cache_works_where_gradients_are_on_and_keeps_no_graph() -> None:
    cache = SelfAttentionCache()
    key, value = (x.requires_grad_() * 2 for x in some(3))
    cache.append(key, value)
    cache.reorder(torch.tensor([2, 0]))
    held, _ = cache.append(*(x.requires_grad_() * 2 for x in some(2)))
    assert torch.equal(held[:, :, :1], key[[2, 0]])
    assert not held.requires_grad
