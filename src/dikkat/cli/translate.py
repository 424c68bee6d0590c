"""`dikkat translate`: lines in, lines out."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dikkat.cli.engine_option import DEVICE_HELP, ENGINE_HELP, PRECISION_HELP, tell_engine
from dikkat.cli.limits import MOST_BEAMS
from dikkat.config import Device
from dikkat_runtime.engine.contract import EngineName
from dikkat_runtime.engine.options import BeamOptions
from dikkat_runtime.engine.precision import PrecisionName
from dikkat_runtime.errors import DataError, UsageError

if TYPE_CHECKING:
    from dikkat_runtime.documents.sentences import Translate
    from dikkat_runtime.engine.options import DecodingOptions
    from dikkat_runtime.tasks.translations import Translation
    from dikkat_runtime.tasks.translator import Translator

BEAM = BeamOptions()


def translate(
    run: Annotated[Path, typer.Argument(help="Run directory.", show_default=False)],
    file: Annotated[Path | None, typer.Argument(help="Text, line by line; standard input if absent.")] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Read FILE as a document (.po .xlf .tmx .srt .md .html .docx …) and write it here."),
    ] = None,
    columns: Annotated[
        str, typer.Option(help="Of a table, with --out: what is translated into what, as in source:target or 2:3.")
    ] = "",
    beam: Annotated[
        int, typer.Option(max=MOST_BEAMS, help="Hypotheses followed side by side; 1 is greedy.")
    ] = BEAM.beam_size,
    n_best: Annotated[int, typer.Option(help="Translations a line; above 1 each as number, score, text.")] = 1,
    scores: Annotated[bool, typer.Option("--scores", help="Number and score before each text.")] = False,
    length_penalty: Annotated[float, typer.Option(help="Larger favours longer output.")] = BEAM.length_penalty,
    sample: Annotated[bool, typer.Option("--sample", help="Draw at random instead of searching.")] = False,
    temperature: Annotated[float, typer.Option(help="Of sampling: below 1 sharper, above 1 flatter.")] = 1.0,
    top_k: Annotated[int, typer.Option(help="Of sampling: only so many most probable tokens; 0 is all.")] = 0,
    top_p: Annotated[float, typer.Option(help="Of sampling: only the most probable tokens of this share.")] = 1.0,
    seed: Annotated[int, typer.Option(help="Of sampling.")] = 1,
    no_repeat_ngram: Annotated[
        int | None,
        typer.Option(
            help="Write no n-gram of so many tokens twice; 0 allows all. If absent, only lines that came out as a loop"
            " are translated again with 3."
        ),
    ] = None,
    repetition_penalty: Annotated[
        float,
        typer.Option(help="Above 1 makes written tokens less probable; decoding is then slower."),
    ] = BEAM.repetition_penalty,
    batch_size: Annotated[
        int | None, typer.Option(help="Sentences translated at once; if absent, as many as are fastest.")
    ] = None,
    precision: Annotated[PrecisionName, typer.Option(help=PRECISION_HELP)] = "auto",
    device: Annotated[Device, typer.Option(help=DEVICE_HELP)] = "cpu",
    engine: Annotated[EngineName, typer.Option(help=ENGINE_HELP)] = "auto",
) -> None:
    """Translate FILE or standard input, in order and in constant memory; a line without words comes back as it is.

    With --out, FILE is a document, of which every byte stays that is no text to translate.
    """
    from dikkat.tasks.translation.opening import open_translator
    from dikkat_runtime.engine.options import SamplingOptions

    if sample and (beam != BEAM.beam_size or n_best != 1):
        raise UsageError("--sample draws one translation a line; leave out --beam and --n-best")
    options: DecodingOptions = BeamOptions(beam_size=beam, n_best=n_best, length_penalty=length_penalty, scores=scores)
    if sample:
        options = SamplingOptions(temperature=temperature, top_k=top_k, top_p=top_p, seed=seed, scores=scores)
    options = replace(options, no_repeat_ngram=no_repeat_ngram or 0, repetition_penalty=repetition_penalty)
    translator = open_translator(run, engine, precision, device)
    tell_engine(translator.info)
    if out is not None and (scores or n_best != 1):
        raise UsageError("--out writes one translation of each text; leave out --scores and --n-best")
    if out is not None:
        stream = partial(translator.stream, options=options, batch_size=batch_size)
        return _translate_document(run, file, out, columns, lambda texts: [each.text for each in stream(texts)])
    return _translate_lines(translator, file, options, batch_size, no_repeat_ngram is None, scores or n_best > 1)


def _translate_lines(
    translator: Translator,
    file: Path | None,
    options: DecodingOptions,
    batch_size: int | None,
    retry_loops: bool,
    with_score: bool,
) -> None:
    from dikkat_runtime.tasks.translation_notes import TranslationNotes

    interactive = file is None and sys.stdin.isatty()
    window = 1 if interactive else 2048
    notes, skipped = TranslationNotes(), list[DataError]()
    translations = translator.stream(
        _lines(file, skipped.append),
        options,
        batch_size=batch_size,
        window=window,
        retry_loops=retry_loops,
        notes=notes,
    )
    try:
        _write(translations, window, with_score=with_score)
    finally:
        for note in notes.lines():
            print(note, file=sys.stderr)
    _tell_of_skipped(skipped)


def _tell_of_skipped(lines: list[DataError]) -> None:
    if lines:
        more = f" (and {len(lines) - 1:,} more of this kind)" if len(lines) > 1 else ""
        raise DataError(f"{lines[0]}; it was left empty{more}")


def _translate_document(run: Path, file: Path | None, out: Path, columns: str, translate: Translate) -> None:
    from dikkat_runtime.documents.document_files import run_align, run_options, translate_file

    if file is None:
        raise UsageError("--out writes a translated document; name the FILE that it is made of")
    document = translate_file(file, out, translate, align=run_align(run), options=run_options(run, columns))
    for line in document.lines():
        print(line, file=sys.stderr)


def _write(translations: Iterator[Translation], window: int, with_score: bool) -> None:
    out = sys.stdout
    try:
        for number, translation in enumerate(translations, start=1):
            for text in _written(translation, number, with_score):
                out.write(text + "\n")
            if number % window == 0:
                out.flush()
    finally:
        out.flush()


def _written(translation: Translation, number: int, with_score: bool) -> Iterator[str]:
    for each in (translation, *translation.alternatives):
        yield f"{number}\t{each.score:.4f}\t{each.text}" if with_score else each.text


def _lines(file: Path | None, skip: Callable[[DataError], None]) -> Iterator[str]:
    from dikkat.data.text_files import decode_lines, read_lines

    if file is not None:
        return read_lines(file, skip=skip)
    return decode_lines(sys.stdin.buffer, "standard input", skip=skip)
