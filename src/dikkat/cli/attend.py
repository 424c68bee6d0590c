"""`dikkat attend`: where a translator looks while it reads and writes a sentence."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dikkat.decoding.options import BeamOptions
from dikkat.errors import DataError, UsageError

if TYPE_CHECKING:
    from dikkat.config import ModelConfig
    from dikkat.explain.attention_map import Kind, Stack
    from dikkat.explain.sentence_maps import SentenceMaps
    from dikkat.nn.recorder import MapName
    from dikkat.pipelines import Translator

    Choice = tuple[Stack, Kind, int | None, int | None]
    """Stack, kind, layer and head from 0; None is every one."""


class Attention(StrEnum):
    """What attends to what."""

    encoder = "encoder"
    decoder = "decoder"
    cross = "cross"


class Colours(StrEnum):
    """From white, for 0, to the darkest."""

    Reds = "Reds"
    Blues = "Blues"


PICTURES, DATA, ALIGNMENT, PAGE = (".png", ".svg"), (".json", ".npz"), ".align", ".html"
SUFFIXES = (*PICTURES, *DATA, ALIGNMENT, PAGE)
BEAM = BeamOptions()


def attend(
    run: Annotated[Path, typer.Argument(help="Run directory.", show_default=False)],
    sentence: Annotated[str, typer.Argument(help="In quotes; - reads one a line from standard input.")],
    out: Annotated[Path, typer.Option(help=f"File to write: {', '.join(SUFFIXES)}.", show_default=False)],
    target: Annotated[str | None, typer.Option(help="A translation instead of the model's own.")] = None,
    kind: Annotated[
        Attention | None, typer.Option(help="Within the encoder or decoder, or cross; in JSON and npz all if absent.")
    ] = None,
    layer: Annotated[int | None, typer.Option(help="From 1; the last if absent, in JSON and npz all.")] = None,
    head: Annotated[int | None, typer.Option(help="From 1; all if absent.")] = None,
    words: Annotated[bool, typer.Option("--words", help="Join subwords to words.")] = False,
    colours: Annotated[Colours | None, typer.Option(help="Of a picture; Reds if absent.")] = None,
    beam: Annotated[
        int | None, typer.Option(help=f"Hypotheses followed side by side, {BEAM.beam_size} if absent; 1 is greedy.")
    ] = None,
    n_best: Annotated[int | None, typer.Option(help="Translations whose maps are written; 1 if absent.")] = None,
) -> None:
    """Write what a translation attends to: a picture, data, a word alignment, or a page to explore.

    Its translations go to standard output. A picture shows the heads of one layer; .align links each target word to a
    source word (source-target, from 0), by the mean of the chosen heads; .html holds everything.
    """
    given = {"target": target, "kind": kind, "layer": layer, "head": head, "words": words or None, "colours": colours}
    _check(out, sentence, {**given, "beam": beam, "n-best": n_best})
    from dikkat.disk import probe_beside, write_errors
    from dikkat.pipelines import load

    with write_errors(out):
        probe_beside(out)
    translator = load(run)
    if out.suffix.lower() == PAGE:
        from dikkat.pipelines.page import write_page

        texts = list(_sentences(sentence))
        write_page(translator, texts, out, targets=None if target is None else [target])
        return
    options = BeamOptions(
        beam_size=BEAM.beam_size if beam is None else beam, n_best=BEAM.n_best if n_best is None else n_best
    )
    choices = _choices(kind, layer, head, translator.config.model, everything=out.suffix.lower() in DATA)
    found = _recorded(translator, _sentences(sentence), target, options, choices)
    _write(found, out, words, colours or Colours.Reds)


def _check(out: Path, sentence: str, given: Mapping[str, object]) -> None:
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


def _choices(
    kind: Attention | None, layer: int | None, head: int | None, model: ModelConfig, *, everything: bool
) -> list[Choice]:
    attentions: dict[Attention, tuple[Stack, Kind, int]] = {
        Attention.encoder: ("encoder", "self", model.encoder_layers),
        Attention.decoder: ("decoder", "self", model.decoder_layers),
        Attention.cross: ("decoder", "cross", model.decoder_layers),
    }
    kinds = list(attentions) if kind is None and everything else [kind or Attention.cross]
    choices: list[Choice] = []
    for stack, of, layers in (attentions[each] for each in kinds):
        chosen = layers if layer is None and not everything else layer
        choices.append((stack, of, None if chosen is None else chosen - 1, None if head is None else head - 1))
    return choices


def _recorded(
    translator: Translator, sentences: Iterable[str], target: str | None, options: BeamOptions, choices: list[Choice]
) -> Iterator[SentenceMaps]:
    from dikkat.pipelines.attending import Attending

    attending = Attending(translator)
    wanted = [attending.choose(*choice) for choice in choices]

    def is_wanted(name: MapName) -> bool:
        return any(each(name) for each in wanted)

    for sentence in sentences:
        if target is None:
            outputs = attending.hypotheses(sentence, options, is_wanted)
        else:
            outputs = (attending.forced(sentence, target, is_wanted),)
        for found in outputs:
            yield replace(found, maps=tuple(each for choice in choices for each in found.select(*choice)))


def _write(recorded: Iterator[SentenceMaps], out: Path, words: bool, colours: Colours) -> None:
    from dikkat.explain.honesty import caution
    from dikkat.explain.joined_words import join_words
    from dikkat.explain.map_files import write_alignment, write_json, write_npz
    from dikkat.explain.plots import plot_heads

    outputs: list[str] = []
    cautions: list[str | None] = []

    def shown() -> Iterator[SentenceMaps]:
        # one sentence at a time: standard input may hold many
        for found in recorded:
            outputs.append(found.output)
            cautions.append(caution(found))
            yield join_words(found) if words else found

    suffix = out.suffix.lower()
    if suffix in PICTURES:
        (found,) = shown()
        is_read_only = found.maps[0].stack == "encoder"
        title = found.source if is_read_only else f"{found.source} → {found.output}"
        plot_heads(found.maps, out, title, colours=colours.value)
    else:
        {".json": write_json, ".npz": write_npz, ALIGNMENT: write_alignment}[suffix](shown(), out)
    for output in outputs:
        print(output)
    for number, line in enumerate(cautions, start=1):
        if line is not None:
            print(line if len(outputs) == 1 else f"{number}: {line}", file=sys.stderr)
