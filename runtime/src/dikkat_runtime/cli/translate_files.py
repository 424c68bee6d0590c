"""`dikkat translate-files`: many files in, as many files out, by many workers."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

from dikkat_runtime.cli.opening import (
    COMPUTE,
    AllWordsOption,
    BeamOption,
    ComputeOptions,
    FormalityOption,
    LengthPenaltyOption,
    NoCorrectionsOption,
)
from dikkat_runtime.cli.options import Argument, Option
from dikkat_runtime.cli.streams import print_remark, terminal
from dikkat_runtime.engine.options import BeamOptions
from dikkat_runtime.rows.contract import FormatName

_BEAM = BeamOptions()
_Column = Annotated[str, Option(help="Column with the text: a name, or a number from 1 without a header.")]
_Format = Annotated[FormatName | None, Option(help="Format of files whose names do not tell it.")]
_Workers = Annotated[int | None, Option(min=1, help="Processes; if absent, as many as there are processors, or files.")]
_Threads = Annotated[
    int | None, Option(min=1, help="Threads of each worker; by default, its share of the processors, one with --ray.")
]
_Shard = Annotated[str | None, Option(help="Task of a job array: its number and how many there are, as in 3/8.")]


def translate_files(
    run: Annotated[Path, Argument(help="Run directory of any kind of model.")],
    inputs: Annotated[list[Path], Argument("IN", help="Files, and folders of files.")],
    out: Annotated[Path, Option(help="Output folder; the files keep the names of IN.")],
    column: _Column = "",
    output_column: Annotated[str, Option(help="Name of the new column.")] = "",
    format: _Format = None,
    embed: Annotated[bool, Option("--embed", help="Write vectors, also for a translator or a classifier.")] = False,
    beam: BeamOption = _BEAM.beam_size,
    length_penalty: LengthPenaltyOption = None,
    formality: FormalityOption = "default",
    no_corrections: NoCorrectionsOption = False,
    all_words: AllWordsOption = False,
    workers: _Workers = None,
    threads: _Threads = None,
    ray: Annotated[bool, Option("--ray", help="Run the workers as Ray actors.")] = False,
    ray_address: Annotated[
        str, Option(help="Address of a running cluster; by default, Ray starts on this computer.")
    ] = "",
    shard: _Shard = None,
    force: Annotated[bool, Option("--force", help="Make again what was made with other options.")] = False,
    estimate: Annotated[bool, Option("--estimate", help="Only estimate how long it would take.")] = False,
    choice: ComputeOptions = COMPUTE,
) -> None:
    """Translate, classify or embed the rows of many files, depending on the kind of the run.

    Each file becomes one file of the same name in --out, complete or absent; complete files are skipped.
    """
    _work(**locals())


def _work(
    *, run: Path, embed: bool, no_corrections: bool, shard: str | None, choice: ComputeOptions, **options: Any
) -> None:
    from dikkat_runtime.documents.formats import refuse_document
    from dikkat_runtime.run.config import read_config
    from dikkat_runtime.shards.call import Call, run_call
    from dikkat_runtime.shards.work import TASK_OF_KIND, Job

    task = "embed" if embed else TASK_OF_KIND.get(str(read_config(run)["task"]), "embed")
    if task == "translate" and options["format"] is None:
        for path in options["inputs"]:
            refuse_document(path, run)
    names = ("beam", "length_penalty", "formality", "all_words", "format", "column", "output_column")
    of_job = {name: options.pop(name) for name in names}
    job = Job(run=run, task=task, corrections=not no_corrections, **asdict(choice), **of_job)
    result = run_call(job, Call(part=shard, **options), terminal())
    for line in result.lines():
        print_remark(line)
    result.check()
