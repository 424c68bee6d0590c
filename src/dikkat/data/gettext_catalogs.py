"""Read English messages and their translations from the gettext catalogs (`*.mo`) of installed programs.

What is in a catalog is not yet text: plural forms, contexts, mnemonics (`_File`), markup and hard line breaks are taken
apart here. Placeholders (`%s`, `%1$s`, `{name}`) stay, since a translator of such messages has to carry them over.
"""

import html
import logging
import os
import re
import struct
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from dikkat.data.pairs import Pair
from dikkat_runtime.documents.messages import WRAPPED, PluralRule
from dikkat_runtime.documents.po import charset_of_catalog, parse_mo
from dikkat_runtime.errors import DataError, MissingInputError, UsageError, msg, nearest
from dikkat_runtime.text.text_files import require_charset

_log = logging.getLogger(__name__)

_LANGUAGE = re.compile(r"[A-Za-z]{2,3}(?:[_-][A-Za-z0-9]+)*(?:@[A-Za-z]+)?")
_LISTED_LANGUAGES = 40


class Message(NamedTuple):
    """Hold one entry as it stands in a catalog: singular and plural of the source, all forms of the translation."""

    sources: list[str]
    targets: list[str]


def read_catalogs(language: str, roots: Sequence[Path] | None = None) -> Iterator[Pair]:
    """Yield pairs of English and `language` from all catalogs under `roots` (by default the system's locale folders).

    `fr` takes the folders `fr` and `fr_FR`; another region is taken only when named (`fr_CA`). Each pair comes once.
    A catalog that cannot be read is left out, and their number is logged as a warning.
    Raises `UsageError` at once for what is not language code, and `MissingInputError` for one without catalogs.
    """
    if not _LANGUAGE.fullmatch(language):
        raise UsageError('"{language}" is not a language code; write it like fr, tr or pt_BR', language)
    folders = list(_system_roots() if roots is None else roots)
    catalogs = _find(language, folders)
    if not catalogs:
        raise MissingInputError(_no_catalogs(language, folders))
    return _pairs(catalogs)


def _system_roots() -> Iterator[Path]:
    """Where programs look for their own translations, the user's own folders first."""
    if own := os.environ.get("TEXTDOMAINDIR"):
        yield Path(own)
    data_folders = [
        os.environ.get("XDG_DATA_HOME") or os.path.expanduser("~/.local/share"),
        *(os.environ.get("XDG_DATA_DIRS") or "/usr/local/share:/usr/share").split(":"),
        # Set or not, these two are where a system's own packages put theirs.
        *("/usr/local/share", "/usr/share"),
        os.path.join(sys.prefix, "share"),
    ]
    for folder in dict.fromkeys(data_folders):
        yield Path(folder, "locale")
        yield Path(folder, "locale-langpack")  # Ubuntu's language packs


def _find(language: str, roots: Sequence[Path]) -> list[Path]:
    """Catalogs of a language, each file once however many links lead to it."""
    wanted = language.lower().replace("-", "_")
    names = {wanted, f"{wanted}_{wanted}"}
    catalogs = (catalog for root in roots for folder in _folders(root, names) for catalog in _catalogs(folder))
    return list({catalog.resolve(): catalog for catalog in catalogs}.values())


def _folders(root: Path, names: set[str] | None = None) -> list[Path]:
    """Language folders under a root, of these names (lower case, without encoding) or all."""
    try:
        return sorted(entry for entry in root.iterdir() if names is None or _language_of(entry).lower() in names)
    except OSError:  # most systems lack some of the roots
        return []


def _language_of(folder: Path) -> str:
    """Language of a locale folder: `fr_FR.UTF-8` is `fr_FR`."""
    return re.sub(r"\.[^@]*", "", folder.name)


def _catalogs(folder: Path) -> list[Path]:
    return sorted((folder / "LC_MESSAGES").glob("*.mo"))


def _no_catalogs(language: str, roots: Sequence[Path]) -> str:
    counts = Counter({_language_of(f): len(_catalogs(f)) for root in roots for f in _folders(root) if _catalogs(f)})
    if not counts:
        return msg(
            "no translation catalogs (*.mo) on this computer; looked in {folders}; give files of your own instead"
        ).fill(", ".join(str(root) for root in roots))
    most = sorted(name for name, _ in counts.most_common(_LISTED_LANGUAGES))
    rest = msg(" and {count} more", len(counts) - len(most)) if len(counts) > len(most) else ""
    return msg('no translation catalogs for "{language}"{nearest}; there are: {known}{more}').fill(
        language, nearest(language, counts), ", ".join(most), rest
    )


def _pairs(catalogs: Sequence[Path]) -> Iterator[Pair]:
    seen: set[tuple[str, str]] = set()
    broken: list[str] = []
    for catalog in catalogs:
        try:
            messages, forms = read_catalog(catalog.read_bytes(), str(catalog))
        except (OSError, ValueError, DataError) as error:
            broken.append(f"{catalog} ({error})")
            continue
        for message in messages:
            for pair in align(message, forms):
                if pair not in seen:
                    seen.add(pair)
                    yield Pair(*pair, len(seen))
    if broken:
        _log.warning("%d of %d catalogs cannot be read and are left out: %s", len(broken), len(catalogs), broken[0])


