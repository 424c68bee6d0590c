"""Keep translations that a person has corrected next to a run, and return them when the same source comes again."""

import json
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dikkat_runtime.engine.contract import Engine
from dikkat_runtime.engine.forced_attention import forced_steps
from dikkat_runtime.engine.neighbours import Neighbours
from dikkat_runtime.errors import DataError, UsageError, unreadable
from dikkat_runtime.files import locked_run, read_regular, write_atomically
from dikkat_runtime.native.arrays import Array
from dikkat_runtime.strict_json import parse_json
from dikkat_runtime.tasks.batches import length_batches
from dikkat_runtime.tasks.reading import Reading
from dikkat_runtime.tasks.surrogates import fill
from dikkat_runtime.text.tokenizer import Tokenizer

FILE_NAME = "corrections.json"
MAX_FILE_SIZE = 256 << 20
"""Bytes."""
_PATIENCE = 10.0
"""Seconds that another process may hold the lock."""


class Corrections:
    """The corrections of one run; entries that another process writes are read at the next refresh."""

    def __init__(self, run: Path, *, is_fixed: bool = False) -> None:
        """Keep the corrections of the run directory `run`, in which no file has to exist yet.

        With `is_fixed` they stay as they stand now, whatever is corrected later; raises `DataError` as `refresh`.
        """
        self._run, self._path, self._is_fixed = run, run / FILE_NAME, False
        self._read_at: tuple[int, int, int] | None = None
        self._pairs: list[tuple[str, str]] = []
        self._texts: dict[str, tuple[str, str]] = {}
        """By the key of a source: the source as it was written, and its translation."""
        if is_fixed:
            self.refresh()
            self._is_fixed = True

    def __len__(self) -> int:
        return len(self._current())

    def get(self, source: str) -> str | None:
        """Return the corrected translation of a source, whatever its white space; None where there is none."""
        entry = self._texts.get(_key(source))
        return None if entry is None else entry[1]

    def kept(self) -> Sequence[tuple[str, str]]:
        """Return what `pairs` does, as it was at the last look; the same list until the file changes."""
        return self._pairs

    def refresh(self) -> None:
        """Read the file again where it has changed. Raises `DataError` where it is damaged, `MissingInputError`."""
        if self._is_fixed:
            return
        try:
            status = self._path.stat()
        except FileNotFoundError:
            self._read_at, self._texts, self._pairs = None, {}, []
            return
        read_at = status.st_mtime_ns, status.st_size, status.st_ino
        if read_at != self._read_at:
            self._texts, self._read_at = self._read(), read_at
            self._pairs = list(self._texts.values())

    def pairs(self) -> list[tuple[str, str]]:
        """Return all sources with their translations, the oldest first."""
        return list(self._current().values())

    def add(self, source: str, target: str) -> str | None:
        """Keep a correction; return the one whose place it takes, None where there was none.

        Raises `UsageError` for an empty text or more than one line, `CannotCreateError` and `DiskError`.
        """
        for name, text in (("source", source), ("target", target)):
            if not _is_line(text):
                raise UsageError("the {name} of a correction must be one line of text, not {text}", name, repr(text))
        with locked_run(self._run, _PATIENCE):
            texts = dict(self._current())
            before = texts.pop(_key(source), None)
            texts[_key(source)] = (source.strip(), target.strip())
            self._write(texts)
        return None if before is None else before[1]

    def remove(self, source: str) -> None:
        """Forget the correction of a source. Raises `UsageError` where there is none."""
        with locked_run(self._run, _PATIENCE):
            texts = dict(self._current())
            if texts.pop(_key(source), None) is None:
                raise UsageError('{path}: has no correction of "{source}"', self._path, source)
            self._write(texts)

    def _current(self) -> dict[str, tuple[str, str]]:
        self.refresh()
        return self._texts

    def _read(self) -> dict[str, tuple[str, str]]:
        try:
            entries = parse_json(read_regular(self._path, MAX_FILE_SIZE))
            if not isinstance(entries, list):
                raise ValueError("it is not a list")
            pairs = [(entry["source"], entry["target"]) for entry in entries]
            if not all(_is_line(text) for pair in pairs for text in pair):
                raise ValueError("a source or a target is not one line of text")
        except OSError as error:
            raise unreadable(self._path, error) from None
        except (ValueError, TypeError, LookupError) as error:
            raise DataError("{path}: cannot be read ({error}); repair it, or remove it", self._path, error) from None
        return {_key(source): (source, target) for source, target in pairs}

    def _write(self, texts: dict[str, tuple[str, str]]) -> None:
        entries = [{"source": source, "target": target} for source, target in texts.values()]
        write_atomically(self._path, (json.dumps(entries, ensure_ascii=False, indent=1) + "\n").encode())
        self.refresh()


def _is_line(text: object) -> bool:
    return isinstance(text, str) and bool(text.strip()) and "\n" not in text and "\r" not in text


def _key(source: str) -> str:
    """Return a text in canonical white space and letter composition."""
    return " ".join(unicodedata.normalize("NFC", source).split())


