"""Recognise files that are not plain text by their beginning, with advice for each kind."""

import re
from collections.abc import Sequence

from dikkat_runtime.errors import msg

_SAVE_AS_TEXT = "save its text as UTF-8 (.txt)"
_UNPACK = "unpack it first"
_EXPORT = "export it as .tsv, .csv or .jsonl"
_NO_TEXT = "it holds no text"
GIT_LFS = b"version https://git-lfs.github.com/spec/"

# how the first line of such a file begins
_MAGIC: tuple[tuple[bytes, str, str], ...] = (
    (GIT_LFS, "a pointer of Git LFS", "fetch the file itself with git lfs pull"),
    (b"%PDF-", "a PDF document", msg(_SAVE_AS_TEXT)),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an old Word, Excel or PowerPoint document", msg(_SAVE_AS_TEXT)),
    (b"{\\rtf1", "an RTF document", msg(_SAVE_AS_TEXT)),
    (b"SQLite format 3\0", "an SQLite database", msg(_EXPORT)),
    (b"PAR1", "a Parquet table", "give it a name that ends in .parquet"),
    (b"ARROW1\0\0", "an Arrow table", msg(_EXPORT)),
    (b"\x89HDF\r", "an HDF5 file", msg(_EXPORT)),
    (b"\x93NUMPY", "a NumPy array", msg(_EXPORT)),
    (b"\x80\x04\x95", "a Python pickle", msg(_EXPORT)),
    (b"\xde\x12\x04\x95", "a compiled gettext catalog (.mo)", "turn it into a .po with msgunfmt"),
    (b"\x95\x04\x12\xde", "a compiled gettext catalog (.mo)", "turn it into a .po with msgunfmt"),
    (b"\x1f\x8b", "compressed with gzip", _UNPACK),
    (b"BZh", "compressed with bzip2", _UNPACK),
    (b"\xfd7zXZ\0", "compressed with xz", _UNPACK),
    (b"\x28\xb5\x2f\xfd", "compressed with zstd", "pip install pyarrow, which unpacks it, or use zstd -d"),
    (b"PK\x03\x04", "a zip archive", _UNPACK),
    (b"PK\x05\x06", "an empty zip archive", _UNPACK),
    (b"7z\xbc\xaf\x27\x1c", "a 7-Zip archive", _UNPACK),
    (b"Rar!\x1a\x07", "a RAR archive", _UNPACK),
    (b"\x89PNG\r", "an image (PNG)", _NO_TEXT),
    (b"\xff\xd8\xff", "an image (JPEG)", _NO_TEXT),
    (b"GIF87a", "an image (GIF)", _NO_TEXT),
    (b"GIF89a", "an image (GIF)", _NO_TEXT),
    (b"II*\0", "an image (TIFF)", _NO_TEXT),
    (b"MM\0*", "an image (TIFF)", _NO_TEXT),
    (b"OggS\0", "sound (Ogg)", _NO_TEXT),
    (b"fLaC\0", "sound (FLAC)", _NO_TEXT),
    (b"ID3\x03\0", "sound (MP3)", _NO_TEXT),
    (b"ID3\x04\0", "sound (MP3)", _NO_TEXT),
    (b"\x7fELF", "a program", _NO_TEXT),
    (b"MZ\x90\0", "a program", _NO_TEXT),
)
_TABLES, _DOCUMENTS = (".arrow", ".feather", ".sqlite", ".db"), (".doc", ".odt", ".rtf", ".pdf", ".epub", ".pptx")
_SHEETS = (".xlsx", ".xls", ".xlsm", ".ods", ".numbers")
_SUFFIXES = {
    **dict.fromkeys(_SHEETS, msg("a spreadsheet; {advice} (CSV UTF-8)", msg(_EXPORT))),
    **dict.fromkeys(_TABLES, msg("a table in a binary format; {advice}", msg(_EXPORT))),
    **dict.fromkeys(_DOCUMENTS, msg("a document; {advice}", msg(_SAVE_AS_TEXT))),
    **dict.fromkeys((".html", ".htm", ".docx"), "a document; name its translation right after it, or save its text"),
    ".json": "a JSON document; write it as .jsonl, an object a line",
    **dict.fromkeys((".srt", ".vtt"), "subtitles; name their translation right after them"),
}
"""Kind of file that a suffix stands for, with advice."""
_BZIP2 = re.compile(rb"BZh[1-9](?:1AY&SY|\x17\x72\x45\x38\x50\x90)")
_LOOKED_AT = 4096
_CONTROLS = bytes(code for code in range(32) if code not in b"\t\n\f\r\x1b")
_BINARY_SHARE = 0.1

