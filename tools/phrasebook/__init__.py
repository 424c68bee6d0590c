"""The generator of the bundled corpus: English sentences with their translation into French or Turkish.

An abstract sentence (`grammar`) is drawn at random (`sampling`) from a lexicon of a few hundred words and said in each
language by its own rules (`english`, `french`, `turkish`), so that the English alone determines the translation. The
other way, from Turkish, some of it has to be guessed. `python -m tools.phrasebook` writes what the package ships.
"""
