"""`dikkat generate`: a text is written on."""

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

from dikkat_runtime.cli.opening import ENGINE, EngineOptions, open_model, print_engine
from dikkat_runtime.cli.options import Argument, Option
from dikkat_runtime.cli.streams import print_note
from dikkat_runtime.engine.options import GenerationOptions
from dikkat_runtime.errors import DataError
from dikkat_runtime.localization import translated
from dikkat_runtime.tasks.generator import Prompt

DEFAULTS = GenerationOptions()


def generate(
    run: Annotated[Path, Argument(help="Run directory of a language model.")],
    prompt: Annotated[
        str | None,
        Argument(help="Beginning of the text; by default, standard input without its last line break, or a new text."),
    ] = None,
    chat: Annotated[bool, Option("--chat", help="Answer PROMPT, as a message by the model's chat template.")] = False,
    max_tokens: Annotated[int, Option(help="Maximum number of tokens to write.")] = DEFAULTS.max_tokens,
    samples: Annotated[int, Option("--samples", "-n", help="Number of texts to write, side by side.")] = 1,
    greedy: Annotated[bool, Option("--greedy", help="Always the most probable token: temperature 0.")] = False,
    temperature: Annotated[float, Option(help="Below 1 sharper, above 1 flatter, 0 greedy.")] = DEFAULTS.temperature,
    top_k: Annotated[int, Option(help="Sample only from this many most probable tokens; 0 is all.")] = DEFAULTS.top_k,
    top_p: Annotated[
        float, Option(help="Sample only from the most probable tokens that make up this share.")
    ] = DEFAULTS.top_p,
    min_p: Annotated[
        float, Option(help="Sample only tokens with at least this share of the best token's probability.")
    ] = DEFAULTS.min_p,
    repetition_penalty: Annotated[
        float, Option(help="Above 1 makes tokens of the context less probable.")
    ] = DEFAULTS.repetition_penalty,
    no_repeat_ngram: Annotated[
        int, Option(help="Write no n-gram of this many tokens that the context already holds; 0 allows all.")
    ] = DEFAULTS.no_repeat_ngram,
    stop: Annotated[list[str] | None, Option(help="Stop before this text; can be repeated.")] = None,
    seed: Annotated[int, Option(help="Random seed.")] = DEFAULTS.seed,
    context: Annotated[
        int | None, Option(help="Longest context in tokens; bounds memory, not length; by default, as in training.")
    ] = None,
    choice: EngineOptions = ENGINE,
) -> None:
    """Continue PROMPT, token by token as it comes; the prompt is part of the output, unless it is answered."""
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
    model = open_model("Generator", run, choice)
    print_engine(model.info)
    start = _standard_input() if prompt is None else prompt
    if unknown := model.unknown(start):
        shown = ", ".join(map(repr, unknown[:10]))
        print_note("not in the vocabulary, and read as <unk>: {tokens}", shown)
    asked: Prompt = [("user", start)] if chat else start
    start = "" if chat else start
    if samples == 1:
        _show(start, model.stream(asked, options=options, stop=stop or ()))
        return
    (continuations,) = model.generate([asked], samples=samples, options=options, stop=stop or ())
    for number, continuation in enumerate(continuations, start=1):
        print(translated("--- {number} of {samples} ---", number, samples))
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
        raise DataError("standard input: byte {start} is not valid UTF-8", error.start + 1) from None