_XML_ROOT = re.compile(r"<(?:\w+:)?([A-Za-z]\w*)")
_XML_KINDS = {
    "tmx": ("a translation memory (.tmx)", "give it alone: its segments are pairs"),
    "xliff": ("an XLIFF file (.xlf)", "export its segments as .tsv, or as .tmx or .po"),
    "html": ("an HTML page", "save its text, a sentence a line"),
    "TS": ("a Qt translation file (.ts)", "turn it into a .po with lconvert"),
    "resources": ("Android strings (.xml)", "export them as .tsv"),
}
_XML = ("an XML file", "export its texts as .tsv, or a sentence a line")


def binary_kind(begin: bytes) -> str | None:
    """Return the kind of a binary file that begins with the bytes `begin`, with advice; None for text."""
    for magic, kind, advice in _MAGIC:
        if begin.startswith(magic) and (magic != b"BZh" or _BZIP2.match(begin)):
            return msg("{kind}, not text; {advice}", msg(kind), msg(advice))
    if begin[257:262] == b"ustar":
        return msg("a tar archive, not text; {advice}", msg(_UNPACK))
    if begin[:4] == b"RIFF" and begin[8:12] in (b"WEBP", b"WAVE", b"AVI "):
        return msg("sound or an image (RIFF), not text; {advice}", msg(_NO_TEXT))
    if begin[4:8] == b"ftyp":
        return msg("a video or sound (MP4), not text; {advice}", msg(_NO_TEXT))
    some = begin[:_LOOKED_AT]
    num_controls = len(some) - len(some.translate(None, _CONTROLS))
    if b"\0" in some and not is_utf16(some) and num_controls > _BINARY_SHARE * len(some):
        return msg("binary data, not text; {advice}", msg(_SAVE_AS_TEXT))
    return None


def named_kind(suffix: str) -> str | None:
    """Return the kind of a file whose name ends in `suffix`, with advice; None if it can be read as text."""
    return msg(_SUFFIXES[suffix]) if suffix in _SUFFIXES else None


def is_utf16(raw: bytes) -> bool:
    """Return whether a line without a byte-order mark is UTF-16 of a script in which every second byte is 0."""
    zeros = raw.count(0)
    # a single one is a stray byte, but where it is the empty line of big-endian UTF-16
    if (zeros < 2 and raw != b"\0\n") or zeros * 4 < len(raw):
        return False
    at_even = raw[::2].count(0)
    return max(at_even, zeros - at_even) >= 0.8 * zeros


def markup_kind(lines: Sequence[str]) -> str | None:
    """Return the kind of a file that begins with `lines`, with advice, if its texts need another reader; else None."""
    first = next((line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")), "")
    if re.match(r'(?:msgid|msgctxt|msgstr|domain)\s+"', first):
        return msg("a gettext catalog (.po), not lines of text; give it alone: its messages are pairs")
    if not re.match(r"<(?:\?xml|!DOCTYPE|tmx\b|xliff\b|html\b|!--)", first, re.IGNORECASE):
        return None
    doctype = re.match(r"<!DOCTYPE\s+(\w+)", first, re.IGNORECASE)
    root = doctype or next(filter(None, (_XML_ROOT.search(line) for line in lines)), None)
    kinds = {name.casefold(): advice for name, advice in _XML_KINDS.items()}
    kind, advice = kinds.get(root[1].casefold() if root else "", _XML)
    return msg("{kind}, not lines of text; {advice}", msg(kind), msg(advice))
