"""The bundled corpus: English sentences with their French or Turkish translation, generated from a small grammar.

An abstract sentence (`grammar`) is drawn at random (`sampling`) from a lexicon of a few hundred words and said in each
language by its own rules (`english`, `french`, `turkish`), so that the English alone determines the translation.
"""

from __future__ import annotations

from dikkat.phrasebook.generate import MAX_PAIRS, Language, PhrasebookSplit, phrasebook, phrasebook_split

__all__ = ["MAX_PAIRS", "Language", "PhrasebookSplit", "phrasebook", "phrasebook_split"]
