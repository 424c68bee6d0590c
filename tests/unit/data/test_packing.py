"""Windows over packed documents."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dikkat.data.corpus import Corpus
from dikkat.data.packing import Windows
from dikkat_runtime.errors import DataError


def corpus_of(folder: Path, *documents: list[int]) -> Corpus:
    return Corpus.build(folder, "train", [(document, ()) for document in documents])


@pytest.mark.parametrize("context", [1, 7, 64])
def test_an_epoch_holds_every_window_once(tmp_path: Path, context: int) -> None:
    """Neighbouring windows share the one token that is predicted in the first and read in the second."""
    windows = Windows(corpus_of(tmp_path, list(range(1000))), context, 4 * context, seed=3)
    for epoch in range(3):
        starts = []
        for index in range(windows.batches_per_epoch):
            packed = windows.at(epoch * windows.batches_per_epoch + index)
            assert packed.documents is None
            assert packed.tokens.shape == (windows.batch_size, context + 1)
            assert (np.diff(packed.tokens, axis=1) == 1).all()
            starts += packed.tokens[:, 0].tolist()
        assert len(set(starts)) == len(starts)
        assert len({start % context for start in starts}) == 1
        assert len(starts) >= (1000 - context) // context - 3


def test_the_plan_depends_on_seed_and_epoch_alone(tmp_path: Path) -> None:
    corpus = corpus_of(tmp_path, list(range(5000)))
    first, again, other = (Windows(corpus, 32, 256, seed) for seed in (1, 1, 2))
    positions = [0, 5, first.batches_per_epoch + 1, 3 * first.batches_per_epoch]
    batches = [[windows.at(position).tokens for position in positions] for windows in (first, other)]
    # asked in another order
    assert all(
        (again.at(position).tokens == batches[0][index]).all()
        for index, position in reversed(list(enumerate(positions)))
    )
    assert not any((one == two).all() for one, two in zip(*batches, strict=True))


def test_documents_are_told_apart(tmp_path: Path) -> None:
    windows = Windows(corpus_of(tmp_path, [1, 10, 2], [1, 20, 21, 2], [1, 30, 2]), 9, 9, seed=0)
    packed = windows.at(0)
    assert packed.tokens.tolist() == [[1, 10, 2, 1, 20, 21, 2, 1, 30, 2]]
    assert packed.documents is not None
    assert packed.documents.tolist() == [[0, 0, 0, 1, 1, 1, 1, 2, 2, 2]]


def test_in_order_predicts_every_token_once(tmp_path: Path) -> None:
    windows = Windows(corpus_of(tmp_path, list(range(1, 104))), 10, 40, seed=0)
    predicted = [number for packed in windows.in_order(10**6) for number in packed.tokens[:, 1:].flatten().tolist()]
    assert predicted == list(range(2, 104))
    few = list(windows.in_order(30))
    assert [int(packed.tokens[0, 0]) for packed in few] == [1, 101]
    assert sum(packed.tokens[:, 1:].size for packed in few) == 22


def test_a_text_shorter_than_the_context_is_one_window(tmp_path: Path) -> None:
    windows = Windows(corpus_of(tmp_path, [1, 5, 6, 2]), 64, 4096, seed=0)
    assert (windows.length, windows.batches_per_epoch) == (3, 1)
    assert windows.at(7).tokens.tolist() == [[1, 5, 6, 2]]
    with pytest.raises(DataError, match="at least two tokens"):
        Windows(corpus_of(tmp_path / "one", [5]), 64, 4096, seed=0)
