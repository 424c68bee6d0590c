"""Nearest neighbours and the plane of the principal components, against brute force and numpy."""

from __future__ import annotations

import numpy as np
import pytest

from dikkat.explain import word_vectors as vector_space
from dikkat.explain.word_vectors import nearest_neighbours, principal_plane, unit_rows

VECTORS = np.array([[1.0, 0.0], [2.0, 0.1], [0.0, 0.0], [-3.0, 0.0], [0.5, 0.5], [4.0, 0.0]])


@pytest.mark.seed("A20")
def test_neighbours_are_those_of_brute_force(monkeypatch: pytest.MonkeyPatch) -> None:
    """In blocks of rows as well, the last of which is not full."""
    monkeypatch.setattr(vector_space, "_ROWS_AT_ONCE", 7)
    vectors = np.random.default_rng(0).normal(size=(25, 6)).astype(np.float32)
    for row, neighbours in enumerate(nearest_neighbours(vectors, 4)):
        cosines = [
            (float(vectors[row] @ other / np.linalg.norm(vectors[row]) / np.linalg.norm(other)), index)
            for index, other in enumerate(vectors)
            if index != row
        ]
        expected = sorted(cosines, reverse=True)[:4]
        assert [index for index, _ in neighbours] == [index for _, index in expected]
        np.testing.assert_allclose([cosine for _, cosine in neighbours], [cosine for cosine, _ in expected], atol=1e-6)


def test_length_does_not_count_and_the_earlier_row_wins_a_tie() -> None:
    ((index, cosine),) = nearest_neighbours(VECTORS, 1)[0]
    assert index == 5
    assert cosine == pytest.approx(1.0)
    same = np.ones((4, 3))
    assert [[index for index, _ in item] for item in nearest_neighbours(same, 2)] == [[1, 2], [0, 2], [0, 1], [0, 1]]


def test_a_row_of_zeros_has_no_neighbours_and_is_none() -> None:
    result = nearest_neighbours(VECTORS, 9)
    assert result[2] == []
    assert all({index for index, _ in result[row]} == {0, 1, 3, 4, 5} - {row} for row in (0, 1, 3, 4, 5))


def test_rows_of_length_one() -> None:
    rows = unit_rows(VECTORS)
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), [1, 1, 0, 1, 1, 1])
    np.testing.assert_allclose(rows[4], [0.5**0.5, 0.5**0.5])


def test_the_plane_is_that_of_the_eigenvectors_of_the_covariance() -> None:
    vectors = np.random.default_rng(1).normal(size=(40, 5)) * [5.0, 3.0, 1.0, 0.5, 0.1] + 7.0
    points, share = principal_plane(vectors)
    eigenvalues, eigenvectors = np.linalg.eigh(np.cov(vectors.T))
    expected = (vectors - vectors.mean(axis=0)) @ eigenvectors[:, ::-1][:, :2]
    np.testing.assert_allclose(np.abs(points), np.abs(expected), atol=1e-9)
    assert share == pytest.approx(eigenvalues[-2:].sum() / eigenvalues.sum())
    flipped, _ = principal_plane(-vectors)
    assert (flipped[np.abs(flipped).argmax(axis=0), [0, 1]] > 0).all()


def test_points_on_a_line_and_equal_points() -> None:
    points, share = principal_plane(np.array([[0.0], [1.0], [5.0]]))
    assert points.shape == (3, 2)
    np.testing.assert_allclose(points[:, 0], [-2.0, -1.0, 3.0])
    np.testing.assert_allclose(points[:, 1], 0.0)
    assert share == 1.0
    assert principal_plane(np.ones((3, 4)))[1] == 1.0
