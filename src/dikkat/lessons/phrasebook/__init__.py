"""The bundled corpus: English sentences with their French or Turkish translation, generated from a small grammar.

An abstract sentence (`grammar`) is drawn at random (`sampling`) from a lexicon of a few hundred words and said in each
language by its own rules (`english`, `french`, `turkish`), so that the English alone determines the translation. The
other way, from Turkish, some of it has to be guessed.
"""

from __future__ import annotations

from dikkat.data.lessons import PhrasebookSplit
from dikkat.lessons.phrasebook.generate import (
    MAX_PAIRS,
    PAIRS,
    languages_of_pair,
    phrasebook,
    phrasebook_split,
)

__all__ = ["MAX_PAIRS", "PAIRS", "PhrasebookSplit", "languages_of_pair", "phrasebook", "phrasebook_split"]
