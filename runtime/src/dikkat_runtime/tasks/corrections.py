"""Keep translations that a person has corrected next to a run, and return them when the same source comes again."""

import json
import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from weakref import WeakKeyDictionary

import numpy as np

from dikkat_runtime.engine.contract import Engine
from dikkat_runtime.engine.forced_attention import forced_steps
from dikkat_runtime.engine.neighbours import Neighbours
from dikkat_runtime.errors import DataError, UsageError, unreadable
from dikkat_runtime.files import locked_run, read_regular, write_atomically
from dikkat_runtime.native.arrays import Array
from dikkat_runtime.run.strict_json import parse_json
from dikkat_runtime.tasks.batches import length_batches
from dikkat_runtime.tasks.reading import Reading
from dikkat_runtime.tasks.surrogates import fill
from dikkat_runtime.text.tokenizer import Tokenizer

FILE_NAME = "corrections.json"
MAX_FILE_SIZE = 256 << 20
"""Bytes."""
_PATIENCE = 10.0
"""Seconds that another process may hold the lock."""


class KnownTranslations:
    """Texts with translations that people made, as those of a translation memory."""

    def __init__(self, pairs: Iterable[tuple[str, str]] = ()) -> None:
        """Keep sources with their translations; of equal sources the last counts."""
        self._texts = {_key(source): (source, target) for source, target in pairs}
        """By the key of a source: the source as it was written, and its translation."""
        self.kept: Sequence[tuple[str, str]] = list(self._texts.values())
        """All pairs, as they were at the last look; the same list until they change."""

    def get(self, source: str) -> str | None:
        """Return the translation of a source, whatever its white space; None where there is none."""
        entry = self._texts.get(_key(source)) if self._texts else None
        return None if entry is None else entry[1]

    def refresh(self) -> None:
        """Look whether something has changed, which never happens here."""


class Corrections(KnownTranslations):
    """The corrections of one run; entries that another process writes are read at the next refresh."""

    def __init__(self, run: Path, *, is_fixed: bool = False) -> None:
        """Keep the corrections of the run directory `run`, in which no file has to exist yet.

        With `is_fixed` they stay as they stand now, whatever is corrected later; raises `DataError` as `refresh`.
        """
        self._run, self._path, self._is_fixed = run, run / FILE_NAME, False
        self._read_at: tuple[int, int, int] | None = None
        self._texts, self.kept = {}, []
        if is_fixed:
            self.refresh()
            self._is_fixed = True

    def __len__(self) -> int:
        return len(self._current())

    def refresh(self) -> None:
        """Read the file again where it has changed. Raises `DataError` where it is damaged, `MissingInputError`."""
        if self._is_fixed:
            return
        try:
            status = self._path.stat()
        except FileNotFoundError:
            self._read_at, self._texts, self.kept = None, {}, []
            return
        read_at = status.st_mtime_ns, status.st_size, status.st_ino
        if read_at != self._read_at:
            self._texts, self._read_at = self._read(), read_at
            self.kept = list(self._texts.values())

    def pairs(self) -> list[tuple[str, str]]:
        """Return all sources with their translations, the oldest first."""
        return list(self._current().values())

    def add(self, source: str, target: str) -> str | None:
        """Keep a correction; return the one whose place it takes, None where there was none. Raises as `add_all`."""
        return self.add_all([(source, target)])[0]

    def add_all(self, pairs: Sequence[tuple[str, str]]) -> list[str | None]:
        """Keep corrections, all or none; return for each the one whose place it takes.

        Raises `UsageError` for an empty text or more than one line, `CannotCreateError` and `DiskError`.
        """
        named = ((name, text) for pair in pairs for name, text in zip(("source", "target"), pair, strict=True))
        for name, text in named:
            if not _is_line(text):
                raise UsageError("the {name} of a correction must be one line of text, not {text}", name, repr(text))
        replaced = []
        with locked_run(self._run, _PATIENCE):
            texts = dict(self._current())
            for source, target in pairs:
                before = texts.pop(_key(source), None)
                replaced.append(None if before is None else before[1])
                texts[_key(source)] = (source.strip(), target.strip())
            self._write(texts)
        return replaced

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
        words = [_words(source) for source, _ in pairs]
        self._lengths = np.array([len(own) for own in words], np.int64)
        holders: dict[str, list[int]] = {}
        for number, own in enumerate(words):
            for word in own:
                holders.setdefault(word, []).append(number)
        self._holders = {word: np.array(numbers, np.int32) for word, numbers in holders.items()}

    def near(self, text: str) -> list[NearCorrection]:
        """Return the most similar corrections, the best first, of equals the newest."""
        words = _words(text)
        holders = [self._holders[word] for word in words if word in self._holders]
        if not holders:
            return []
        shared = np.bincount(np.concatenate(holders), minlength=len(self._lengths))
        numbers = np.flatnonzero((shared > 0) & (2 * shared >= MIN_SIMILARITY * (len(words) + self._lengths)))
        similarity = 2 * shared[numbers] / (len(words) + self._lengths[numbers])
        best = np.lexsort((-numbers, -similarity))[:MAX_NEAR]
        return [NearCorrection(*self._pairs[int(numbers[row])], float(similarity[row])) for row in best]


