"""No mutation of a row survives the tests that are named after the row."""

from __future__ import annotations

import ast
import subprocess
import sys

import pytest
from tests.mutations.planted import MUTATIONS, Mutation
from tests.mutations.run import ROOT, named_after, source_of

EACH = pytest.mark.parametrize(
    "mutation", MUTATIONS, ids=[f"{number}-{each.row}" for number, each in enumerate(MUTATIONS)]
)


@EACH
def test_a_mutation_changes_one_place_of_sources_that_still_parse(mutation: Mutation) -> None:
    text = source_of(mutation).read_text(encoding="utf-8")
    mutated = text.replace(mutation.old, mutation.new)
    assert mutated != text
    ast.parse(mutated)
    assert named_after(mutation.row), "the row has tests"


def test_no_mutation_is_planted_twice() -> None:
    assert len(set(MUTATIONS)) == len(MUTATIONS)


@pytest.mark.nightly
def test_no_mutation_survives() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.mutations.run"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert [line for line in done.stdout.splitlines() if not line.startswith("caught")][:-1] == [], done.stderr
    assert done.returncode == 0
