"""`dikkat generate`: a text is written on."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from dikkat.cli.engine_option import DEVICE_HELP, ENGINE_HELP, PRECISION_HELP, print_engine
from dikkat_runtime.engine.contract import EngineName
from dikkat_runtime.engine.options import Device, GenerationOptions
from dikkat_runtime.engine.precision import PrecisionName
from dikkat_runtime.errors import DataError
from dikkat_runtime.localization import localized
from dikkat_runtime.messages import msg

DEFAULTS = GenerationOptions()


def generate(
    run: Annotated[Path, typer.Argument(help="Run directory of a language model.", show_default=False)],
    prompt: Annotated[
        str | None,
        typer.Argument(help="Start of the text; else standard input without its last line break, else a new text."),
    ] = None,
    max_tokens: Annotated[int, typer.Option(help="Most tokens to write.")] = DEFAULTS.max_tokens,
    samples: Annotated[int, typer.Option("--samples", "-n", help="Texts to write, side by side.")] = 1,
    greedy: Annotated[bool, typer.Option("--greedy", help="Always the most probable token: temperature 0.")] = False,
    temperature: Annotated[
        float, typer.Option(help="Below 1 sharper, above 1 flatter, 0 greedy.")
    ] = DEFAULTS.temperature,
    top_k: Annotated[int, typer.Option(help="Only so many most probable tokens; 0 is all.")] = DEFAULTS.top_k,
    top_p: Annotated[float, typer.Option(help="Only the most probable tokens of this share.")] = DEFAULTS.top_p,
    min_p: Annotated[
        float, typer.Option(help="Only tokens with this share of the best one's probability.")
    ] = DEFAULTS.min_p,
    repetition_penalty: Annotated[
        float, typer.Option(help="Above 1 makes tokens in sight less probable.")
    ] = DEFAULTS.repetition_penalty,
    no_repeat_ngram: Annotated[
        int, typer.Option(help="Write no n-gram of so many tokens that is in sight already; 0 allows all.")
    ] = DEFAULTS.no_repeat_ngram,
    stop: Annotated[list[str] | None, typer.Option(help="End before this text; may be given often.")] = None,
    seed: Annotated[int, typer.Option(help="Decides what is drawn.")] = DEFAULTS.seed,
    context: Annotated[
        int | None, typer.Option(help="Most tokens in sight; bounds memory, not length; else as in training.")
    ] = None,
    precision: Annotated[PrecisionName, typer.Option(help=PRECISION_HELP)] = "auto",
    device: Annotated[Device, typer.Option(help=DEVICE_HELP)] = "cpu",
    engine: Annotated[EngineName, typer.Option(help=ENGINE_HELP)] = "auto",
) -> None:
    """Write a text on from PROMPT, token by token as it comes; the prompt is part of the output."""
    options = GenerationOptions(
        max_tokens=max_tokens,
        temperature=0.0 if greedy else temperature,
        top_k=top_k,
        top_p=top_p,
        min_p=min_p,
        repetition_penalty=repetition_penalty,
        no_repeat_ngram=no_repeat_ngram,
        seed=seed,
        context=context,
    )
    from dikkat.tasks.language_model.opening import open_language_model

    model = open_language_model(run, engine, precision, device)
    print_engine(model.info)
    start = _standard_input() if prompt is None else prompt
    if unknown := model.unknown(start):
        shown = ", ".join(map(repr, unknown[:10]))
        print(msg("not in the vocabulary, and read as <unk>: {shown}").fill(shown), file=sys.stderr)
    if samples == 1:
        _show(start, model.stream(start, options=options, stop=stop or ()))
        return
    (continuations,) = model.generate([start], samples=samples, options=options, stop=stop or ())
    for number, continuation in enumerate(continuations, start=1):
        print(localized(msg("--- {number} of {samples} ---").fill(number, samples)))
        _show(start, [continuation.text])


def _show(start: str, pieces: Iterable[str]) -> None:
    """The prompt and what comes after it, on the terminal as it comes; ends in a line break."""
    last = start
    sys.stdout.write(start)
    sys.stdout.flush()
    for piece in pieces:
        sys.stdout.write(piece)
        sys.stdout.flush()
        last = piece or last
    if not last.endswith("\n"):
        sys.stdout.write("\n")
    sys.stdout.flush()


def _standard_input() -> str:
    if sys.stdin.isatty():
        return ""
    try:
        return sys.stdin.buffer.read().decode("utf-8").removesuffix("\n")
    except UnicodeDecodeError as error:
        raise DataError("standard input: byte {start} is not valid UTF-8").fill(error.start + 1) from None
