"""A change of the sources that breaks what a row of the seed checklist, or a test, describes."""

from __future__ import annotations

from typing import NamedTuple


class Mutation(NamedTuple):
    """`old` becomes `new` in `file`, and the behaviour of `row` is broken.

    `row` is a row of the checklist, whose tests must notice it, or one test, as path::name.
    """

    row: str
    file: str
    old: str
    new: str
