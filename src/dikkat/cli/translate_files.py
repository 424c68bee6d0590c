"""`dikkat translate-files`: many files in, as many files out, by many workers."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from dikkat.cli.engine_option import ALL_WORDS_HELP, DEVICE_HELP, ENGINE_HELP, PRECISION_HELP
from dikkat.cli.streams import terminal
from dikkat_runtime.engine.contract import EngineName
from dikkat_runtime.engine.options import MAX_BEAMS, BeamOptions, Device
from dikkat_runtime.engine.precision import PrecisionName
from dikkat_runtime.shards.formats import FormatName

_BEAM = BeamOptions()
_Column = Annotated[str, typer.Option(help="Column with the text: a name, or a number from 1 without a header.")]
_Format = Annotated[FormatName | None, typer.Option(help="Where the names of the files tell none.")]
_Beam = Annotated[int, typer.Option(min=1, max=MAX_BEAMS, help="Hypotheses followed side by side; 1 is greedy.")]
_Workers = Annotated[
    int | None, typer.Option(min=1, help="Processes; if absent, as many as there are processors, or files.")
]
_Threads = Annotated[
    int | None, typer.Option(min=1, help="Of each worker; if absent, its share of the processors, one with --ray.")
]
_Shard = Annotated[str | None, typer.Option(help="Number of a task of a job array and how many there are, as 3/8.")]


def translate_files(
    run: Annotated[Path, typer.Argument(help="Run directory of any kind of model.", show_default=False)],
    inputs: Annotated[
        list[Path], typer.Argument(metavar="IN...", help="Files, and folders of files.", show_default=False)
    ],
    out: Annotated[Path, typer.Option(help="Folder of the outputs, which have the names of IN.", show_default=False)],
    column: _Column = "",
    output_column: Annotated[str, typer.Option(help="Name of the new column.")] = "",
    format: _Format = None,
    embed: Annotated[bool, typer.Option("--embed", help="Vectors, also of a translator or a classifier.")] = False,
    beam: _Beam = _BEAM.beam_size,
    length_penalty: Annotated[
        float | None, typer.Option(help="Larger favours longer output; if absent, as the run says.")
    ] = None,
    no_corrections: Annotated[
        bool, typer.Option("--no-corrections", help="Leave corrections aside (see dikkat correct).")
    ] = False,
    all_words: Annotated[bool, typer.Option("--all-words", help=ALL_WORDS_HELP)] = False,
    workers: _Workers = None,
    threads: _Threads = None,
    ray: Annotated[bool, typer.Option("--ray", help="Workers are actors of Ray.")] = False,
    ray_address: Annotated[str, typer.Option(help="A cluster that runs; else Ray starts on this computer.")] = "",
    shard: _Shard = None,
    force: Annotated[bool, typer.Option("--force", help="Write anew what was made otherwise.")] = False,
    estimate: Annotated[bool, typer.Option("--estimate", help="Only say how long it would take.")] = False,
    precision: Annotated[PrecisionName, typer.Option(help=PRECISION_HELP)] = "auto",
    device: Annotated[Device, typer.Option(help=DEVICE_HELP)] = "cpu",
    engine: Annotated[EngineName, typer.Option(help=ENGINE_HELP)] = "auto",
) -> None:
    """Translate, classify or embed the rows of many files, as the kind of the run says.

    Each file becomes one file of its name in --out, whole or absent; what is whole already is passed over.
    """
    _work(**locals())


def _work(*, run: Path, embed: bool, no_corrections: bool, shard: str | None, **options: Any) -> None:
    from dikkat_runtime.run.config import read_settings
    from dikkat_runtime.shards.call import Call, run_call
    from dikkat_runtime.shards.job import Job, task_of

    task = task_of(str(read_settings(run).get("task", "translator")), embed=embed)
    names = ("precision", "engine", "device", "beam", "length_penalty", "all_words", "format", "column")
    of_job = {name: options.pop(name) for name in (*names, "output_column")}
    job = Job(run=run, task=task, corrections=not no_corrections, **of_job)
    result = run_call(job, Call(part=shard, **options), terminal())
    for line in result.lines():
        print(line, file=sys.stderr)
    result.check()
