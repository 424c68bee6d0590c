"""`dikkat attend`: where a model looks while it reads a text, and while it writes."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, cast, get_args

from dikkat.cli.progress import Announced, print_torch_engine
from dikkat_runtime.cli.options import Argument, Option
from dikkat_runtime.cli.streams import print_note, print_report, print_written
from dikkat_runtime.engine.options import MAX_BEAMS, BeamOptions
from dikkat_runtime.errors import DataError, UsageError, msg
from dikkat_runtime.files import probe_next_to, write_errors
from dikkat_runtime.localization import language, localized, visible
from dikkat_runtime.text.text_files import decode_lines

if TYPE_CHECKING:
    from dikkat.explain.attention_map import Kind, SentenceMaps, Stack
    from dikkat.tasks.common.attention_recorder import Wanted
    from dikkat.tasks.inspection.reader_attention import AttendingReader
    from dikkat.tasks.translation.attention import Attending
    from dikkat_runtime.tasks.classifier import Classifier
    from dikkat_runtime.tasks.embedder import Embedder
    from dikkat_runtime.tasks.generator import Generator as LanguageModel
    from dikkat_runtime.tasks.reading import Manner
    from dikkat_runtime.tasks.translator import Translator

    Choice = tuple[Stack, Kind, int | None, int | None]
    """Stack, kind, layer and head from 0; None is every one."""
    Selection = tuple["Attention | None", int | None, int | None]
    """Kind, layer and head from 1, as the user typed them."""


Attention = Literal["encoder", "decoder", "cross"]
"""The attention whose maps are shown: within the encoder, within the decoder, or across."""
PICTURES, DATA, ALIGNMENT, PAGE = (".png", ".svg"), (".json", ".npz"), ".align", ".html"
SUFFIXES = (*PICTURES, *DATA, ALIGNMENT, PAGE)
BEAM = BeamOptions()
Part = TypeVar("Part")
MAX_ON_PAGE = 20
"""Sentences of one text on a page, each of which is translated again without each head."""


def attend(
    run: Annotated[Path, Argument(help="Run directory.")],
    sentence: Annotated[str | None, Argument(help="In quotes; - reads one a line from standard input.")] = None,
    out: Annotated[
        Path | None, Option(help=f"File to write: {', '.join(SUFFIXES)}; a table on standard output if absent.")
    ] = None,
    target: Annotated[str | None, Option(help="A translation to use instead of the model's own.")] = None,
    kind: Annotated[
        Attention | None,
        Option(
            help="Kind of attention: within the encoder or decoder, or cross (the default where there is one); "
            "JSON and npz: all; table: both."
        ),
    ] = None,
    layer: Annotated[int | None, Option(help="From 1; by default the last one, in JSON, npz and tables all.")] = None,
    head: Annotated[int | None, Option(help="From 1; all if absent.")] = None,
    words: Annotated[bool, Option("--words", help="Join subwords to words.")] = False,
    beam: Annotated[
        int | None,
        Option(
            min=1, max=MAX_BEAMS, help=f"Hypotheses followed side by side, {BEAM.beam_size} if absent; 1 is greedy."
        ),
    ] = None,
    n_best: Annotated[int | None, Option(help="Translations whose maps are written; 1 if absent.")] = None,
    number: Annotated[
        int | None,
        Option(
            "--sentence", min=1, help="Number of the sentence, where there are several, from 1; a page begins with it."
        ),
    ] = None,
    over_training: Annotated[
        bool,
        Option(
            "--over-training",
            help="Show the sentences that were kept while the model learned, from the first "
            "update on: as a table, or a page with a slider (.html).",
        ),
    ] = False,
) -> None:
    """Show what a model attends to in a text: as a table, or a picture, data, a word alignment, or a page to explore.

    A translator translates it, and the translations go to standard output, except for a page, which holds them; any
    other model only reads it, a language model as its prompt, and gives tables, pictures and data. A table names the
    word that each word looks at most, by layer and head; a picture shows the heads of one layer; .align links each
    target word to a source word (source-target, from 0), by the mean of the chosen heads; .html holds everything.
    """
    options: dict[str, object] = {"target": target, "beam": beam, "n-best": n_best, "kind": kind, "layer": layer}
    options |= {"head": head, "words": words or None, "sentence": number}
    if over_training:
        _show_over_training(run, out, sentence, options)
    elif sentence is None:
        raise UsageError("SENTENCE is missing: a text in quotes, or - for standard input")
    else:
        _check(out, sentence, options)
        _show(run, sentence, out, options)


def _show(run: Path, sentence: str, out: Path | None, options: Mapping[str, Any]) -> None:
    from dikkat_runtime.tasks.translator import Translator

    target, words = options["target"], bool(options["words"])
    trained = _opened(run, out)
    texts, selection = _sentences(sentence), (options["kind"], options["layer"], options["head"])
    is_page = out is not None and out.suffix.lower() == PAGE
    most = MAX_ON_PAGE if is_page else 1 if out is not None and not _holds_many(out) else None
    if not isinstance(trained, Translator):
        recorded = _read(trained, texts, run, out, selection, most, options)
    else:
        sentences = sentences_of(trained, texts, options["sentence"], most, are_cut=target is None)
        if is_page:
            _write_page(trained, [sentence for sentence, _ in sentences], cast(Path, out), target)
            return
        asked = {"beam_size": options["beam"], "n_best": options["n-best"]}
        beam = BeamOptions(**{name: value for name, value in asked.items() if value is not None})
        recorded = _translated(trained, sentences, out, selection, target, beam)
    if out is None:
        _print_tables(recorded)
    else:
        _write(recorded, out, run.resolve().name, words)


def _show_over_training(run: Path, out: Path | None, sentence: str | None, options: Mapping[str, object]) -> None:
    """Show the maps that a run has kept while it was trained."""
    from dikkat.cli.heads import TARGETS
    from dikkat.tasks.inspection.over_training import OverTraining

    if sentence is not None:
        raise UsageError("--over-training shows the sentences that the run has kept; leave the text out")
    if out is not None and out.suffix.lower() != PAGE:
        raise UsageError("{out}: what was kept over a training is written as .html; rename it", out)
    _refuse(options, options, msg("is not for --over-training"))
    with Announced(msg("{run}: loading its model", run)):
        kept = OverTraining(run)
    if out is None:
        print_report(kept.lines(TARGETS))
        return
    with Announced(msg("{out}: drawing what was kept", out)):
        kept.write_page(out)
    print_written(out)


def _opened(run: Path, out: Path | None) -> Any:
    """Return the model of a run, after a look at whether the output can be written."""
    from dikkat.tasks.kinds import load

    if out is not None:
        with write_errors(out):
            probe_next_to(out)
    with Announced(msg("{run}: loading its model", run)):
        trained = load(run)
    print_torch_engine()
    return trained


def sentences_of(
    translator: Translator, texts: Iterable[str], number: int | None, most: int | None, *, are_cut: bool = True
) -> Iterator[tuple[str, Manner]]:
    """Yield the sentences of texts as the model reads them, each with the manner in which it is written.

    Of each text these are at most `most`, from a `number` on, which counts from 1; without `most` the one of that
    number, or all. Texts that are not cut are read as they stand. Raises `UsageError` where there is no such sentence.
    """
    from dikkat_runtime.tasks.reading import USUAL

    for text in texts:
        # a text without words is read as it stands
        sentences = (translator.sentences(text) if are_cut else []) or [(text, USUAL)]
        yield from _chosen(sentences, number, most, msg("sentences"))


def _chosen(parts: list[Part], number: int | None, most: int | None, unit: str) -> list[Part]:
    """Return the parts of a text that are shown, as `sentences_of` tells, and say which they are of how many."""
    count, first = len(parts), number or 1
    if first > count:
        raise UsageError("--sentence {number}: the text has {count} {unit}; choose one of them", number, count, unit)
    shown = parts[first - 1 :][: most or (1 if number else count)]
    if len(shown) < count and (number is None or most == MAX_ON_PAGE):
        last = first + len(shown) - 1
        print_note("{unit} {first} to {last} of {count}; --sentence N shows others", unit, first, last, count)
    return shown


def _holds_many(out: Path) -> bool:
    return out.suffix.lower() in (".json", PAGE)


def _write_page(translator: Translator, sentences: Sequence[str], out: Path, target: str | None) -> None:
    from dikkat.tasks.inspection.page import write_page

    with Announced(msg("{out}: recording all maps, and translating again without each head", out)):
        write_page(translator, sentences, out, targets=None if target is None else [target], language=language())
    print_note("wrote {out}: open it in a browser", out)


def _check(out: Path | None, sentence: str, options: Mapping[str, object]) -> None:
    if sentence == "-" or options["target"] is not None:
        _refuse(options, ("sentence",), msg("chooses a sentence of one text that the model translates"))
    if out is None:
        _refuse(options, ("n-best",), msg("is for files; name one with --out"))
        _refuse(options, ("words",), msg("is for pictures and data: a table is always of words"))
        if sentence == "-":
            _refuse(options, ("target",), msg("is for one sentence, but - reads many"))
        return
    from dikkat.explain.pictures import check_format

    check_format(out, SUFFIXES)
    suffix = out.suffix.lower()
    if suffix == PAGE:
        _refuse(
            options,
            ("kind", "layer", "head", "words", "beam", "n-best"),
            msg("is not for a page, which shows everything"),
        )
    if suffix in PICTURES and options["n-best"] not in (None, 1):
        raise UsageError("--n-best: a picture shows one translation; write .json, .npz or .align")
    if suffix == ALIGNMENT:
        _refuse(options, ("words",), msg("is not for .align, which always links words"))
    if suffix == ALIGNMENT and options["kind"] not in (None, "cross"):
        raise UsageError("--kind {options}: words are aligned by cross-attention; leave it out", options["kind"])
    if options["target"] is not None:
        _refuse(options, ("beam", "n-best"), msg("searches for a translation, but --target gives one"))
    if sentence == "-":
        _refuse(options, ("target",), msg("is for one sentence, but - reads many"))
        if not _holds_many(out):
            raise UsageError("{out}: the sentences of standard input go into .json or .html; rename it", out)


def _refuse(options: Mapping[str, object], names: Iterable[str], reason: str) -> None:
    for name in names:
        if options[name] is not None:
            raise UsageError("--{name} {reason}; leave it out", name, reason)


def _sentences(sentence: str) -> Iterator[str]:
    if sentence != "-":
        yield sentence
        return
    number = 0
    for number, line in enumerate(decode_lines(sys.stdin.buffer, msg("standard input")), start=1):
        if not line.strip():
            raise DataError(
                "standard input:{number}: there is nothing to attend to in an empty line; remove it", number
            )
        yield line
    if not number:
        raise DataError("standard input: there is no sentence; give one a line")


def _translated(
    translator: Translator,
    sentences: Iterable[tuple[str, Manner]],
    out: Path | None,
    selection: Selection,
    target: str | None,
    options: BeamOptions,
) -> Iterator[SentenceMaps]:
    from dikkat.tasks.translation.attention import Attending
    from dikkat.tasks.translation.guiding import guided_note

    if note := guided_note(translator.config):
        print(localized(note), file=sys.stderr)
    attending = Attending(translator, occluding=True)
    choices = _choices(attending, msg("a translator"), out, selection)
    wanted = _wanted(attending, choices)
    for sentence, manner in sentences:
        if target is None:
            outputs = attending.hypotheses(sentence, options, wanted)
        else:
            outputs = (attending.forced(sentence, target, wanted),)
        for maps in outputs:
            yield _selected(replace(maps, written=translator.reading.written(maps.output, manner)), choices)


def _read(
    trained: Classifier | LanguageModel | Embedder,
    sentences: Iterable[str],
    run: Path,
    out: Path | None,
    selection: Selection,
    most: int | None,
    options: Mapping[str, Any],
) -> Iterator[SentenceMaps]:
    from dikkat.tasks.classification.decisive_words import table_note
    from dikkat.tasks.inspection.reader_attention import AttendingReader
    from dikkat_runtime.run.config import KINDS
    from dikkat_runtime.tasks.classifier import Classifier
    from dikkat_runtime.tasks.generator import Generator as LanguageModel

    name = KINDS[trained.kind or "encoder"]
    if out is not None and out.suffix.lower() == ALIGNMENT:
        known = ", ".join((*PICTURES, *DATA, PAGE))
        raise UsageError(
            "{out}: is for translators, but {run} holds {kind}; write one of {formats}", out, run, name, known
        )
    _refuse(options, ("target", "beam", "n-best"), msg("is for a translator, but {run} holds {kind}", run, name))
    if not isinstance(trained, Classifier | LanguageModel):
        _refuse(
            options, ("words",), msg("joins the subwords of dikkat's own tokenizers, not those of an imported encoder")
        )
    if isinstance(trained, Classifier) and (note := table_note(trained.config)):
        print(note, file=sys.stderr)
    attending = AttendingReader.of(trained)
    choices = _choices(attending, name, out, selection)
    wanted = _wanted(attending, choices)
    # not a generator itself: what is wrong is said before a file of its kind is begun
    parts = (_chosen(attending.windows(text), options["sentence"], most, msg("windows")) for text in sentences)
    return (_selected(attending.read_window(part, wanted), choices) for shown in parts for part in shown)


def _choices(attending: Attending | AttendingReader, name: str, out: Path | None, selection: Selection) -> list[Choice]:
    from dikkat.explain.attention_map import ATTENTIONS, attention_name

    kind, layer, head = selection
    everything = out is None or out.suffix.lower() in (*DATA, PAGE)
    layers = attending.layers
    available = [kind for kind in get_args(Attention) if ATTENTIONS[kind] in layers]
    if kind is not None and kind not in available:
        known = ", ".join(available)
        raise UsageError("--kind {kind}: {name} has no {attention}; choose from {known}").fill(
            kind, name, attention_name(*ATTENTIONS[kind]), known
        )
    if out is None and kind is None and len(available) > 1:
        # how a sentence is read, and where what is written comes from
        available = ["encoder", "cross"]
    # cross-attention is the last of those there are
    kinds = available if kind is None and everything else [kind or available[-1]]
    choices: list[Choice] = []
    for attention in kinds:
        chosen = layers[ATTENTIONS[attention]] if layer is None and not everything else layer
        choices.append(
            (*ATTENTIONS[attention], None if chosen is None else chosen - 1, None if head is None else head - 1)
        )
    return choices


def _wanted(attending: Attending | AttendingReader, choices: list[Choice]) -> Wanted:
    wanted = [attending.choose(*choice) for choice in choices]
    return lambda name: any(is_wanted(name) for is_wanted in wanted)


def _selected(maps: SentenceMaps, choices: list[Choice]) -> SentenceMaps:
    return replace(maps, maps=tuple(chosen for choice in choices for chosen in maps.select(*choice)))


def _print_tables(recorded: Iterator[SentenceMaps]) -> None:
    from dikkat.explain.attention_map import peak_lines

    for number, maps in enumerate(recorded):
        print_report([""] if number else [])
        if (maps.source_tokens and maps.output_tokens) or maps.note:
            print_report([maps.note or maps.written, ""])
        print_report(peak_lines(maps))


def _write(recorded: Iterator[SentenceMaps], out: Path, name: str, words: bool) -> None:
    from dikkat.explain.attention_map import join_words, with_written_rows
    from dikkat.explain.head_analysis import caution
    from dikkat.explain.map_files import write_alignment, write_json, write_npz
    from dikkat.explain.notebook import explorer_of
    from dikkat.explain.plots import plot_heads

    suffix = out.suffix.lower()
    is_picture = suffix in PICTURES
    outputs: list[str] = []
    cautions: list[str | None] = []

    def shown() -> Iterator[SentenceMaps]:
        # one sentence at a time: standard input may hold many
        for maps in recorded:
            if maps.source_tokens and maps.output_tokens:
                outputs.append(maps.written)
            # which window of a prompt was chosen has been said
            cautions.append(caution(maps) or (maps.note if maps.source_tokens else None))
            if is_picture:
                maps = replace(maps, maps=tuple(map(with_written_rows, maps.maps)))
            yield join_words(maps) if words else maps

    with Announced(msg("{out}: recording the maps", out)):
        if is_picture:
            (maps,) = shown()
            is_read_only = maps.maps[0].stack == "encoder" or not maps.source_tokens
            title = maps.source if is_read_only else f"{maps.source} → {maps.output}"
            plot_heads(maps.maps, out, title)
        elif suffix == PAGE:
            explorer_of(list(shown()), name).write(out)
        else:
            {".json": write_json, ".npz": write_npz, ALIGNMENT: write_alignment}[suffix](shown(), out)
    for output in outputs:
        print(visible(output))
    for number, line in enumerate(cautions, start=1):
        if line:
            print(line if len(cautions) == 1 else msg("{number}: {line}", number, line), file=sys.stderr)
    print_written(out)
