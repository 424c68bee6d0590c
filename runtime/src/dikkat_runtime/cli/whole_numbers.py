"""The whole numbers that options of the command line take."""

from __future__ import annotations

from argparse import ArgumentTypeError

from dikkat_runtime.engine.options import MAX_BEAMS
from dikkat_runtime.localization import localized
from dikkat_runtime.messages import msg


def at_least_one(text: str) -> int:
    """Return the number that a text spells. Raises `ArgumentTypeError` for anything below 1."""
    if not _spells_number(text) or int(text) < 1:
        raise ArgumentTypeError(localized(msg("must be a whole number of at least 1, not {text}").fill(repr(text))))
    return int(text)


def beam_size(text: str) -> int:
    """Return the size of a beam. Raises `ArgumentTypeError` outside 1 to `MAX_BEAMS`."""
    if not _spells_number(text) or not 1 <= int(text) <= MAX_BEAMS:
        raise ArgumentTypeError(
            localized(msg("must be a whole number from 1 to {max_beams}, not {text}").fill(MAX_BEAMS, repr(text)))
        )
    return int(text)


def _spells_number(text: str) -> bool:
    # Python refuses to read a number of more than 4,300 digits
    return text.isdecimal() and len(text) <= 20
