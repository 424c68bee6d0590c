"""How sentences are laid out in rows; what is computed of them is in `tests/unit/models/test_steps_in_tiles.py`."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from dikkat.native.encoder_by_torch import STEP, WIDTHS, laid_out


@settings(deadline=None, derandomize=True)
@given(st.lists(st.integers(1, 1100), min_size=1, max_size=40))
def test_each_sentence_lies_in_one_row_behind_the_one_before(lengths: list[int]) -> None:
    width, starts = laid_out(lengths)
    assert width in WIDTHS or (width % STEP == 0 and width > max(WIDTHS))
    ends = [start + length for start, length in zip(starts, lengths, strict=True)]
    assert all(start // width == (end - 1) // width for start, end in zip(starts, ends, strict=True))
    assert all(end <= start for end, start in zip(ends, starts[1:], strict=False))


def test_little_of_it_is_padding() -> None:
    """As far as the lengths of a sorted batch of captions allow."""
    lengths = [40] * 8 + [30] * 30 + [20] * 60 + [12] * 90 + [7] * 60
    width, starts = laid_out(lengths)
    assert starts[-1] + lengths[-1] <= 1.15 * sum(lengths)
    assert width <= 128


def test_a_row_that_has_one_long_sentence_has_no_other() -> None:
    width, starts = laid_out([600, 5, 513])
    assert (width, starts) == (768, [0, 768, 1536])
