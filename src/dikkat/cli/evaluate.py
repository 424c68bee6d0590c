"""`dikkat evaluate`: scores next to baselines, those of translations with their signatures."""

from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from dikkat.cli.progress import Announced
from dikkat_runtime.cli.opening import (
    COMPUTE,
    BeamOption,
    ComputeOptions,
    JsonOption,
    LengthPenaltyOption,
    print_engine,
)
from dikkat_runtime.cli.options import Argument, Option
from dikkat_runtime.cli.streams import print_json, print_note, print_remark, print_report, print_written
from dikkat_runtime.engine.options import BeamOptions, DecodingOptions
from dikkat_runtime.errors import UsageError, msg
from dikkat_runtime.localization import language

BEAM = BeamOptions()

Columns = tuple[str | None, str | None]
_TEXTS = ("sources", "translations", "references", "scoring", "texts", "answers")
"""What --json does not hold of an evaluation: its texts, and how they were read."""


def _print(evaluation: object, as_json: bool, lines: Iterable[str]) -> None:
    if as_json:
        print_json(evaluation, without=_TEXTS)
    else:
        print_report(lines)


def evaluate(
    run: Annotated[Path, Argument(help="Run directory.")],
    data: Annotated[
        list[str] | None, Argument(help="Data as for train; the run's own held-out test part if absent.")
    ] = None,
    beam: BeamOption = BEAM.beam_size,
    length_penalty: LengthPenaltyOption = None,
    how: ComputeOptions = COMPUTE,
    samples: Annotated[int, Option(help="Translations, or mistakes it was most sure of, to show.")] = 0,
    picture: Annotated[Path | None, Option(help="Draw the confusion matrix of a classifier (.png, .svg).")] = None,
    source_column: Annotated[str | None, Option(help="Column of the source: number from 1, or name.")] = None,
    target_column: Annotated[str | None, Option(help="Column of the target: number from 1, or name.")] = None,
    stride: Annotated[
        int | None, Option(help="Tokens by which the window of a language model moves; half the context if absent.")
    ] = None,
    label_column: Annotated[str | None, Option(help="Column of the label: number from 1, or name.")] = None,
    text_column: Annotated[str | None, Option(help="Column of the text: number from 1, or name.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Score a translator, a classifier or a language model on held-out or named data.

    A translator gets sacreBLEU and chrF (words as its target language has them, case as it writes it), a classifier
    accuracy and F1, a language model perplexity and bits a byte.
    """
    from dikkat.run_directory import RunDirectory

    task = RunDirectory.open(run).read_config().get("task")
    if task == "classifier":
        return _classifier(run, data or [], (label_column, text_column), samples, picture, how, as_json)
    if picture is not None:
        raise UsageError("--picture draws the confusion matrix of a classifier, but this run is not one")
    if task == "lm":
        return _language_model(run, data or [], stride, how, as_json)
    options = BeamOptions(beam_size=beam, length_penalty=length_penalty)
    return _translator(run, data or [], (source_column, target_column), samples, options, how, as_json)


def _translator(
    run: Path,
    data: list[str],
    columns: Columns,
    samples: int,
    options: DecodingOptions,
    how: ComputeOptions,
    as_json: bool,
) -> None:
    with _announced(run, data, msg("translating")):
        from dikkat.tasks.translation.evaluate import evaluate_translator

        evaluation = evaluate_translator(run, data, options, columns, **asdict(how), on_engine=print_engine)
    _print(evaluation, as_json, [*evaluation.lines(language()), *evaluation.samples(samples)])


def _language_model(run: Path, data: list[str], stride: int | None, how: ComputeOptions, as_json: bool) -> None:
    with _announced(run, data, msg("reading")):
        from dikkat.tasks.language_model.evaluate import evaluate_language_model

        evaluation = evaluate_language_model(run, data, stride, **asdict(how), on_engine=print_engine)
    _print(evaluation, as_json, evaluation.lines())
    if evaluation.unknown:
        shown = ", ".join(map(repr, evaluation.unknown[:10]))
        print_note("not in the vocabulary, and read as <unk>: {tokens}", shown)


def _classifier(
    run: Path, data: list[str], columns: Columns, samples: int, picture: Path | None, how: ComputeOptions, as_json: bool
) -> None:
    from dikkat.explain.pictures import check_format

    if picture is not None:
        check_format(picture)
    with _announced(run, data, msg("classifying")):
        from dikkat.tasks.classification.evaluate import evaluate_classifier

        evaluation = evaluate_classifier(run, data, columns, print_remark, **asdict(how), on_engine=print_engine)
        if picture is not None:
            evaluation.draw(picture)
    _print(evaluation, as_json, [*evaluation.lines(), *evaluation.mistakes(samples)])
    print_written(picture)


def _announced(run: Path, data: list[str], work: str) -> Announced:
    return Announced(msg("{run}: {work} {data}", run, work, " ".join(data) or msg("what it has held out")))
