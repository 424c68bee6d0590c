"""Shortlists: the words that a translation may consist of, by the pieces of its source."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dikkat_runtime.engine.settings import ModelSettings
from dikkat_runtime.errors import DataError, MissingInputError
from dikkat_runtime.native.arrays import Array
from dikkat_runtime.run.weights import read_arrays, read_checksum, read_note
from dikkat_runtime.special_tokens import EOS_ID

SHORTLIST = "shortlist.safetensors"
"""The file of a run that holds a shortlist; most runs have none."""
NAMED = "shortlist"
"""The key of config.json that names this file where the run was written with one."""
OWNER = "weights"
"""The note in it of the checksum of the weights that it is for."""


@dataclass(frozen=True, slots=True)
class Shortlist:
    """Hold for each piece of a source the words that it is often translated with (Jean et al. 2015, section 3)."""

    always: Array
    """Ids of the target that every translation may hold."""
    starts: Array
    """(V + 1,) of the source: the words of piece v are from `starts[v]` on."""
    words: Array
    """Ids of the target, one piece after the other."""

    def arrays(self) -> dict[str, Array]:
        return {"always": self.always, "starts": self.starts, "words": self.words}

    def of(self, source: Sequence[int]) -> Array:
        """Return the rising ids of the words that a translation of `source` may consist of, without padding and begin.

        The end marks of both sides count.
        """
        listed = [self.words[self.starts[piece] : self.starts[piece + 1]] for piece in {*source, EOS_ID}]
        return np.unique(np.concatenate([self.always, *listed]))


def read_shortlist(run: Path, config: Mapping[str, Any], settings: ModelSettings) -> Shortlist | None:
    """Return the shortlist of a run, whose config.json is `config`, or None where it has none.

    An older run has one without naming it. Raises `MissingInputError` for one that is named and not there, and
    `DataError` for one that is damaged, of other vocabularies, or of another model.
    """
    path, weights = run / SHORTLIST, run / "model.safetensors"
    # a link to nothing is not a run without a shortlist
    if not os.path.lexists(path):
        if NAMED not in config:
            return None
        raise MissingInputError(
            "{path}: is missing, but config.json names it; restore it (translate, translate-files and serve work "
            "without it: --all-words)"
        ).fill(path)
    arrays = read_arrays(path, "I32")
    if sorted(arrays) != ["always", "starts", "words"] or any(array.ndim != 1 for array in arrays.values()):
        raise DataError("{path}: damaged: not a shortlist; restore the file", path)
    always, starts, words = (arrays[name] for name in ("always", "starts", "words"))
    ids = np.concatenate([always, words])
    is_sound = (
        len(starts) == settings.vocab_size + 1
        and (starts[0], starts[-1]) == (0, len(words))
        and (np.diff(starts) >= 0).all()
        and EOS_ID in always
        and ids.min() >= EOS_ID
        and ids.max() < settings.output_size
    )
    if not is_sound:
        raise DataError("{path}: does not fit the vocabularies of {run}; restore the file", path, run / "config.json")
    if read_note(path, OWNER) != read_checksum(weights):
        raise DataError("{path}: belongs to other weights than {weights}; restore the file", path, weights)
    return Shortlist(always, starts, words)
