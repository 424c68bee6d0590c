"""Links of a corpus: what goes in comes out batch by batch, and damage is named."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dikkat.data.corpus import Corpus
from dikkat.data.links import Link, Links
from dikkat_runtime.errors import DataError, MissingInputError

CORPUS = Corpus.in_memory([([5] * 4, [6]), ([5] * 2, [6]), ([5] * 6, [6]), ([5] * 3, [6])])
LINKS: list[Link] = [(2, 5, 0), (0, 3, 1), (2, 4, 0), (2, 5, 1), (3, 2, 0)]


def test_a_batch_has_the_links_of_its_pairs_in_its_own_order(tmp_path: Path) -> None:
    Links.build(tmp_path, LINKS)
    batch = Links.open(tmp_path, CORPUS).of(np.array([3, 1, 2]))
    found = list(zip(*(array.tolist() for array in (batch.sentences, batch.rows, batch.columns)), strict=True))
    assert found == [(0, 2, 0), (2, 4, 0), (2, 5, 0), (2, 5, 1)]
    # the two columns of row 5 are one group
    assert batch.groups.tolist() == [0, 1, 2, 2]
    assert batch.num_rows == 3


def test_rows_of_one_number_in_two_sentences_are_two_groups(tmp_path: Path) -> None:
    batch = Links.build(tmp_path, [(0, 2, 1), (1, 2, 0)]).of(np.array([0, 1]))
    assert batch.groups.tolist() == [0, 1]


def test_pairs_without_links_have_none(tmp_path: Path) -> None:
    links = Links.build(tmp_path, LINKS)
    batch = links.of(np.array([1]))
    assert (len(batch.sentences), batch.num_rows) == (0, 0)
    assert links.num_pairs == 3


@pytest.mark.parametrize("link", [(4, 0, 0), (-1, 0, 0), (1, 3, 0), (1, 0, 3), (1, -1, 0)])
def test_a_link_that_its_source_has_not_is_damage(tmp_path: Path, link: Link) -> None:
    Links.build(tmp_path, [*LINKS, link])
    with pytest.raises(DataError, match=r"links\.npy: does not fit the corpus of 4 pairs; prepare the data again"):
        Links.open(tmp_path, CORPUS)


def test_a_file_that_is_cut_short_or_missing(tmp_path: Path) -> None:
    Links.build(tmp_path, LINKS)
    path = tmp_path / "train.links.npy"
    path.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(DataError, match="damaged"):
        Links.open(tmp_path, CORPUS)
    Links.remove(tmp_path)
    with pytest.raises(MissingInputError, match="prepare the data again"):
        Links.open(tmp_path, CORPUS)