MIN_SIMILARITY = 0.4
"""Dice coefficient of the words of two sentences from which on they are near."""
MAX_NEAR = 8
"""Corrections that one sentence looks at, the most similar ones."""
MAX_KEPT = 4096
"""Corrections whose states are kept for the next texts."""
_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class NearCorrection:
    """A correction and how similar its source is to a text, from 0 to 1."""

    source: str
    target: str
    similarity: float


class NearIndex:
    """Finds the corrections whose sources share words with a text."""

    def __init__(self, pairs: Sequence[tuple[str, str]]) -> None:
        """Index sources with their corrected translations."""
        self._pairs = list(pairs)
        self._words = [_words(source) for source, _ in pairs]
        self._holders: dict[str, list[int]] = {}
        for number, words in enumerate(self._words):
            for word in words:
                self._holders.setdefault(word, []).append(number)

    def near(self, text: str) -> list[NearCorrection]:
        """Return the most similar corrections, the best first, of equals the newest."""
        words = _words(text)
        shared = Counter(number for word in words for number in self._holders.get(word, ()))
        similar = [
            NearCorrection(*self._pairs[number], 2 * count / (len(words) + len(self._words[number])))
            for number, count in sorted(shared.items(), reverse=True)
            if 2 * count >= MIN_SIMILARITY * (len(words) + len(self._words[number]))
        ]
        return sorted(similar, key=lambda item: -item.similarity)[:MAX_NEAR]


class CorrectionMemory:
    """Gives the decoder states of near corrections, which are computed once each."""

    def __init__(
        self,
        engine: Engine,
        tokenizers: tuple[Tokenizer, Tokenizer],
        languages: tuple[str, str],
        reading: Reading,
        surrogates: Callable[[], Sequence[str]],
        longest: int,
    ) -> None:
        """`tokenizers` and `languages` are those of source and target; `surrogates` stand for placeholders.

        `reading` is the way in which the model reads text.

        A source of more than `longest` tokens, which the model does not read in one piece, is left out.
        """
        self._engine, self._tokenizers, self._languages = engine, tokenizers, languages
        self._reading, self._surrogates, self._longest = reading, surrogates, longest
        self._index: tuple[Sequence[tuple[str, str]], NearIndex] | None = None
        self._states: dict[tuple[str, str], Neighbours] = {}

    def neighbours(self, corrections: Corrections, texts: Sequence[str]) -> list[Neighbours | None]:
        """Return for each text what was written in the corrections near it; None where there is none."""
        pairs = corrections.kept()
        if self._index is None or self._index[0] is not pairs:
            self._index = pairs, NearIndex([(self._reading.plain(source), target) for source, target in pairs])
        index = self._index[1]
        near = [[(item.source, item.target) for item in index.near(text)] for text in texts]
        self._read([pair for own in near for pair in own])
        states = [[self._states[pair] for pair in own if len(self._states[pair].tokens)] for own in near]
        return [_joined(own) if own else None for own in states]

    def _read(self, pairs: Sequence[tuple[str, str]]) -> None:
        """Let the model read the corrections that it has not read yet."""
        if len(self._states) > MAX_KEPT:
            self._states = {pair: self._states[pair] for pair in pairs if pair in self._states}
        new = [pair for pair in dict.fromkeys(pairs) if pair not in self._states]
        filled = [self._filled(*pair) for pair in new]
        sources = self._tokenizers[0].encode_batch([source for source, _ in filled], self._languages[0])
        targets = self._tokenizers[1].encode_batch([target for _, target in filled], self._languages[1])
        # what is too long, or has no token in the vocabulary, is read by nobody
        nothing = Neighbours(np.zeros((0, 0), np.float32), np.zeros(0, np.int64))
        self._states |= dict.fromkeys(new, nothing)
        for batch in length_batches([len(ids) if len(ids) <= self._longest else 0 for ids in sources]):
            memory = self._engine.encode([sources[number] for number in batch])
            states: list[list[Array]] = [[] for _ in batch]
            tokens: list[list[int]] = [[] for _ in batch]
            for step in forced_steps(self._engine, memory, [targets[number] for number in batch]):
                for row, number, token in zip(step.steps.states(), step.targets, step.tokens.tolist(), strict=True):
                    states[number].append(row)
                    tokens[number].append(token)
            for number, own, following in zip(batch, states, tokens, strict=True):
                self._states[new[number]] = Neighbours(np.stack(own), np.array(following, np.int64))

    def _filled(self, source: str, target: str) -> tuple[str, str]:
        """Return a correction as sentences are read: without symbols, and with names in the place of placeholders.

        One in capitals or titles is empty, as a model does not write such.
        """
        protected = self._reading.protected(source)
        text, manner = self._reading.piece(protected.text)
        if manner.case != "usual":
            return "", ""
        for symbol in protected.symbols:
            target = target.replace(symbol, "", 1).strip()
        filled = fill(text, self._surrogates() if protected.placeholders else ())
        placeholder_of = {mark: placeholder for placeholder, mark in protected.names}
        for mark, name in filled.names:
            target = target.replace(placeholder_of[mark], name)
        return filled.text, target


def _joined(neighbours: Sequence[Neighbours]) -> Neighbours:
    return Neighbours(
        np.concatenate([item.states for item in neighbours]), np.concatenate([item.tokens for item in neighbours])
    )


def _words(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(text.casefold()))
