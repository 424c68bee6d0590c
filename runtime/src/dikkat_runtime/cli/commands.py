"""Run the sub-commands, each from its parsed options."""

from __future__ import annotations

from argparse import Namespace
from functools import partial
from typing import TYPE_CHECKING

from dikkat_runtime.cli.streams import Output, is_interactive, lines, text
from dikkat_runtime.errors import UsageError
from dikkat_runtime.text.visible import say

if TYPE_CHECKING:
    from dikkat_runtime.documents.sentences import Translate


def translate(options: Namespace) -> None:
    """Translate lines to standard output, or with `--out` a document to the same kind of document."""
    from dikkat_runtime.cli.decoding import decoding_options
    from dikkat_runtime.documents.formats import refuse_document
    from dikkat_runtime.tasks.output_lines import OutputStyle
    from dikkat_runtime.tasks.translator import WINDOW, Translator
    from dikkat_runtime.text.glossary import Glossary

    if options.out is None:
        refuse_document(options.file, "dikkat-runtime", options.run)
    style = OutputStyle(
        scores=options.scores or options.n_best > 1,
        confidence=options.confidence,
        json=options.json,
        abstain=options.abstain,
    )
    style.check(options.n_best, is_document=options.out is not None)
    decoding = decoding_options(options)
    all_words = options.all_words or decoding.needs_all_words
    chosen = {"precision": options.precision, "threads": options.threads, "all_words": all_words}
    translator = Translator.load(options.run, **chosen)
    if options.no_corrections:
        translator.corrections = None
    say(str(translator.info))
    glossary = None if options.glossary is None else Glossary.read(options.glossary, translator.language)
    if options.out is not None:
        search = partial(
            translator.stream,
            options=decoding,
            batch_size=options.batch_size,
            retry_loops=options.no_repeat_ngram is None,
            glossary=glossary,
        )
        _translate_document(options, lambda texts: [translation.text for translation in search(texts)])
        for note in translator.notes.glossary_lines(numbered=False):
            say(note)
        return
    window = 1 if is_interactive(options.file) else WINDOW
    out = Output()
    judge = translator.judge(options.run, on_progress=say) if style.needs_confidence else None
    stream = translator.stream(
        lines(options.file),
        decoding,
        batch_size=options.batch_size,
        window=window,
        retry_loops=options.no_repeat_ngram is None,
        prefixes=None if options.prefix is None else lines(options.prefix),
        glossary=glossary,
        confidence=judge,
    )
    for number, translation in enumerate(stream, start=1):
        for line in style.lines(translation, number, translator.notes):
            out.write(f"{line}\n")
        if number % window == 0:
            out.flush()
    out.flush()
    for note in translator.notes.lines():
        say(note)


def _translate_document(options: Namespace, translate: Translate) -> None:
    from dikkat_runtime.documents.document_files import run_align, run_options, translate_file

    if options.file is None:
        raise UsageError("--out writes a translated document; name the FILE that it is made of")
    if options.prefix is not None:
        raise UsageError("--prefix is for lines; leave it out, or --out")
    if options.scores or options.n_best != 1:
        raise UsageError("--out writes one translation of each text; leave out --scores and --n-best")
    reading = run_options(options.run, options.columns)
    document = translate_file(options.file, options.out, translate, align=run_align(options.run), options=reading)
    for line in document.lines():
        say(line)


def classify(options: Namespace) -> None:
    """Write label and probability of each line."""
    from dikkat_runtime.tasks.classifier import WINDOW, Classifier, written

    classifier = Classifier.load(options.run, precision=options.precision, threads=options.threads)
    say(str(classifier.info))
    window = 1 if is_interactive(options.file) else WINDOW
    out = Output()
    for number, classification in enumerate(classifier.stream(lines(options.file), window=window), start=1):
        out.write(
            written(classification, classification.probabilities if options.all else classification.labels) + "\n"
        )
        if number % window == 0:
            out.flush()
    out.flush()


def generate(options: Namespace) -> None:
    """Write a prompt and its continuation."""
    from dikkat_runtime.tasks.generator import Generator, SamplingOptions

    sampling = SamplingOptions(
        max_tokens=options.max_tokens,
        temperature=0.0 if options.greedy else options.temperature,
        top_k=options.top_k,
        top_p=options.top_p,
        min_p=options.min_p,
        repetition_penalty=options.repetition_penalty,
        seed=options.seed,
    )
    generator = Generator.load(options.run, precision=options.precision, threads=options.threads)
    say(str(generator.info))
    prompt = options.prompt
    if prompt is None:
        prompt = "" if is_interactive(None) else text(None)
    out, last = Output(), prompt
    pieces = generator.stream(prompt, sampling)
    out.write(prompt)
    for piece in pieces:
        out.write(piece)
        out.flush()
        last = piece
    out.write("" if last.endswith("\n") else "\n")
    out.flush()


def embed(options: Namespace) -> None:
    """Write each line with its vector: text, tab, numbers."""
    from dikkat_runtime.tasks.cross_embedder import CrossEmbedder
    from dikkat_runtime.tasks.embedder import WINDOW, Embedder, tsv_line

    kind = CrossEmbedder if options.of == "cross" else Embedder
    embedder: CrossEmbedder | Embedder = kind.load(options.run, precision=options.precision, threads=options.threads)
    say(str(embedder.info))
    window = 1 if is_interactive(options.file) else WINDOW
    out = Output()
    for vector in embedder.sentences(lines(options.file), window=window):
        out.write(tsv_line(vector) + "\n")
        if vector.line % window == 0:
            out.flush()
    out.flush()
