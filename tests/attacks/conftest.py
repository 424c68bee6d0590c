"""The runs that are attacked, and the command line that they are given to."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.attacks.commands import Commands, make_runs


@pytest.fixture(scope="session")
def commands() -> Iterator[Commands]:
    commands = Commands()
    yield commands
    commands.close()


@pytest.fixture(scope="session")
def runs(commands: Commands, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A finished run of each kind. Look, do not touch; else copy it."""
    return make_runs(tmp_path_factory.mktemp("runs"), lambda arguments: commands(*arguments, timeout=120).code)
