"""The longest test files begin first, and the table of them names files that are there."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.longest_files import MAX_FILES_LENGTH, index_of

ROOT = Path(__file__).resolve().parents[2]


def test_every_file_of_the_table_is_there_and_named_once() -> None:
    assert [path for path in MAX_FILES_LENGTH if not (ROOT / path).is_file()] == []
    assert len(set(MAX_FILES_LENGTH)) == len(MAX_FILES_LENGTH)


def test_tests_are_sorted_by_the_table_and_keep_their_order_otherwise() -> None:
    tests = ["a.py::one", "c.py::one", "b.py::one", "b.py::two[x::y]", "a.py::two"]
    assert sorted(tests, key=lambda test: index_of(test, ("b.py", "c.py"))) == [
        "b.py::one", "b.py::two[x::y]", "c.py::one", "a.py::one", "a.py::two",
    ]  # fmt: skip


def test_this_session_runs_in_that_order(request: pytest.FixtureRequest) -> None:
    if not hasattr(request.config, "workerinput"):
        pytest.skip("files are not distributed to processes here")
    indices = [index_of(item.nodeid) for item in request.session.items]
    assert indices == sorted(indices)
    assert not request.config.option.loadscopereorder, "pytest-xdist puts them in an order of its own"
