"""`dikkat train classifier`: from labelled texts to a run directory."""

import time
from typing import Annotated

from dikkat.cli.training import Ending, TrainOptions, Valid, run_job
from dikkat.data.languages import language_code
from dikkat_runtime.cli.options import Argument, Option
from dikkat_runtime.errors import msg
from dikkat_runtime.hints import piped

PrecisionAt = Annotated[
    float | None,
    Option(
        min=0.01,
        max=1.0,
        help="Precision that each label should have where a text may have several; by default, each threshold is "
        "the one with the best F1.",
    ),
]
LabelSeparator = Annotated[
    str | None, Option(help="Separator of the labels of a text that may have several or none, as in 'a;b'.")
]

EXAMPLE = """Which texts? A table with a label and a text in each line (.tsv, .csv, .jsonl).
For example, reviews.tsv:

  good\tI liked every minute of it.
  bad\tNever again.
  good\tA fine film for a rainy day.

  dikkat train classifier reviews.tsv --out runs/reviews"""


def classifier(
    data: Annotated[
        list[str] | None,
        Argument(
            help="A .tsv, .csv or .jsonl with label and text (also compressed), or two aligned files, labels first; in"
            ' JSONL a label may be a list: "label": ["a", "b"].'
        ),
    ] = None,
    training: TrainOptions = ...,  # type: ignore[assignment]
    valid: Valid = None,
    label_column: Annotated[str | None, Option(help="Column of the label: number from 1, or name.")] = None,
    text_column: Annotated[str | None, Option(help="Column of the text: number from 1, or name.")] = None,
    label_separator: LabelSeparator = None,
    precision_at: PrecisionAt = None,
    balance: Annotated[bool, Option("--balance", help="Let each class count the same, however rare.")] = False,
    text_language: Annotated[
        str | None, Option(help="Code of the language of the texts, such as tr; by default, guessed from them.")
    ] = None,
    preset: Annotated[str | None, Option(help="imdb_seed, …; else chosen from the amount of data.")] = None,
) -> int:
    """Train a classifier from labelled texts.

    It begins with a table of all words, which neither a page nor an export to ONNX, Keras or the web can hold: for
    those add --set classifier.word_table=false.
    """
    started = time.monotonic()
    settings = training.settings()
    if text_language is not None:
        settings.setdefault("data", {})["source_language"] = language_code(text_language)
    asked = {"balance": balance or None, "precision_at": precision_at, "label_separator": label_separator}
    if typed := {name: value for name, value in asked.items() if value is not None}:
        settings.setdefault("classifier", {}).update(typed)

    from dikkat.tasks.classification.train import ClassifierJob
    from dikkat.tasks.common.settings import Request

    columns = (label_column, text_column)
    request = Request(
        data or (), valid or (), columns, preset, settings, training.where, training.device, training.start
    )
    ending = Ending(msg("best validation score {score:.2f}"), piped("classify", training.out))
    return run_job("classifier", ClassifierJob(request), training, started, ending)
