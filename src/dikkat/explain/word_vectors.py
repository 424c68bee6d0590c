"""Read words and their vectors as a user types them: built-in examples, options, or a small file."""

import math
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dikkat.explain.trace import Array, Cell, find_query
from dikkat_runtime.errors import DataError, UsageError, msg
from dikkat_runtime.text.foreign_json import shown
from dikkat_runtime.text.text_files import read_lines

Vectors = NDArray[np.floating[Any]]

_HELLO = {"hello": (0.34, 0.22, 0.54), "shiny": (0.53, 0.34, 0.98), "sun": (0.29, 0.54, 0.93)}
_JOURNEY = {
    "your": (0.43, 0.15, 0.89),
    "journey": (0.55, 0.87, 0.66),
    "starts": (0.57, 0.85, 0.64),
    "with": (0.22, 0.58, 0.33),
    "one": (0.77, 0.25, 0.10),
    "step": (0.05, 0.80, 0.55),
}
BUILT_IN: Mapping[str, tuple[float, ...]] = {**_HELLO, **_JOURNEY}
"""Vectors of the two textbook sentences (Raschka 2024, chapter 3, and its Turkish retelling), lower-cased words."""
_DEFAULT_QUERIES = ("shiny", "journey")
_MAX_NAMED = 20
"""Words or numbers that a message lists."""


@dataclass(frozen=True, slots=True, eq=False)
class WordVectors:
    """Hold the words of a sentence with their vectors."""

    sentence: str
    words: tuple[str, ...]
    vectors: Array
    """(S, K), one row a word."""
    left_out: tuple[str, ...]
    """Punctuation marks of the sentence that have no vector (fault F23)."""

    def cell(self, query: str | None = None, beta: float = 1.0) -> Cell:
        """Return the cell in which `query` attends to every word; each word is query, key and value.

        `query` is a word, or a number from 1; by default it is the textbook's own, else the first word. Raises
        `UsageError` for an unknown one.
        """
        if query is None:
            known = [word.casefold() for word in self.words]
            index = next((known.index(word) for word in _DEFAULT_QUERIES if word in known), 0)
        else:
            index = find_query(query, self.words)
        vectors = self.vectors
        return Cell(index + 1, self.words[index], self.words, vectors[index], vectors, vectors, beta)


def split_words(sentence: str) -> list[str]:
    """Return words (Unicode form NFC) and the marks around them. Raises `DataError` when there is none, or no text."""
    if any("\ud800" <= character <= "\udfff" for character in sentence):
        raise DataError("{text}: not text: it holds half of a surrogate pair", shown(repr(sentence)))
    tokens = [token for chunk in unicodedata.normalize("NFC", sentence).split() for token in _peeled(chunk)]
    if not tokens:
        raise DataError("there is nothing to attend to in an empty sentence; give a few words")
    return tokens


def typed_vectors(sentence: str, typed: Sequence[str]) -> WordVectors:
    """Pair the words of `sentence` with vectors typed in their order; punctuation may go without.

    Raises `UsageError` when their number does not fit, or they are not of one width.
    """
    tokens = split_words(sentence)
    words = [token for token in tokens if _is_word(token)]
    if len(typed) not in (len(words), len(tokens)):
        raise UsageError("there are {count} words ({words}), but {vectors} of --vector; give one vector per word").fill(
            len(words), shown(" ".join(words)), len(typed)
        )
    named = tokens if len(typed) == len(tokens) else words
    vectors = [parse_vector(text, f"--vector {number}") for number, text in enumerate(typed, start=1)]
    left_out = () if named is tokens else tuple(token for token in tokens if not _is_word(token))
    return WordVectors(" ".join(sentence.split()), tuple(named), _stacked(named, vectors), left_out)


def known_vectors(sentence: str, path: Path | None = None) -> WordVectors:
    """Look the words of `sentence` up in a file (lines of word, tab, numbers), or in the built-in ones.

    Raises `UsageError` for a word without vector or for unequal widths, `DataError` or `MissingInputError` for the
    file.
    """
    tokens = split_words(sentence)
    table = BUILT_IN if path is None else read_vectors(path)
    keys = [token.casefold() if path is None else token for token in tokens]
    named = [(token, table[key]) for token, key in zip(tokens, keys, strict=True) if key in table]
    missing = [token for token, key in zip(tokens, keys, strict=True) if key not in table]
    words_without_vector = [token for token in missing if _is_word(token)]
    if words_without_vector or not named:
        raise UsageError(_no_vector(words_without_vector or missing, path))
    words = [token for token, _ in named]
    return WordVectors(
        " ".join(sentence.split()), tuple(words), _stacked(words, [vector for _, vector in named]), tuple(missing)
    )


