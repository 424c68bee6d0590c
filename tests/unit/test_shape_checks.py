"""The checks of shapes that all tests run with: they check, end after some calls by day, begin anew with each test."""

from __future__ import annotations

import pytest
import torch
from jaxtyping import TypeCheckError
from tests.shape_checks import CHECKED_CALLS, begin_test

from dikkat.nn.rotary import rotations


def test_a_wrong_type_is_found_in_the_first_calls_of_a_test() -> None:
    for _ in range(2):
        for _ in range(CHECKED_CALLS):
            with pytest.raises(TypeCheckError, match=r"rotations\.\n.* parameter .length."):
                rotations("four", 8)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="unsupported operand"):
            rotations("four", 8)  # type: ignore[arg-type]
        begin_test()


def test_where_every_call_is_checked_the_checks_do_not_end() -> None:
    begin_test(every_call=True)
    for _ in range(3 * CHECKED_CALLS):
        with pytest.raises(TypeCheckError, match=r"rotations\.\n.* parameter .length."):
            rotations("four", 8)  # type: ignore[arg-type]


def test_a_wrong_shape_of_what_is_returned_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    from_numpy = torch.from_numpy
    monkeypatch.setattr(torch, "from_numpy", lambda array: from_numpy(array)[:1])
    with pytest.raises(TypeCheckError, match=r"return value of dikkat\.nn\.rotary\.rotations"):
        rotations(4, 8)


def test_the_same_shapes_are_checked_once_a_test_and_others_again(monkeypatch: pytest.MonkeyPatch) -> None:
    rotations(4, 8)
    from_numpy = torch.from_numpy
    monkeypatch.setattr(torch, "from_numpy", lambda array: from_numpy(array)[:1])
    assert rotations(4, 8).shape[0] == 1
    with pytest.raises(TypeCheckError, match=r"return value of dikkat\.nn\.rotary\.rotations"):
        rotations(6, 8)
    begin_test()
    with pytest.raises(TypeCheckError, match=r"return value of dikkat\.nn\.rotary\.rotations"):
        rotations(4, 8)
