"""`dikkat train translator`: from parallel text to a run directory."""

import time
from functools import partial
from pathlib import Path
from typing import Annotated

from dikkat.cli.training import Ending, TrainOptions, run_job
from dikkat.data.languages import language_code
from dikkat_runtime.cli.options import Argument, Option
from dikkat_runtime.errors import msg
from dikkat_runtime.hints import piped

EXAMPLE = """Which text? A table of sentence pairs (.tsv, .csv, .jsonl, .tmx, .po …) or two aligned files.
For example, pairs.tsv:

  The cat is sleeping.\tLe chat dort.
  Where are my keys?\tOù sont mes clés ?
  It is raining.\tIl pleut.

  dikkat train translator pairs.tsv --out runs/mine --minutes 10"""


def translator(
    data: Annotated[
        list[str] | None,
        Argument(
            help="Any number of .tsv, .csv, .jsonl, .tmx, .xlf, .po and .mo (each also .gz, .bz2, .xz, .zip), of two"
            " aligned files or documents (.srt .md .html .docx), and gettext:fr; or phrasebook:fr.",
        ),
    ] = None,
    training: TrainOptions = ...,  # type: ignore[assignment]
    valid: Annotated[
        list[str] | None,
        Option(help="Data to validate on, in the same forms (twice for two files); else held out from DATA."),
    ] = None,
    preset: Annotated[str | None, Option(help="tiny, small, base or d2l; else chosen from the amount of data.")] = None,
    source_column: Annotated[str | None, Option(help="Column of the source: number from 1, or name.")] = None,
    target_column: Annotated[str | None, Option(help="Column of the target: number from 1, or name.")] = None,
    source_language: Annotated[
        str | None,
        Option(help="Language of the source, as en; chooses in .tmx. By default from tags or file names, or guessed."),
    ] = None,
    target_language: Annotated[
        str | None,
        Option(help="Language of the target, as tr; chooses in .tmx. By default from tags or file names, or guessed."),
    ] = None,
    members: Annotated[
        int | None,
        Option(help="Train this many models from different seeds; they share --minutes and translate together."),
    ] = None,
    watch: Annotated[Path | None, Option(help="HTML page that follows the run.")] = None,
) -> int:
    """Train a translator from parallel text."""
    started = time.monotonic()
    settings = training.settings()
    if members is not None:
        own = settings.setdefault("training", {})
        own["members"] = members
        if training.minutes is not None:
            own["minutes"] = training.minutes / max(1, members)
    for side, language in (("source", source_language), ("target", target_language)):
        if language is not None:
            settings.setdefault("data", {})[f"{side}_language"] = language_code(language)

    from dikkat.tasks.translation.prepare import TrainRequest
    from dikkat.tasks.translation.train import TranslatorJob
    from dikkat.tasks.translation.watch import train_watched

    columns = (source_column, target_column)
    request = TrainRequest(
        data or (), valid or (), columns, preset, settings, training.where, training.device, training.start
    )
    ending = Ending(msg("best validation chrF {score:.2f}"), piped("translate", training.out))
    runner = partial(train_watched, page=watch) if watch else None
    return run_job("translator", TranslatorJob(request), training, started, ending, runner)
