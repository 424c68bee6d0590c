"""Every error has its exit code, and a misspelt name is answered with the nearest one."""

from __future__ import annotations

import os

import pytest

from dikkat_runtime import errors
from dikkat_runtime.errors import DikkatError, nearest


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("UsageError", 2),
        ("DataError", os.EX_DATAERR),
        ("MissingInputError", os.EX_NOINPUT),
        ("InternalError", os.EX_SOFTWARE),
        ("OutOfMemoryError", os.EX_OSERR),
        ("CannotCreateError", os.EX_CANTCREAT),
        ("DiskError", os.EX_IOERR),
        ("StoppedError", os.EX_TEMPFAIL),
        ("DivergedError", os.EX_PROTOCOL),
    ],
)
def test_exit_codes_are_those_of_sysexits(name: str, code: int) -> None:
    kind = getattr(errors, name)
    assert issubclass(kind, DikkatError)
    assert kind.exit_code == code
    assert str(kind("where: what; what to do")) == "where: what; what to do"


def test_every_error_has_a_code_of_its_own() -> None:
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, DikkatError)]
    for way_of_wrong_use in (errors.AbsentError, errors.SettingError):
        kinds.remove(way_of_wrong_use)
    assert len(kinds) == 10
    assert len({kind.exit_code for kind in kinds}) == len(kinds)


def test_nearest_offers_a_name_only_when_one_is_near() -> None:
    known = ["dropout", "num_heads", "model_dim"]
    assert nearest("num_head", known) == '; did you mean "num_heads"?'
    assert nearest("dorpout", known) == '; did you mean "dropout"?'
    assert nearest("xyz", known) == ""
    assert nearest("dropout", []) == ""
