"""Read plain text: each line is a text, and all white space around it stays."""

import re

from dikkat_runtime.documents.decoded_file import DecodedFile, TextDocument
from dikkat_runtime.documents.segments import Options, Segment, replacement
from dikkat_runtime.text.placeholders import has_words

_LINE = re.compile(r"\S[^\r\n]*")


def read_text(data: bytes, name: str, options: Options) -> TextDocument:
    """Read the lines of a file that hold words."""
    file = DecodedFile.decode(data, name, language=options.source_language)
    segments = []
    for match in _LINE.finditer(file.text):
        text = match[0].rstrip()
        if has_words(text):
            edits = replacement(match.start(), match.start() + len(text), (text,), str)
            segments.append(Segment((text,), edits, file.line(match.start())))
    return TextDocument(file, segments, markup=False)
