"""Keep translations that a person has corrected next to a run, and return them when the same source comes again."""

import json
import unicodedata
from collections.abc import Iterable, Sequence
from pathlib import Path

from dikkat_runtime.errors import DataError, UsageError, unreadable
from dikkat_runtime.files import locked_run, read_regular, write_atomically
from dikkat_runtime.strict_json import parse_json

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
        entry = self._texts.get(_key(source))
        return None if entry is None else entry[1]

    def refresh(self) -> None:
        """Look whether something has changed, which never happens here."""


class Corrections(KnownTranslations):
    """The corrections of one run; entries that another process writes are read at the next refresh."""

    def __init__(self, run: Path) -> None:
        """Keep the corrections of the run directory `run`, in which no file has to exist yet."""
        self._run, self._path = run, run / FILE_NAME
        self._texts, self.kept = {}, []
        self._read_at: tuple[int, int, int] | None = None

    def __len__(self) -> int:
        return len(self._current())

    def refresh(self) -> None:
        """Read the file again where it has changed. Raises `DataError` where it is damaged, `MissingInputError`."""
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


class FixedCorrections(Corrections):
    """The corrections as they stood when this was made, whatever is corrected later."""

    def __init__(self, run: Path) -> None:
        """Read the corrections of the run directory `run`. Raises `DataError` where they are damaged."""
        super().__init__(run)
        super().refresh()

    def refresh(self) -> None:
        """Keep what was read."""


def _is_line(text: object) -> bool:
    return isinstance(text, str) and bool(text.strip()) and "\n" not in text and "\r" not in text


def _key(source: str) -> str:
    """Return a text in canonical white space and letter composition."""
    return " ".join(unicodedata.normalize("NFC", source).split())