def read_catalog(content: bytes, name: str) -> tuple[list[Message], tuple[int, int]]:
    """Messages of a compiled catalog, and which of its plural forms stand for one and for many.

    Raises `ValueError` when it is damaged, and `DataError` where its charset is unknown.
    """
    try:
        _, entries = parse_mo(content)
    except struct.error as error:
        raise ValueError(str(error)) from None
    header = entries.pop(b"", b"")
    charset = require_charset(charset_of_catalog(header) or "utf-8", name)
    messages = [
        # What is before \4 is a context for the translator, no text.
        Message(source.decode(charset).rpartition("\4")[2].split("\0"), target.decode(charset).split("\0"))
        for source, target in entries.items()
    ]
    rule = PluralRule.of(stated := header.decode("latin-1"))
    if not rule.is_known and re.search(r"plural\s*=", stated):
        raise ValueError("its rule for plural forms cannot be read")
    return messages, (rule.singular or 0, rule.many)


def align(message: Message, forms: tuple[int, int]) -> Iterator[tuple[str, str]]:
    """Yield the pairs of lines of a message: the singular with the form of 1, the plural with the form of many."""
    if len(message.sources) == 1:
        yield from _align_lines(message.sources[0], message.targets[0])
        return
    for source, form in zip(message.sources, forms, strict=False):
        if form < len(message.targets):
            yield from _align_lines(source, message.targets[form])


def _align_lines(source: str, target: str) -> Iterator[tuple[str, str]]:
    """Pairs of lines where line answers line, else all lines as one pair; nothing for what is not translated."""
    ours, theirs = _lines(source), _lines(target)
    if len(ours) > 1 and [*map(_anchors, ours)] != [*map(_anchors, theirs)]:
        ours, theirs = [" ".join(filter(None, ours))], [" ".join(filter(None, theirs))]
    elif len(ours) != len(theirs):
        theirs = [" ".join(filter(None, theirs))]
    for pair in zip(ours, theirs, strict=True):
        ours_plain, theirs_plain = _without_mnemonics(*pair)
        is_translated = ours_plain.casefold() != theirs_plain.casefold()
        if is_translated and _has_words(ours_plain) and _has_words(theirs_plain):
            yield ours_plain, theirs_plain


_ANCHOR = re.compile(r"%(?:\d+\$)?[-+ #0*\d.]*[hlzjtq]*([a-zA-Z])|^(--?\w[\w-]*)")


def _anchors(line: str) -> tuple[bool, list[tuple[str, str]]]:
    """What the same line of a translation must share: whether it is empty, its placeholders, an option at its start."""
    return bool(line), sorted(_ANCHOR.findall(line))


def _has_words(text: str) -> bool:
    """Whether anything but placeholders and signs is in a text."""
    return any(map(str.isalpha, _ANCHOR.sub("", text)))


_BLANKS = re.compile(r"[ \t\r\f\v]+")
# Only tags that format: in "git add <file>" the brackets hold a name that is translated.
_TAGS = re.compile(
    r"</?(?:a|b|big|br|code|em|h[1-6]|i|li|markup|ol|p|s|small|span|strong|sub|sup|tt|u|ul)(?:\s[^<>]*)?/?>", re.I
)
_ENTITIES = re.compile(r"&(?:amp|lt|gt|quot|apos|nbsp|#\d+);")


def _lines(text: str) -> list[str]:
    """Lines without markup and indentation, the sentences that are broken over several lines put together."""
    if "\n" in text:
        text = WRAPPED.sub(" ", text.strip())
    if "<" in text:
        text = _TAGS.sub("", text)
    if "&" in text:
        text = _ENTITIES.sub(lambda entity: html.unescape(entity[0]), text)
    return [_BLANKS.sub(" ", line).strip() for line in text.split("\n")]


_ANY_MARK = re.compile(r"[_&](?=[^\W_])")
# Before a word, or within a plain word that ends a label: not in the names md_atof(), .debug_info and PAGE_WIDTH.
_MARK_BEFORE_WORD = re.compile(r"(?<!\S)[_&](?=[^\W_])")
_MARK_IN_WORD = re.compile(r"(?<!\S)[^\W\d_]+[_&][a-z][^\W\d_]*[:…?.]*(?!\S)")
_APPENDED_MARK = re.compile(r"\s?\([_&]\w\)")
_LABEL_WORDS = 6


def _without_mnemonics(source: str, target: str) -> tuple[str, str]:
    """Take the mark of the shortcut key out of a short label that has one: `E_xit`, `開く(_O)`."""
    ours, theirs = _ANY_MARK.findall(source), _ANY_MARK.findall(target)
    if len(ours) != 1 or len(theirs) > 1 or source.count(" ") >= _LABEL_WORDS:
        return source, target
    before = _MARK_BEFORE_WORD.search(source)
    within = theirs and source[0].isupper() and _MARK_IN_WORD.search(source)
    marked = next(word for word in source.split() if _ANY_MARK.search(word))
    if not (before or within) or marked in target:
        return source, target
    return _ANY_MARK.sub("", source), _ANY_MARK.sub("", _APPENDED_MARK.sub("", target))
