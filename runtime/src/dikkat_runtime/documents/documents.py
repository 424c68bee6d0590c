"""Translate a whole file to the same file with its text translated."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from dikkat_runtime.documents.formats import require_format
from dikkat_runtime.documents.messages import icu_text
from dikkat_runtime.documents.segments import Content, Options, Tag, parted
from dikkat_runtime.documents.translation import Align, ContentTranslator, Translate
from dikkat_runtime.errors import msg, plural
from dikkat_runtime.text.sentences import split_sentences

NO_OPTIONS = Options()


@dataclass(frozen=True, slots=True)
class TranslatedDocument:
    """The written file, and notes on its translation."""

    data: bytes
    format: str
    num_segments: int
    remarks: Counter[str]

    def lines(self) -> list[str]:
        segments = plural(self.num_segments, "segment")
        notes: list[str] = [msg("{format}: translated {segments}", self.format, segments)]
        remarks = sorted(self.remarks.items())
        return [*notes, *(msg("{what}: {count:,}", what, count) for what, count in remarks if count)]


def translate_document(
    data: bytes, name: str, translate: Translate, *, align: Align | None = None, options: Options = NO_OPTIONS
) -> TranslatedDocument:
    """Translate the file `name` of these bytes.

    `translate` takes sentences and returns their translations, as many; `align` returns for a sentence and its
    translation which words belong together. Raises `DataError` for a damaged file and `UsageError` for one that is no
    document.
    """
    reader = require_format(name, data)
    document = reader.read(data, name, options)
    split = partial(split_sentences, language=options.source_language)
    translator = ContentTranslator(translate, align, split)
    parts = {segment.content: parted(segment.content, lambda tag: tag.parts_text) for segment in document.segments}
    distinct = list(dict.fromkeys(part for group in parts.values() for part in group))
    translated: dict[Content, Content] = dict(
        zip(distinct, translator(distinct, markup=document.markup) if distinct else (), strict=True)
    )
    results: Sequence[Content] = [
        _joined(segment.content, [translated[part] for part in parts[segment.content]]) for segment in document.segments
    ]
    written = document.write(results)
    return TranslatedDocument(written, reader.name, len(document.segments), document.remarks + translator.remarks)


def _joined(content: Content, parts: Sequence[Content]) -> Content:
    """Return the translations of the texts of a content with the tags that part them."""
    borders = [item for item in content if isinstance(item, Tag) and item.parts_text]
    if not borders:
        return parts[0]
    written = icu_text if any(set("{}") & set(border.markup) for border in borders) else str
    first, *others = (tuple(written(item) if isinstance(item, str) else item for item in part) for part in parts)
    return (*first, *(item for border, part in zip(borders, others, strict=True) for item in (border, *part)))