@dataclass(eq=False)
class CorrectionMemory:
    """Gives the decoder states of near corrections, which are computed once each.

    A source of more than `longest` tokens, which the model does not read in one piece, is left out.
    """

    engine: Engine
    tokenizers: tuple[Tokenizer, Tokenizer]
    languages: tuple[str, str]
    reading: Reading
    surrogates: Callable[[], Sequence[str]]
    longest: int
    _indices: WeakKeyDictionary[KnownTranslations, tuple[Sequence[tuple[str, str]], NearIndex]] = field(
        default_factory=WeakKeyDictionary
    )
    _states: dict[tuple[str, str], Neighbours] = field(default_factory=dict)

    def neighbours(self, known: Sequence[KnownTranslations], texts: Sequence[str]) -> list[Neighbours | None]:
        """Return for each text what was written in the corrections near it; None where there is none."""
        indices = [self._index_of(item) for item in known]
        every = ([item for index in indices for item in index.near(text)] for text in texts)
        best = [sorted(items, key=lambda item: -item.similarity)[:MAX_NEAR] for items in every]
        near = [[(item.source, item.target) for item in items] for items in best]
        self._read([pair for own in near for pair in own])
        states = [[self._states[pair] for pair in own if len(self._states[pair].tokens)] for own in near]
        return [_joined(own) if own else None for own in states]

    def _index_of(self, known: KnownTranslations) -> NearIndex:
        """Return the index of what is known, which is made once."""
        pairs, entry = known.kept, self._indices.get(known)
        if entry is None or entry[0] is not pairs:
            entry = pairs, NearIndex([(self.reading.plain(source), target) for source, target in pairs])
            self._indices[known] = entry
        return entry[1]

    def _read(self, pairs: Sequence[tuple[str, str]]) -> None:
        """Let the model read the corrections that it has not read yet."""
        if len(self._states) > MAX_KEPT:
            self._states = {pair: self._states[pair] for pair in pairs if pair in self._states}
        new = [pair for pair in dict.fromkeys(pairs) if pair not in self._states]
        filled = [self._filled(*pair) for pair in new]
        sources = self.tokenizers[0].encode_batch([source for source, _ in filled], self.languages[0])
        targets = self.tokenizers[1].encode_batch([target for _, target in filled], self.languages[1])
        # what is too long, or has no token in the vocabulary, is read by nobody
        nothing = Neighbours(np.zeros((0, 0), np.float32), np.zeros(0, np.int64))
        self._states |= dict.fromkeys(new, nothing)
        for batch in length_batches([len(ids) if len(ids) <= self.longest else 0 for ids in sources]):
            memory = self.engine.encode([sources[number] for number in batch])
            states: list[list[Array]] = [[] for _ in batch]
            tokens: list[list[int]] = [[] for _ in batch]
            for step in forced_steps(self.engine, memory, [targets[number] for number in batch], scored=False):
                for row, number, token in zip(step.steps.states(), step.targets, step.tokens.tolist(), strict=True):
                    states[number].append(row)
                    tokens[number].append(token)
            for number, own, following in zip(batch, states, tokens, strict=True):
                self._states[new[number]] = Neighbours(np.stack(own), np.array(following, np.int64))

    def _filled(self, source: str, target: str) -> tuple[str, str]:
        """Return a correction as sentences are read: no symbols, placeholders by names; empty in capitals or titles."""
        protected = self.reading.protected(source)
        text, manner = self.reading.piece(protected.text)
        if manner.case != "usual":
            return "", ""
        for symbol in protected.symbols:
            target = target.replace(symbol, "", 1).strip()
        filled = fill(text, self.surrogates() if protected.placeholders else ())
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
