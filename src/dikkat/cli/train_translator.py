"""`dikkat train translator`: from parallel text to a run directory."""

import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Annotated

from dikkat.cli.training import Ending, Settings, TrainOptions, Valid, run_job
from dikkat.data.languages import language_code
from dikkat.training.distributed.environment import own_rank
from dikkat_runtime.cli.options import Argument, Option
from dikkat_runtime.cli.streams import print_remark
from dikkat_runtime.errors import UsageError, msg
from dikkat_runtime.hints import piped

EXAMPLE = """Which text? A table of sentence pairs (.tsv, .csv, .jsonl, .tmx, .po …) or two aligned files.
For example, pairs.tsv:

  The cat is sleeping.\tLe chat dort.
  Where are my keys?\tOù sont mes clés ?
  It is raining.\tIl pleut.

  dikkat train translator pairs.tsv --out runs/mine --minutes 10"""


_Keep = Annotated[
    list[Path] | None,
    Option(help="With --from: general text to go on translating as well, as lines of the source, or .tsv or .tmx."),
]
_Adapter = Annotated[
    bool, Option("--adapter", help="With --from: keep only what is added to it, by low-rank updates of up to 3 MB.")
]


def translator(
    data: Annotated[
        list[str] | None,
        Argument(
            help="Any number of .tsv, .csv, .jsonl, .tmx, .xlf, .po and .mo (each also .gz, .bz2, .xz, .zip), of two"
            " aligned files or documents (.srt .md .html .docx), and gettext:fr; or phrasebook:fr."
        ),
    ] = None,
    training: TrainOptions = ...,  # type: ignore[assignment]
    valid: Valid = None,
    preset: Annotated[str | None, Option(help="tiny, small, base or d2l; else chosen from the amount of data.")] = None,
    keep: _Keep = None,
    adapter: _Adapter = False,
    source_column: Annotated[str | None, Option(help="Column of the source: number from 1, or name.")] = None,
    target_column: Annotated[str | None, Option(help="Column of the target: number from 1, or name.")] = None,
    source_language: Annotated[
        str | None,
        Option(
            help="Language of the source, such as en; chooses in .tmx; by default from tags, file names, or guessed."
        ),
    ] = None,
    target_language: Annotated[
        str | None,
        Option(
            help="Language of the target, such as tr; chooses in .tmx; by default from tags, file names, or guessed."
        ),
    ] = None,
    members: Annotated[
        int | None,
        Option(help="Train this many models from different seeds; they share --minutes and translate together."),
    ] = None,
    student: Annotated[
        bool, Option("--student", help="One more model learns what all --members write, and is as fast as one of them.")
    ] = False,
    watch: Annotated[Path | None, Option(help="HTML page that follows the run.")] = None,
) -> int:
    """Train a translator from parallel text."""
    started = time.monotonic()
    settings = _settings(training, members, student, adapter, {"source": source_language, "target": target_language})

    from dikkat.tasks.translation.prepare import TrainRequest
    from dikkat.tasks.translation.train import TranslatorJob
    from dikkat.tasks.translation.watch import train_watched

    columns = (source_column, target_column)
    request = TrainRequest(
        data or (), valid or (), columns, preset, settings, training.where, training.device, training.start, keep or ()
    )
    ending = Ending(msg("best validation chrF {score:.2f}"), piped("translate", training.out))
    runner = partial(train_watched, page=watch) if watch else None
    code = run_job("translator", TranslatorJob(request), training, started, ending, runner)
    if adapter and code == 0:
        from dikkat.tasks.translation.adapted_weights import keep_adapter

        print_remark(keep_adapter(training.out))
    return code


def _settings(
    training: TrainOptions, members: int | None, student: bool, adapter: bool, languages: Mapping[str, str | None]
) -> Settings:
    settings = training.settings()
    if members is not None or student:
        own, asked = settings.setdefault("training", {}), {"members": members, "student": student or None}
        own |= {name: value for name, value in asked.items() if value is not None}
        if training.minutes is not None:
            own["minutes"] = training.minutes / max(1, (members or 1) + student)
    if adapter:
        if members is not None or student or own_rank().count > 1 or (training.start is None and not training.resume):
            raise UsageError("--adapter is for one model that starts --from another: no --members, --student, --nproc")
        if training.start is not None:
            from dikkat.tasks.translation.adapted_weights import adapter_rank

            settings.setdefault("training", {}).setdefault("low_rank", adapter_rank(training.start))
    for side, language in languages.items():
        if language is not None:
            settings.setdefault("data", {})[f"{side}_language"] = language_code(language)
    return settings
