"""`dikkat translate`: lines in and out, or a document."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import tee
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Annotated, Any

from dikkat_runtime.cli.opening import (
    ENGINE,
    AllWordsOption,
    BeamOption,
    EngineOptions,
    FormalityOption,
    LengthPenaltyOption,
    NoCorrectionsOption,
    open_model,
    print_engine,
)
from dikkat_runtime.cli.options import Argument, Option
from dikkat_runtime.cli.progress import WorkProgress
from dikkat_runtime.cli.streams import NoReaderError, is_interactive, print_remark
from dikkat_runtime.engine.options import BeamOptions, DecodingOptions, SamplingOptions
from dikkat_runtime.errors import DataError, UsageError, msg
from dikkat_runtime.notices import counted
from dikkat_runtime.text.text_files import decode_lines, read_lines

if TYPE_CHECKING:
    from dikkat_runtime.documents.translation import Align, Translate
    from dikkat_runtime.tasks.term_consistency import TermUnifier
    from dikkat_runtime.tasks.translations import OutputStyle, Translation, TranslationNotes

BEAM = BeamOptions()
LINES_BETWEEN_FLUSHES = 2048

_Out = Annotated[
    Path | None,
    Option(help="Read FILE as a document (.po .xlf .srt .md .html .docx .xlsx .epub .json …) and write it here."),
]
_Columns = Annotated[
    str, Option(help="Columns of a table, with --out: from which into which, as in source:target or 2:3.")
]
_NoRepeatNgram = Annotated[
    int | None,
    Option(
        help="Write no n-gram of this many tokens twice; 0 allows all. By default, only lines that came out as a "
        "loop are translated again, with 3."
    ),
]
_RepetitionPenalty = Annotated[
    float, Option(help="Above 1 makes written tokens less probable; decoding is then slower.")
]
_Glossary = Annotated[
    Path | None,
    Option(help="Glossary: on each line a term, a tab and its translation, or several separated by |; each is kept."),
]
_Memory = Annotated[
    list[Path] | None,
    Option(help="Translation memory (.tmx, .tsv): what it holds comes back, what is like it is translated like it."),
]
_Consistent = Annotated[
    bool, Option("--consistent", help="With --out: a word has one translation in the whole document, that of most.")
]
_Prefix = Annotated[Path | None, Option(help="Beginning of the translation of each line, one per line.")]
_Confidence = Annotated[bool, Option("--confidence", help="Probability before each text, faults after it.")]
_Json = Annotated[bool, Option("--json", help="Write one JSON object per line, with the probability of each word.")]
_Abstain = Annotated[float | None, Option(help="Leave a line empty if the probability that it is right is below this.")]
_Review = Annotated[Path | None, Option(help="Page to correct the translations on, the least sure first (.html).")]
_BatchSize = Annotated[int | None, Option(help="Sentences translated at once; by default, as many as are fastest.")]


def translate(
    run: Annotated[Path, Argument(help="Run directory.")],
    file: Annotated[Path | None, Argument(help="Text, line by line; standard input if absent.")] = None,
    out: _Out = None,
    columns: _Columns = "",
    consistent: _Consistent = False,
    beam: BeamOption = BEAM.beam_size,
    n_best: Annotated[int, Option(help="Translations per line; above 1, each as number, score, text.")] = 1,
    scores: Annotated[bool, Option("--scores", help="Number and score before each text.")] = False,
    length_penalty: LengthPenaltyOption = None,
    sample: Annotated[bool, Option("--sample", help="Sample at random instead of searching.")] = False,
    temperature: Annotated[float, Option(help="Sampling temperature: below 1 sharper, above 1 flatter.")] = 1.0,
    top_k: Annotated[int, Option(help="Sample only from this many most probable tokens; 0 is all.")] = 0,
    top_p: Annotated[float, Option(help="Sample only from the most probable tokens that make up this share.")] = 1.0,
    seed: Annotated[int, Option(help="Random seed of sampling.")] = 1,
    no_repeat_ngram: _NoRepeatNgram = None,
    repetition_penalty: _RepetitionPenalty = BEAM.repetition_penalty,
    glossary: _Glossary = None,
    memory: _Memory = None,
    formality: FormalityOption = "default",
    adapter: Annotated[Path | None, Option(help="Adapter that was trained from the run: its folder.")] = None,
    no_corrections: NoCorrectionsOption = False,
    all_words: AllWordsOption = False,
    prefix: _Prefix = None,
    confidence: _Confidence = False,
    json: _Json = False,
    abstain: _Abstain = None,
    review: _Review = None,
    batch_size: _BatchSize = None,
    choice: EngineOptions = ENGINE,
) -> None:
    """Translate FILE or standard input, in order and in constant memory; a line without words comes back as it is.

    With --out, FILE is a document: the text to translate changes, and every other byte stays.
    """
    _translate(SimpleNamespace(**locals()))


def _translate(options: Any) -> None:
    from dikkat_runtime.run.parts import WEIGHTS
    from dikkat_runtime.run.weights import offer_base
    from dikkat_runtime.tasks.translations import OutputStyle
    from dikkat_runtime.text.glossary import Glossary

    if options.adapter is not None:
        offer_base(options.run / WEIGHTS, options.adapter / WEIGHTS)
        options.run = options.adapter
    style = OutputStyle(
        scores=options.scores or options.n_best > 1,
        confidence=options.confidence,
        json=options.json,
        abstain=options.abstain,
    )
    if options.out is None:
        from dikkat_runtime.documents.formats import refuse_document

        refuse_document(options.file, options.run)
    if options.review is not None:
        if options.review.suffix.lower() not in (".html", ".htm"):
            raise UsageError("--review writes a page, so {path} must end in .html", options.review)
        if options.out is not None or options.n_best != 1:
            raise UsageError("--review is for lines with one translation each; leave out --out and --n-best")
    style.check(options.n_best, is_document=options.out is not None)
    decoding = decoding_options(options)
    all_words = options.all_words or decoding.needs_all_words
    translator = open_model("Translator", options.run, options.choice, all_words)
    print_engine(translator.info)
    if options.no_corrections:
        translator.corrections = None
    if options.memory:
        from dikkat_runtime.documents.memories import read_memory

        languages = (translator.language, translator.target_language)
        read = partial(read_memory, languages=languages, note=print_remark, translator=translator)
        translator.memories = [read(path) for path in options.memory]
    stream = partial(
        translator.stream,
        options=decoding,
        batch_size=options.batch_size,
        retry_loops=options.no_repeat_ngram is None,
        glossary=options.glossary and Glossary.read(options.glossary, translator.language),
        formality=options.formality,
    )
    if options.out is None:
        needs_judge = style.needs_confidence or options.review is not None
        judge = translator.judge(options.run, on_progress=print_remark) if needs_judge else None
        languages = (translator.language, translator.target_language)
        return _translate_lines(partial(stream, confidence=judge), options, style, languages)
    if style.scores:
        raise UsageError("--out writes one translation of each text; leave out --scores and --n-best")
    if options.prefix is not None:
        raise UsageError("--prefix is for lines; leave it out, or --out")
    translated = partial(_translated, stream, translator.unify if options.consistent else None)
    _translate_document(options, translated, translator.inserter.align)
    for note in translator.notes.glossary_lines(numbered=False):
        print_remark(note)
    return None


def _translate_lines(
    stream: Callable[..., Iterator[Translation]], options: Any, style: OutputStyle, languages: tuple[str, str]
) -> None:
    from dikkat_runtime.tasks.translations import TranslationNotes

    interactive = is_interactive(options.file)
    notes, skipped = TranslationNotes(), list[DataError]()
    prefixes = None if options.prefix is None else _lines(options.prefix, skipped.append)
    lines = sources = _lines(options.file, skipped.append)
    if options.review is not None:
        lines, sources = tee(lines)
    translations = shown = stream(lines, window=1 if interactive else None, notes=notes, prefixes=prefixes)
    if options.review is not None:
        translations, shown = tee(translations)
    try:
        _write(translations, 1 if interactive else LINES_BETWEEN_FLUSHES, style, notes)
    finally:
        # where nobody reads the translations, nobody asks what was odd about them
        if not isinstance(sys.exception(), NoReaderError):
            for note in notes.lines():
                print_remark(note)
    if options.review is not None:
        from dikkat_runtime.cli.review import write_review

        write_review(options.review, options.run, languages, sources, shown)
    if skipped:
        more = msg(" (and {count:,} more of this kind)", len(skipped) - 1) if len(skipped) > 1 else ""
        raise DataError("{lines}; it was left empty{more}", skipped[0], more)


def _translated(
    stream: Callable[..., Iterator[Translation]], unify: TermUnifier | None, texts: Sequence[str]
) -> list[str]:
    own, note = [one.text for one in stream(counted(texts))], ""
    if unify is not None:
        own, note = unify(texts, own)
    if note:
        print_remark(note)
    return own


def _translate_document(options: Any, translate: Translate, align: Align) -> None:
    from dikkat_runtime.documents.document_files import run_options, translate_file

    if options.file is None:
        raise UsageError("--out writes a translated document; name the FILE to translate")
    reading = run_options(options.run, options.columns)
    with WorkProgress():
        document = translate_file(options.file, options.out, translate, align=align, options=reading)
    for line in document.lines():
        print_remark(line)


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
    if file is not None:
        return read_lines(file, skip=skip)
    return decode_lines(sys.stdin.buffer, msg("standard input"), skip=skip)


def decoding_options(asked: Any) -> DecodingOptions:
    """Return the decoding options that were asked for. Raises `UsageError` where they contradict each other."""
    if asked.consistent and asked.out is None:
        raise UsageError("--consistent is for documents; name one and --out, or leave it out")
    if asked.sample and (asked.glossary is not None or asked.prefix is not None):
        raise UsageError("--sample works with neither --glossary nor --prefix; leave it or them out")
    if asked.sample and (asked.beam != BEAM.beam_size or asked.n_best != 1):
        raise UsageError("--sample draws one translation per line; leave out --beam and --n-best")
    limits: dict[str, Any] = {
        "no_repeat_ngram": asked.no_repeat_ngram or 0,
        "repetition_penalty": asked.repetition_penalty,
        "scores": asked.scores or asked.json or asked.n_best > 1,
    }
    if not asked.sample:
        return BeamOptions(beam_size=asked.beam, n_best=asked.n_best, length_penalty=asked.length_penalty, **limits)
    chances: dict[str, Any] = {name: getattr(asked, name) for name in ("temperature", "top_k", "top_p", "seed")}
    return SamplingOptions(**chances, **limits)
