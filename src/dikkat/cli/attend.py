"""`dikkat attend`: where a model looks while it reads a text, and while it writes."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dikkat.cli.engine_option import print_torch_engine
from dikkat.cli.limits import MOST_BEAMS
from dikkat.cli.progress import Announced
from dikkat.cli.streams import print_written
from dikkat_runtime.engine.options import BeamOptions
from dikkat_runtime.errors import DataError, UsageError
from dikkat_runtime.localization import language

if TYPE_CHECKING:
    from dikkat.explain.attention_map import Kind, Stack
    from dikkat.explain.sentence_maps import SentenceMaps
    from dikkat.tasks import Classifier, Embedder, LanguageModel, Translator
    from dikkat.tasks.common.attention_recorder import Wanted
    from dikkat.tasks.inspection.reader_attention import AttendingReader
    from dikkat.tasks.translation.attention import Attending

    Choice = tuple[Stack, Kind, int | None, int | None]
    """Stack, kind, layer and head from 0; None is every one."""
    Place = tuple["Attention | None", int | None, int | None]
    """Kind, layer and head from 1, as they were given."""


class Attention(StrEnum):
    """What attends to what."""

    encoder = "encoder"
    decoder = "decoder"
    cross = "cross"


class Colours(StrEnum):
    """From white, for 0, to the darkest."""

    Reds = "Reds"
    Blues = "Blues"


PLACES: dict[Attention, tuple[Stack, Kind]] = {
    Attention.encoder: ("encoder", "self"),
    Attention.decoder: ("decoder", "self"),
    Attention.cross: ("decoder", "cross"),
}
PICTURES, DATA, ALIGNMENT, PAGE = (".png", ".svg"), (".json", ".npz"), ".align", ".html"
SUFFIXES = (*PICTURES, *DATA, ALIGNMENT, PAGE)
BEAM = BeamOptions()


def attend(
    run: Annotated[Path, typer.Argument(help="Run directory.", show_default=False)],
    sentence: Annotated[str, typer.Argument(help="In quotes; - reads one a line from standard input.")],
    out: Annotated[
        Path | None,
        typer.Option(help=f"File to write: {', '.join(SUFFIXES)}; a table on standard output if absent."),
    ] = None,
    target: Annotated[str | None, typer.Option(help="A translation instead of the model's own.")] = None,
    kind: Annotated[
        Attention | None,
        typer.Option(
            help="Within the encoder or decoder, or cross (if absent, where there is); JSON and npz: all; table: both."
        ),
    ] = None,
    layer: Annotated[int | None, typer.Option(help="From 1; the last if absent, in JSON, npz and tables all.")] = None,
    head: Annotated[int | None, typer.Option(help="From 1; all if absent.")] = None,
    words: Annotated[bool, typer.Option("--words", help="Join subwords to words.")] = False,
    colours: Annotated[Colours | None, typer.Option(help="Of a picture; Reds if absent.")] = None,
    beam: Annotated[
        int | None,
        typer.Option(
            max=MOST_BEAMS, help=f"Hypotheses followed side by side, {BEAM.beam_size} if absent; 1 is greedy."
        ),
    ] = None,
    n_best: Annotated[int | None, typer.Option(help="Translations whose maps are written; 1 if absent.")] = None,
) -> None:
    """Show what a model attends to in a text: as a table, or a picture, data, a word alignment, or a page to explore.

    A translator translates it, and the translations go to standard output, but for a page, which holds them; any other
    model only reads it, a language model as its prompt, and gives tables, pictures and data. A table names the word
    that each word looks at most, by layer and head; a picture shows the heads of one layer; .align links each target
    word to a source word (source-target, from 0), by the mean of the chosen heads; .html holds everything.
    """
    given: dict[str, object] = {"target": target, "beam": beam, "n-best": n_best, "kind": kind, "layer": layer}
    given |= {"head": head, "words": words or None, "colours": colours}
    _check(out, sentence, given)
    from dikkat.tasks import Translator, load
    from dikkat_runtime.files import probe_beside, write_errors

    if out is not None:
        with write_errors(out):
            probe_beside(out)
    with Announced(f"{run}: loading its model"):
        trained = load(run)
    print_torch_engine()
    sentences, place = _sentences(sentence), (kind, layer, head)
    if not isinstance(trained, Translator):
        found = _read(trained, sentences, run, out, place, given)
    elif out is not None and out.suffix.lower() == PAGE:
        _write_page(trained, list(sentences), out, target)
        return
    else:
        found = _translated(trained, sentences, out, place, target, _options(beam, n_best))
    if out is None:
        _tell(found)
    else:
        _write(found, out, words, colours or Colours.Reds)


def _options(beam: int | None, n_best: int | None) -> BeamOptions:
    return BeamOptions(
        beam_size=BEAM.beam_size if beam is None else beam, n_best=BEAM.n_best if n_best is None else n_best
    )


def _write_page(translator: Translator, sentences: Sequence[str], out: Path, target: str | None) -> None:
    from dikkat.tasks.inspection.page import write_page

    with Announced(f"{out}: recording all maps, and translating again without each head"):
        write_page(translator, sentences, out, targets=None if target is None else [target], language=language())
    print(f"wrote {out}: open it in a browser", file=sys.stderr)


def _check(out: Path | None, sentence: str, given: Mapping[str, object]) -> None:
    if out is None:
        _refuse(given, ("colours", "n-best"), "is for files; name one with --out")
        _refuse(given, ("words",), "is for pictures and data: a table is always of words")
        if sentence == "-":
            _refuse(given, ("target",), "is for one sentence, but - reads many")
        return
    suffix = out.suffix.lower()
    if suffix not in SUFFIXES:
        known = f"{', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}"
        raise UsageError(f"{out}: attention is written as {known}, not {suffix or 'a file without suffix'}; rename it")
    if suffix == PAGE:
        _refuse(given, ("kind", "layer", "head", "words", "colours", "beam", "n-best"), "is not for a page: it has all")
    if suffix not in PICTURES:
        _refuse(given, ("colours",), "is for pictures, .png and .svg")
    elif given["n-best"] not in (None, 1):
        raise UsageError("--n-best: a picture shows one translation; write .json, .npz or .align")
    if suffix == ALIGNMENT:
        _refuse(given, ("words",), "is not for .align, which always links words")
    if suffix == ALIGNMENT and given["kind"] not in (None, Attention.cross):
        raise UsageError(f"--kind {given['kind']}: words are aligned by cross-attention; leave it out")
    if given["target"] is not None:
        _refuse(given, ("beam", "n-best"), "searches for a translation, but --target gives one")
    if sentence == "-":
        _refuse(given, ("target",), "is for one sentence, but - reads many")
        if suffix not in (".json", PAGE):
            raise UsageError(f"{out}: the sentences of standard input go into .json or .html; rename it")


def _refuse(given: Mapping[str, object], names: Iterable[str], reason: str) -> None:
    for name in names:
        if given[name] is not None:
            raise UsageError(f"--{name} {reason}; leave it out")


def _sentences(sentence: str) -> Iterator[str]:
    if sentence != "-":
        yield sentence
        return
    from dikkat.data.text_files import decode_lines

    number = 0
    for number, line in enumerate(decode_lines(sys.stdin.buffer, "standard input"), start=1):
        if not line.strip():
            raise DataError(f"standard input:{number}: there is nothing to attend to in an empty line; remove it")
        yield line
    if not number:
        raise DataError("standard input: there is no sentence; give one a line")


def _translated(
    translator: Translator,
    sentences: Iterable[str],
    out: Path | None,
    place: Place,
    target: str | None,
    options: BeamOptions,
) -> Iterator[SentenceMaps]:
    from dikkat.tasks.translation.attention import Attending

    attending = Attending(translator, occluding=True)
    choices = _choices(attending, "a translator", out, place)
    wanted = _wanted(attending, choices)
    for sentence in sentences:
        if target is None:
            outputs = attending.hypotheses(sentence, options, wanted)
        else:
            outputs = (attending.forced(sentence, target, wanted),)
        for found in outputs:
            yield _selected(found, choices)


def _read(
    trained: Classifier | LanguageModel | Embedder,
    sentences: Iterable[str],
    run: Path,
    out: Path | None,
    place: Place,
    given: Mapping[str, object],
) -> Iterator[SentenceMaps]:
    from dikkat.tasks import Classifier, Embedder, LanguageModel
    from dikkat.tasks.inspection.reader_attention import AttendingReader

    name = {Classifier: "a classifier", LanguageModel: "a language model", Embedder: "an encoder"}[type(trained)]
    if out is not None and out.suffix.lower() in (ALIGNMENT, PAGE):
        known = ", ".join((*PICTURES, *DATA))
        raise UsageError(f"{out}: only of a translator, but {run} holds {name}; write one of {known}")
    _refuse(given, ("target", "beam", "n-best"), f"is for a translator, but {run} holds {name}")
    if isinstance(trained, Embedder):
        _refuse(given, ("words",), "joins the subwords of dikkat's own tokenizers, not those of an imported encoder")
    attending = AttendingReader.of(trained)
    choices = _choices(attending, name, out, place)
    wanted = _wanted(attending, choices)
    # not a generator itself: what is wrong is said before a file of its kind is begun
    return (_selected(attending.read(sentence, wanted), choices) for sentence in sentences)


def _choices(attending: Attending | AttendingReader, name: str, out: Path | None, place: Place) -> list[Choice]:
    from dikkat.explain.sentence_maps import attention_name

    kind, layer, head = place
    everything = out is None or out.suffix.lower() in DATA
    layers = attending.layers
    there = [each for each, its_place in PLACES.items() if its_place in layers]
    if kind is not None and kind not in there:
        known = ", ".join(there)
        raise UsageError(f"--kind {kind}: {name} has no {attention_name(*PLACES[kind])}; choose from {known}")
    if out is None and kind is None and len(there) > 1:
        # how a sentence is read, and where what is written comes from
        there = [Attention.encoder, Attention.cross]
    # cross-attention is the last of those there are
    kinds = there if kind is None and everything else [kind or there[-1]]
    choices: list[Choice] = []
    for each in kinds:
        chosen = layers[PLACES[each]] if layer is None and not everything else layer
        choices.append((*PLACES[each], None if chosen is None else chosen - 1, None if head is None else head - 1))
    return choices


def _wanted(attending: Attending | AttendingReader, choices: list[Choice]) -> Wanted:
    wanted = [attending.choose(*choice) for choice in choices]
    return lambda name: any(each(name) for each in wanted)


def _selected(found: SentenceMaps, choices: list[Choice]) -> SentenceMaps:
    return replace(found, maps=tuple(each for choice in choices for each in found.select(*choice)))


def _tell(recorded: Iterator[SentenceMaps]) -> None:
    from dikkat.cli.streams import print_report
    from dikkat.explain.peaks import peak_lines

    for number, found in enumerate(recorded):
        print_report([""] if number else [])
        if found.source_tokens and found.output_tokens:
            print_report([found.output, ""])
        print_report(peak_lines(found))


def _write(recorded: Iterator[SentenceMaps], out: Path, words: bool, colours: Colours) -> None:
    from dikkat.explain.head_analysis import caution
    from dikkat.explain.joined_words import join_words
    from dikkat.explain.map_files import write_alignment, write_json, write_npz
    from dikkat.explain.plots import plot_heads
    from dikkat.explain.sentence_maps import with_written_rows
    from dikkat_runtime.text.visible import visible

    suffix = out.suffix.lower()
    is_picture = suffix in PICTURES
    outputs: list[str] = []
    cautions: list[str | None] = []

    def shown() -> Iterator[SentenceMaps]:
        # one sentence at a time: standard input may hold many
        for found in recorded:
            if found.source_tokens and found.output_tokens:
                outputs.append(found.output)
            cautions.append(caution(found))
            if is_picture:
                found = replace(found, maps=tuple(map(with_written_rows, found.maps)))
            yield join_words(found) if words else found

    with Announced(f"{out}: recording the maps"):
        if is_picture:
            (found,) = shown()
            is_read_only = found.maps[0].stack == "encoder" or not found.source_tokens
            title = found.source if is_read_only else f"{found.source} → {found.output}"
            plot_heads(found.maps, out, title, colours=colours.value)
        else:
            {".json": write_json, ".npz": write_npz, ALIGNMENT: write_alignment}[suffix](shown(), out)
    for output in outputs:
        print(visible(output))
    for number, line in enumerate(cautions, start=1):
        if line is not None:
            print(line if len(cautions) == 1 else f"{number}: {line}", file=sys.stderr)
    print_written(out)
