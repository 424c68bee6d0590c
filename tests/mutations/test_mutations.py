"""No mutation survives the tests that are named after its row, or the test that it names."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.mutations.mutation import Mutation
from tests.mutations.planted import MUTATIONS
from tests.mutations.run import ROOT, named_after, source_of

EACH = pytest.mark.parametrize(
    "mutation", MUTATIONS, ids=[f"{number}-{each.row}" for number, each in enumerate(MUTATIONS)]
)


@EACH
def test_a_mutation_changes_one_place_of_the_sources(mutation: Mutation) -> None:
    text = source_of(mutation).read_text(encoding="utf-8")
    assert text.replace(mutation.old, mutation.new) != text
    assert named_after(mutation.row), "the row has tests"


def test_a_mutation_still_parses_and_uses_no_name_that_its_file_does_not_have(tmp_path: Path) -> None:
    """It would be caught by any test at all. Whatever it looks for, ruff names the errors of syntax as well."""
    planted = [each for each in MUTATIONS if each.file.endswith(".py")]
    for number, mutation in enumerate(planted):
        text = source_of(mutation).read_text(encoding="utf-8")
        (tmp_path / f"before{number}.py").write_text(text, encoding="utf-8")
        (tmp_path / f"after{number}.py").write_text(text.replace(mutation.old, mutation.new), encoding="utf-8")
    ruff = [sys.executable, "-m", "ruff", "check", "--isolated", "--select", "F821", "--output-format", "json"]
    done = subprocess.run([*ruff, str(tmp_path)], capture_output=True, text=True, check=False)
    unknown: dict[str, set[str]] = {}
    for each in json.loads(done.stdout):
        unknown.setdefault(Path(each["filename"]).stem, set()).add(each["message"])
    # the letters of shape annotations are unknown to ruff before and after
    assert unknown
    new = [
        (each.row, unknown.get(f"after{n}", set()) - unknown.get(f"before{n}", set())) for n, each in enumerate(planted)
    ]
    assert [(row, names) for row, names in new if names] == []


def test_no_mutation_is_planted_twice() -> None:
    assert len(set(MUTATIONS)) == len(MUTATIONS)


@pytest.mark.nightly
def test_no_mutation_survives() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.mutations.run"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert [line for line in done.stdout.splitlines() if not line.startswith("caught")][:-1] == [], done.stderr
    assert done.returncode == 0


def test_mutations_can_be_run() -> None:
    """Of a row that has none: what a mutation needs is loaded, though it stands in no other test of the day."""
    command = [sys.executable, "-m", "tests.mutations.run", "no such row"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "0 of 0 mutations caught\n"), done.stderr
