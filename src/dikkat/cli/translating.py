"""Run `dikkat translate` once its options are read: lines in and out, or a document."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from dikkat.cli.engine_option import print_engine
from dikkat.cli.plain_options import read_plain
from dikkat_runtime.engine.contract import EngineName
from dikkat_runtime.engine.options import MAX_BEAMS, BeamOptions, Device
from dikkat_runtime.engine.precision import PrecisionName
from dikkat_runtime.errors import DataError, UsageError
from dikkat_runtime.messages import msg

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dikkat_runtime.documents.sentences import Translate
    from dikkat_runtime.tasks.output_lines import OutputStyle
    from dikkat_runtime.tasks.translation_notes import TranslationNotes
    from dikkat_runtime.tasks.translations import Translation
    from dikkat_runtime.text.glossary import Glossary

BEAM = BeamOptions()
LIMITS = {"beam": (1, MAX_BEAMS)}
LINES_BETWEEN_FLUSHES = 2048


@dataclass(frozen=True)
class TranslateOptions:
    """The options of `dikkat translate`, by the names and with the defaults of its command line."""

    run: Path
    file: Path | None = None
    out: Path | None = None
    columns: str = ""
    beam: int = BEAM.beam_size
    n_best: int = 1
    scores: bool = False
    length_penalty: float | None = None
    sample: bool = False
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 1
    no_repeat_ngram: int | None = None
    repetition_penalty: float = BEAM.repetition_penalty
    glossary: Path | None = None
    no_corrections: bool = False
    all_words: bool = False
    prefix: Path | None = None
    confidence: bool = False
    json: bool = False
    abstain: float | None = None
    batch_size: int | None = None
    precision: PrecisionName = "auto"
    device: Device = "cpu"
    engine: EngineName = "auto"

    @classmethod
    def read(cls, arguments: Sequence[str]) -> TranslateOptions | None:
        """Those of a command line that holds no mistake and asks for no help; None where it takes typer to tell."""
        return read_plain(cls, arguments, ("run", "file"), LIMITS)


def translate(options: TranslateOptions) -> None:
    """Translate lines, or with `out` a document."""
    from dikkat.tasks.translation.opening import open_translator
    from dikkat_runtime.cli.decoding import decoding_options
    from dikkat_runtime.tasks.output_lines import OutputStyle

    style = OutputStyle(
        scores=options.scores or options.n_best > 1,
        confidence=options.confidence,
        json=options.json,
        abstain=options.abstain,
    )
    style.check(options.n_best, is_document=options.out is not None)
    decoding = decoding_options(options)
    chosen = options.engine, options.precision, options.device
    all_words = options.all_words or decoding.needs_all_words
    translator = open_translator(options.run, *chosen, all_words=all_words)
    print_engine(translator.info)
    if options.no_corrections:
        translator.corrections = None
    stream = partial(
        translator.stream,
        options=decoding,
        batch_size=options.batch_size,
        retry_loops=options.no_repeat_ngram is None,
        glossary=_glossary(options, translator.language),
    )
    if options.out is None:
        judge = translator.judge(options.run, on_progress=_note) if style.needs_confidence else None
        return _translate_lines(partial(stream, confidence=judge), options, style)
    if style.scores:
        raise UsageError("--out writes one translation of each text; leave out --scores and --n-best")
    if options.prefix is not None:
        raise UsageError("--prefix is for lines; leave it out, or --out")
    _translate_document(options, options.out, lambda texts: [translation.text for translation in stream(texts)])
    for note in translator.notes.glossary_lines(numbered=False):
        _note(note)
    return None


def _note(line: str) -> None:
    print(line, file=sys.stderr)


def _glossary(options: TranslateOptions, language: str) -> Glossary | None:
    if options.glossary is None:
        return None
    from dikkat_runtime.text.glossary import Glossary

    return Glossary.read(options.glossary, language)


def _translate_lines(
    stream: Callable[..., Iterator[Translation]], options: TranslateOptions, style: OutputStyle
) -> None:
    from dikkat_runtime.tasks.translation_notes import TranslationNotes

    interactive = options.file is None and sys.stdin.isatty()
    notes, skipped = TranslationNotes(), list[DataError]()
    prefixes = None if options.prefix is None else _lines(options.prefix, skipped.append)
    ahead = 1 if interactive else None
    translations = stream(_lines(options.file, skipped.append), window=ahead, notes=notes, prefixes=prefixes)
    try:
        _write(translations, 1 if interactive else LINES_BETWEEN_FLUSHES, style, notes)
    finally:
        for note in notes.lines():
            _note(note)
    _report_skipped(skipped)


def _report_skipped(lines: list[DataError]) -> None:
    if lines:
        more = msg(" (and {count:,} more of this kind)").fill(len(lines) - 1) if len(lines) > 1 else ""
        raise DataError("{lines}; it was left empty{more}").fill(lines[0], more)


def _translate_document(options: TranslateOptions, out: Path, translate: Translate) -> None:
    from dikkat_runtime.documents.document_files import run_align, run_options, translate_file

    if options.file is None:
        raise UsageError("--out writes a translated document; name the FILE that it is made of")
    reading = run_options(options.run, options.columns)
    document = translate_file(options.file, out, translate, align=run_align(options.run), options=reading)
    for line in document.lines():
        _note(line)


def _write(translations: Iterator[Translation], every: int, style: OutputStyle, notes: TranslationNotes) -> None:
    out = sys.stdout
    try:
        for number, translation in enumerate(translations, start=1):
            for line in style.lines(translation, number, notes):
                out.write(f"{line}\n")
            if number % every == 0:
                out.flush()
    finally:
        out.flush()


def _lines(file: Path | None, skip: Callable[[DataError], None]) -> Iterator[str]:
    from dikkat.data.text_files import decode_lines, read_lines

    if file is not None:
        return read_lines(file, skip=skip)
    return decode_lines(sys.stdin.buffer, msg("standard input"), skip=skip)