def read_vectors(path: Path) -> dict[str, tuple[float, ...]]:
    """Read word vectors from lines of word, tab, numbers."""
    table: dict[str, tuple[float, ...]] = {}
    for number, line in enumerate(read_lines(path), start=1):
        if not line.strip():
            continue
        where, (word, tab, numbers) = f"{path}:{number}", line.partition("\t")
        word = unicodedata.normalize("NFC", word.strip())
        if not tab or not word:
            raise DataError("{where}: a line is a word, a tab and its numbers, as in sun, tab, 0.29 0.54 0.93", where)
        if word in table:
            raise DataError('{where}: "{word}" has a vector already; keep one of the two', where, word)
        table[word] = parse_vector(numbers, where, DataError)
    return table


def parse_vector(text: str, where: str, error: type[DataError | UsageError] = UsageError) -> tuple[float, ...]:
    """Parse numbers with a decimal point, separated by spaces, or by commas with a space after them.

    "[…]" may stand around them.
    """
    parts = re.split(r",?\s+", text.strip().removeprefix("[").removesuffix("]").strip())
    try:
        vector = tuple(map(float, parts))
    except ValueError:
        vector = ()
    if not vector or not all(map(math.isfinite, vector)):
        raise error(
            msg('{where}: "{text}" is not a vector; write finite numbers with spaces between, as in 0.1 0.2 0.3').fill(
                where, shown(" ".join(parts[:_MAX_NAMED]))
            )
        )
    return vector


def _stacked(words: Sequence[str], vectors: Sequence[tuple[float, ...]]) -> Array:
    for word, vector in zip(words, vectors, strict=True):
        if len(vector) != len(vectors[0]):
            raise UsageError(
                'vectors must have one width, but "{first}" has {first_width} numbers and "{second}" has {second_width}'
            ).fill(words[0], len(vectors[0]), word, len(vector))
    return np.array(vectors, dtype=np.float64)


def _no_vector(words: Sequence[str], path: Path | None) -> str:
    names = ", ".join(f'"{shown(word)}"' for word in words[:_MAX_NAMED]) + (" …" if len(words) > _MAX_NAMED else "")
    if path is not None:
        return msg("{path}: no vector for {words}; add a line for it", path, names)
    return msg(
        'no vector for {words}: give each word one with --vector "0.1 0.2 0.3", or all with --vectors FILE', names
    )


def _peeled(chunk: str) -> Iterator[str]:
    """The marks before a word one by one, the word with all inside it ("don't"), the marks after it."""
    words = [index for index, character in enumerate(chunk) if not _is_mark(character)]
    first, last = (words[0], words[-1] + 1) if words else (len(chunk), len(chunk))
    yield from chunk[:first]
    if words:
        yield chunk[first:last]
    yield from chunk[last:]


def _is_mark(character: str) -> bool:
    return unicodedata.category(character)[0] in "PS"


def _is_word(token: str) -> bool:
    return not all(map(_is_mark, token))


# Show many vectors: nearest neighbours, and the plane of largest variance.


_ROWS_AT_ONCE = 1024


def nearest_neighbours(vectors: Vectors, count: int) -> list[list[tuple[int, float]]]:
    """Return for each row of (N, D) the `count` rows of largest cosine, best first; the earlier row wins a tie.

    No row is its own neighbour. A row of zeros has no direction: it has no neighbours and is none.
    """
    directions = unit_rows(vectors)
    real = np.abs(directions).max(axis=1, initial=0.0) > 0.0
    neighbours: list[list[tuple[int, float]]] = []
    for start in range(0, len(directions), _ROWS_AT_ONCE):
        # (rows, D) x (D, N) -> (rows, N)
        cosines = directions[start : start + _ROWS_AT_ONCE] @ directions.T
        cosines[:, ~real] = -np.inf
        for row, line in enumerate(cosines, start=start):
            line[row] = -np.inf
            best = np.argsort(-line, kind="stable")[:count]
            neighbours.append(
                [(int(index), float(line[index])) for index in best if real[row] and line[index] > -np.inf]
            )
    return neighbours


def unit_rows(vectors: Vectors) -> NDArray[np.float64]:
    """Return each row divided by its length; a row of zeros stays."""
    exact = np.asarray(vectors, dtype=np.float64)
    lengths = np.linalg.norm(exact, axis=1, keepdims=True)
    return exact / np.where(lengths > 0.0, lengths, 1.0)


def principal_plane(vectors: Vectors) -> tuple[NDArray[np.float64], float]:
    """Return coordinates (N, 2) in the plane of largest variance (Pearson 1901), and its share of the variance.

    The sign of an axis is that which makes its largest coordinate positive, so that a picture does not flip.
    """
    centred = np.asarray(vectors, dtype=np.float64)
    centred = centred - centred.mean(axis=0)
    left, singular, _ = np.linalg.svd(centred, full_matrices=False)
    coordinates = np.zeros((len(centred), 2))
    dimensions = min(2, len(singular))
    coordinates[:, :dimensions] = left[:, :dimensions] * singular[:dimensions]
    largest = coordinates[np.abs(coordinates).argmax(axis=0), [0, 1]]
    total = float((singular**2).sum())
    share = float((singular[:2] ** 2).sum()) / total if total > 0.0 else 1.0
    return coordinates * np.where(largest < 0.0, -1.0, 1.0), share
