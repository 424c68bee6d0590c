"""Memory for gradients: rows are claimed once a pass, and what nobody claimed is as autograd brought it."""

from __future__ import annotations

import pytest
import torch

from dikkat.kernels.gradient_buffer import GradientBuffer, attach_buffer, claim, grad_buffer


def opened(*shape: int) -> GradientBuffer:
    buffer = GradientBuffer(torch.full(shape, 7.0))
    buffer.open()
    return buffer


def test_rows_are_claimed_once_and_are_views_of_the_memory() -> None:
    buffer = opened(6, 3)
    first, second = buffer.claim(slice(2, 4)), buffer.claim(slice(4, None))
    assert first is not None
    assert second is not None
    assert (first.shape, second.shape) == ((2, 3), (2, 3))
    assert first.data_ptr() == buffer.memory[2:].data_ptr()
    for overlapping in (None, slice(3, 5), slice(2, 4), slice(0, 3)):
        assert buffer.claim(overlapping) is None
    assert buffer.claim(slice(0, 2)) is not None


def test_a_closed_buffer_gives_nothing() -> None:
    buffer = GradientBuffer(torch.zeros(4))
    assert buffer.claim() is None
    buffer.open()
    assert buffer.claim() is not None
    buffer.close(None)
    assert buffer.claim() is None
    buffer.open()
    assert buffer.claim() is not None, "a new pass begins with no row claimed"


def test_unclaimed_rows_are_zero_and_autograd_adds_to_claimed_ones() -> None:
    buffer = opened(5, 2)
    rows = buffer.claim(slice(1, 3))
    assert rows is not None
    rows.fill_(2.0)
    assert buffer.close(torch.ones(5, 2))
    assert buffer.memory[:, 0].tolist() == [1.0, 3.0, 3.0, 1.0, 1.0]
    buffer.open()
    assert buffer.close(None)
    assert not buffer.memory.any()


def test_the_whole_of_what_autograd_brought_is_left_to_the_caller() -> None:
    buffer = opened(5, 2)
    assert not buffer.close(torch.ones(5, 2))
    assert (buffer.memory == 7.0).all()


@pytest.mark.parametrize("shape", [(), (3,), (2, 3)])
def test_it_is_an_attribute_of_its_parameter(shape: tuple[int, ...]) -> None:
    parameter = torch.nn.Parameter(torch.zeros(shape))
    assert grad_buffer(parameter) is grad_buffer(None) is None
    buffer = attach_buffer(parameter, torch.zeros(shape))
    assert grad_buffer(parameter) is buffer
    assert grad_buffer(parameter.detach()) is None
    buffer.open()
    assert claim(buffer, None) is not None
    assert claim(None, None) is None
