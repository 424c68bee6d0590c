"""Translate a document of one path into another: whole or not at all, and never over the input."""

from pathlib import Path

from dikkat_runtime.documents.documents import TranslatedDocument, translate_document
from dikkat_runtime.documents.formats import find_format, require_format
from dikkat_runtime.documents.segments import Options
from dikkat_runtime.documents.translation import Align, Translate
from dikkat_runtime.errors import UsageError
from dikkat_runtime.files import probe_next_to, read_regular, reading_errors, write_atomically, write_errors
from dikkat_runtime.run.config import read_config, section
from dikkat_runtime.text.file_kinds import named_kind

MAX_DOCUMENT_SIZE = 512 << 20
"""Most bytes of a document, which is held in memory."""


def translate_file(
    source: Path, target: Path, translate: Translate, *, align: Align | None, options: Options
) -> TranslatedDocument:
    """Translate the document `source` and write it to `target`.

    Raises as `translate_document`, `MissingInputError` where there is no source, `UsageError` where both are one file
    or the target is named as another format, and `CannotCreateError` or `DiskError` where it cannot be written, before
    any work where that is known.
    """
    if target.exists() and source.exists() and target.samefile(source):
        raise UsageError("{target}: is the input file, which is never overwritten; give another --out", target)
    with reading_errors(source):
        data = read_regular(source, MAX_DOCUMENT_SIZE)
    ending, named = target.suffix.lower(), find_format(target.name)
    is_other = ending != source.suffix.lower() and (named or named_kind(ending))
    if is_other and named is not require_format(str(source), data):
        raise UsageError("{target}: its format is that of {source}; give --out the same ending", target, source)
    with write_errors(target):
        probe_next_to(target)
    document = translate_document(data, str(source), translate, align=align, options=options)
    write_atomically(target, document.data)
    return document


def run_options(run: Path, columns: str = "") -> Options:
    """Return the options of the readers: the languages of a run directory's model, and the columns of a table.

    `columns` is "source:target", names or numbers from 1; either may be left out.
    """
    data = section(read_config(run, "translator"), "data", run)
    source, target = (str(data.get(key) or "") for key in ("source_language", "target_language"))
    source_column, _, target_column = columns.partition(":")
    return Options(source, target, source_column or None, target_column or None)
