"""Recognise files that are no plain text by their beginning, with advice for each kind."""

from __future__ import annotations

import re
from collections.abc import Sequence

from dikkat_runtime.messages import msg

_SAVE_AS_TEXT = msg("save its text as UTF-8 (.txt)")
_UNPACK = msg("unpack it first")
_EXPORT = msg("export it as .tsv, .csv or .jsonl")
_NO_TEXT = msg("it holds no text")

# how the first line of such a file begins
_MAGIC: tuple[tuple[bytes, str, str], ...] = (
    (
        b"version https://git-lfs.github.com/spec/",
        msg("a pointer of Git LFS"),
        msg("fetch the file itself with git lfs pull"),
    ),
    (b"%PDF-", msg("a PDF document"), _SAVE_AS_TEXT),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", msg("a document of an old Word, Excel or PowerPoint"), _SAVE_AS_TEXT),
    (b"{\\rtf1", msg("an RTF document"), _SAVE_AS_TEXT),
    (b"SQLite format 3\0", msg("an SQLite database"), _EXPORT),
    (b"PAR1", msg("a Parquet table"), msg("give it a name that ends in .parquet")),
    (b"ARROW1\0\0", msg("an Arrow table"), _EXPORT),
    (b"\x89HDF\r", msg("an HDF5 file"), _EXPORT),
    (b"\x93NUMPY", msg("a NumPy array"), _EXPORT),
    (b"\x80\x04\x95", msg("a Python pickle"), _EXPORT),
    (b"\xde\x12\x04\x95", msg("a compiled gettext catalog (.mo)"), msg("turn it into a .po with msgunfmt")),
    (b"\x95\x04\x12\xde", msg("a compiled gettext catalog (.mo)"), msg("turn it into a .po with msgunfmt")),
    (b"\x1f\x8b", msg("packed with gzip"), _UNPACK),
    (b"BZh", msg("packed with bzip2"), _UNPACK),
    (b"\xfd7zXZ\0", msg("packed with xz"), _UNPACK),
    (b"\x28\xb5\x2f\xfd", msg("packed with zstd"), msg("pip install pyarrow, which unpacks it, or use zstd -d")),
    (b"PK\x03\x04", msg("a zip archive"), _UNPACK),
    (b"PK\x05\x06", msg("an empty zip archive"), _UNPACK),
    (b"7z\xbc\xaf\x27\x1c", msg("a 7-Zip archive"), _UNPACK),
    (b"Rar!\x1a\x07", msg("a RAR archive"), _UNPACK),
    (b"\x89PNG\r", msg("an image (PNG)"), _NO_TEXT),
    (b"\xff\xd8\xff", msg("an image (JPEG)"), _NO_TEXT),
    (b"GIF87a", msg("an image (GIF)"), _NO_TEXT),
    (b"GIF89a", msg("an image (GIF)"), _NO_TEXT),
    (b"II*\0", msg("an image (TIFF)"), _NO_TEXT),
    (b"MM\0*", msg("an image (TIFF)"), _NO_TEXT),
    (b"OggS\0", msg("sound (Ogg)"), _NO_TEXT),
    (b"fLaC\0", msg("sound (FLAC)"), _NO_TEXT),
    (b"ID3\x03\0", msg("sound (MP3)"), _NO_TEXT),
    (b"ID3\x04\0", msg("sound (MP3)"), _NO_TEXT),
    (b"\x7fELF", "a program", _NO_TEXT),
    (b"MZ\x90\0", "a program", _NO_TEXT),
)
_SUFFIXES = {
    **dict.fromkeys(
        (".xlsx", ".xls", ".xlsm", ".ods", ".numbers"), msg("a spreadsheet; {export} (CSV UTF-8)").fill(_EXPORT)
    ),
    **dict.fromkeys(
        (".arrow", ".feather", ".sqlite", ".db"), msg("a table in a binary format; {export}").fill(_EXPORT)
    ),
    **dict.fromkeys(
        (".doc", ".odt", ".rtf", ".pdf", ".epub", ".pptx"), msg("a document; {save_as_text}").fill(_SAVE_AS_TEXT)
    ),
    **dict.fromkeys(
        (".html", ".htm", ".docx"), msg("a document; name its translation right after it, or save its text")
    ),
    ".json": msg("a JSON document; write it as .jsonl, an object a line"),
    **dict.fromkeys((".srt", ".vtt"), msg("subtitles; name their translation right after them")),
}
"""Kind of file that a suffix stands for, with advice."""
_BZIP2 = re.compile(rb"BZh[1-9](?:1AY&SY|\x17\x72\x45\x38\x50\x90)")
_LOOKED_AT = 4096
_CONTROLS = bytes(code for code in range(32) if code not in b"\t\n\f\r\x1b")
_BINARY_SHARE = 0.1

_XML_ROOT = re.compile(r"<(?:\w+:)?([A-Za-z]\w*)")
_XML_KINDS = {
    "tmx": (msg("a translation memory (.tmx)"), msg("give it alone: its segments are pairs")),
    "xliff": (msg("an XLIFF file (.xlf)"), msg("export its segments as .tsv, or as .tmx or .po")),
    "html": (msg("an HTML page"), msg("save its text, a sentence a line")),
    "TS": (msg("a Qt translation file (.ts)"), msg("turn it into a .po with lconvert")),
    "resources": (msg("Android strings (.xml)"), msg("export them as .tsv")),
}
_XML = (msg("an XML file"), msg("export its texts as .tsv, or a sentence a line"))


def binary_kind(begin: bytes) -> str | None:
    """Return the kind of a binary file that begins with the bytes `begin`, with advice; None for text."""
    for magic, kind, advice in _MAGIC:
        if begin.startswith(magic) and (magic != b"BZh" or _BZIP2.match(begin)):
            return msg("{kind}, not text; {advice}").fill(kind, advice)
    if begin[257:262] == b"ustar":
        return msg("a tar archive, not text; {unpack}").fill(_UNPACK)
    if begin[:4] == b"RIFF" and begin[8:12] in (b"WEBP", b"WAVE", b"AVI "):
        return msg("sound or an image (RIFF), not text; {no_text}").fill(_NO_TEXT)
    if begin[4:8] == b"ftyp":
        return msg("a video or sound (MP4), not text; {no_text}").fill(_NO_TEXT)
    some = begin[:_LOOKED_AT]
    if (
        b"\0" in some
        and not is_utf16(some)
        and len(some) - len(some.translate(None, _CONTROLS)) > _BINARY_SHARE * len(some)
    ):
        return msg("binary data, not text; {save_as_text}").fill(_SAVE_AS_TEXT)
    return None


def named_kind(suffix: str) -> str | None:
    """Return the kind of a file whose name ends in `suffix`, with advice; None if it can be read as text."""
    return _SUFFIXES.get(suffix)


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
    return msg("{kind}, not lines of text; {advice}").fill(kind, advice)
