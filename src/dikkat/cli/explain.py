"""`dikkat explain`: the arithmetic of attention, digit by digit."""

from __future__ import annotations

import math
import shutil
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from dikkat_runtime.cli.opening import JsonOption
from dikkat_runtime.cli.options import Argument, Option
from dikkat_runtime.cli.streams import print_report
from dikkat_runtime.errors import UsageError, msg
from dikkat_runtime.localization import localized

if TYPE_CHECKING:
    from dikkat.explain.explanation import Explanation
    from dikkat.explain.trace import ModelTrace, Trace


def explain(
    sentence: Annotated[str, Argument(help="What is attended to, in quotes.")],
    query: Annotated[str | None, Option(help="The word or token that attends, or its number from 1.")] = None,
    vector: Annotated[
        list[str] | None, Option(help='Vector of a word, "0.1 0.2 0.3"; once for each word, in order.')
    ] = None,
    vectors: Annotated[Path | None, Option(help="File of vectors: lines of word, tab, numbers.")] = None,
    beta: Annotated[float | None, Option(help="Multiplies the scores of typed words; 1 if absent.")] = None,
    scaled: Annotated[bool, Option("--scaled", help="The same as --beta 1/sqrt(width).")] = False,
    run: Annotated[
        Path | None, Option(help="Run directory of a translator, to explain a cell of it, or of a language model.")
    ] = None,
    stack: Annotated[Literal["encoder", "decoder"] | None, Option(help="With --run: encoder or decoder.")] = None,
    layer: Annotated[int | None, Option(help="With --run: from 1, the lowest.")] = None,
    head: Annotated[int | None, Option(help="With --run: from 1.")] = None,
    kind: Annotated[Literal["self", "cross"] | None, Option(help="With --run: self or cross.")] = None,
    target: Annotated[str | None, Option(help="With --run: a translation instead of the model's own.")] = None,
    number: Annotated[
        int | None,
        Option(
            "--sentence",
            min=1,
            help="With --run: number of the sentence, where there are several, from 1; the first if absent.",
        ),
    ] = None,
    words: Annotated[
        bool, Option("--words", help="With --run: also the weights by word, those of its tokens added.")
    ] = False,
    full: Annotated[bool, Option("--full", help="Write out every number of wide vectors.")] = False,
    against: Annotated[
        str | None,
        Option(help="With --run of a language model: a text of as many tokens; shows where their difference is kept."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Show how attention computes: scores, weights and context of typed words, or any cell of a trained model.

    The vectors of "Hello shiny sun!" and "Your journey starts with one step" are built in.
    """
    cell_options = {"stack": stack, "layer": layer, "head": head, "kind": kind, "target": target}
    cell_options |= {"words": words or None, "sentence": number, "against": against}
    word_options = {"vector": vector or None, "vectors": vectors, "beta": beta, "scaled": scaled or None}
    if run is None:
        _refuse(cell_options, msg("needs --run DIR: it chooses a cell of a trained model"))
        temperature = _inverse_temperature(beta, scaled)
        _print(*_explain_words(sentence, query, vector or [], vectors, temperature, full), as_json)
    else:
        _refuse(word_options, msg("is for typed words, not for --run: a trained model has its own"))
        if (explained := _explain_text(run, sentence, against, {**cell_options, "query": query})) is not None:
            _print(*explained, as_json)
            return
        cell = (stack, 1 if layer is None else layer, 1 if head is None else head, kind)
        _print(*_explain_model(run, sentence, query or "1", cell, target, number, full, words), as_json)


def _explain_words(
    sentence: str, query: str | None, typed: list[str], file: Path | None, beta: float | None, full: bool
) -> tuple[Explanation, Trace]:
    from dikkat.explain.three_steps import render_three_steps
    from dikkat.explain.trace import trace_cell
    from dikkat.explain.word_vectors import known_vectors, typed_vectors

    if typed and file is not None:
        raise UsageError("--vector and --vectors both give the vectors; leave one of them out")
    words = typed_vectors(sentence, typed) if typed else known_vectors(sentence, file)
    trace = trace_cell(words.cell(query, words.vectors.shape[1] ** -0.5 if beta is None else beta))
    return render_three_steps(words, trace, full=full), trace


def _explain_text(
    run: Path, text: str, against: str | None, options: dict[str, object]
) -> tuple[Explanation, dict[str, Any]] | None:
    """Explain what a language model is about to write; return None where the run holds another kind."""
    from dikkat.tasks.kinds import load
    from dikkat.tasks.language_model.explanation import explain_text
    from dikkat_runtime.tasks.generator import Generator as LanguageModel

    trained = load(run)
    if not isinstance(trained, LanguageModel):
        if against is not None:
            raise UsageError("--against is for a language model, but {run} holds another kind; leave it out", run)
        return None
    _refuse({**options, "against": None}, msg("is for a cell of a translator; leave it out"))
    return explain_text(trained, text, against)


def _explain_model(
    run: Path,
    sentence: str,
    query: str,
    cell_options: tuple[str | None, int, int, str | None],
    target: str | None,
    number: int | None,
    full: bool,
    words: bool,
) -> tuple[Explanation, ModelTrace]:
    stack, layer, head, kind = cell_options
    from dikkat.cli.attend import sentences_of
    from dikkat.explain.six_steps import render_six_steps, word_step
    from dikkat.nn.recorder import MapName
    from dikkat.tasks.inspection.arithmetic import explain_cell
    from dikkat.tasks.kinds import load
    from dikkat_runtime.tasks.translator import Translator

    translator = load(run)
    if not isinstance(translator, Translator):
        raise UsageError("{run}: holds no translator; only cells of a translator can be explained", run)
    if target is None:
        ((sentence, _),) = sentences_of(translator, [sentence], number, 1)
    elif number is not None:
        raise UsageError("--sentence chooses a sentence of one text that the model translates; leave it out")
    name = MapName(stack or ("decoder" if kind == "cross" else "encoder"), layer - 1, kind or "self")  # type: ignore[arg-type]
    cell = explain_cell(translator, sentence, name, head - 1, query, target)
    explanation = render_six_steps(cell.trace, cell.sentence, cell.target, cell.query_tokens, full=full)
    if words:
        reads_target = cell.trace.stack == "decoder" and cell.trace.kind == "self"
        read = (cell.target or "") if reads_target else cell.sentence
        explanation = replace(explanation, steps=(*explanation.steps, word_step(cell.trace, read)))
    return explanation, cell.trace


def _inverse_temperature(beta: float | None, scaled: bool) -> float | None:
    """What typed scores are multiplied by; None stands for 1/sqrt(width), when the width is known."""
    if beta is not None and scaled:
        raise UsageError("--beta and --scaled both set the inverse temperature; leave one of them out")
    if beta is not None and not math.isfinite(beta):
        raise UsageError("--beta must be a finite number, not {beta}", beta)
    return None if scaled else 1.0 if beta is None else beta


def _refuse(options: Mapping[str, object], reason: str) -> None:
    for name, value in options.items():
        if value is not None:
            raise UsageError("--{name} {reason}", name, reason)


def _print(explanation: Explanation, traced: Trace | ModelTrace | dict[str, Any], is_json: bool) -> None:
    from dikkat.explain.explanation import as_json, as_table

    explanation = explanation.mapped(localized)
    if is_json:
        sys.stdout.write(as_json(explanation, traced))
    else:
        print_report([as_table(explanation, shutil.get_terminal_size((100, 24)).columns).removesuffix("\n")])
