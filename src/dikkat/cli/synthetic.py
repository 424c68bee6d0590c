"""`dikkat data backtranslate` and `dikkat data distil`: pairs out of text in one language."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from dikkat.cli.engine_option import DEVICE_HELP, ENGINE_HELP, PRECISION_HELP
from dikkat.cli.streams import print_report, terminal
from dikkat_runtime.engine.contract import EngineName
from dikkat_runtime.engine.options import MOST_BEAMS, BeamOptions, Device
from dikkat_runtime.engine.precision import PrecisionName
from dikkat_runtime.errors import plural

_WIDTH = BeamOptions().beam_size
_Out = Annotated[Path, typer.Option(help="Table to write (.tsv): source, target, origin.", show_default=False)]
_Beam = Annotated[int, typer.Option(min=1, max=MOST_BEAMS, help="Hypotheses followed side by side; 1 is greedy.")]
_Workers = Annotated[int | None, typer.Option(min=1, help="Processes; if absent, as many as there are processors.")]
_Threads = Annotated[int | None, typer.Option(min=1, help="Of each worker; if absent, its share of the processors.")]
_Force = Annotated[bool, typer.Option("--force", help="Begin anew what was begun with another model or other texts.")]
_Estimate = Annotated[bool, typer.Option("--estimate", help="Only say how long it would take.")]
_Precision = Annotated[PrecisionName, typer.Option(help=PRECISION_HELP)]
_Device = Annotated[Device, typer.Option(help=DEVICE_HELP)]
_Engine = Annotated[EngineName, typer.Option(help=ENGINE_HELP)]


def backtranslate(
    run: Annotated[Path, typer.Argument(help="Translator from the target language to the source.", show_default=False)],
    texts: Annotated[list[Path], typer.Argument(help="Text in the target language, line by line.", show_default=False)],
    out: _Out,
    tag: Annotated[str, typer.Option(help="Words before each source, by which a model can tell it.")] = "",
    beam: _Beam = 1,
    workers: _Workers = None,
    threads: _Threads = None,
    force: _Force = False,
    estimate: _Estimate = False,
    precision: _Precision = "auto",
    device: _Device = "cpu",
    engine: _Engine = "auto",
) -> None:
    """Write pairs whose targets are TEXTS and whose sources RUN has written; the same call goes on after a stop.

    Each pair is marked as backtranslated in the column origin.
    """
    _write(False, locals())


def distil(
    run: Annotated[Path, typer.Argument(help="Translator that a smaller one is to learn from.", show_default=False)],
    texts: Annotated[list[Path], typer.Argument(help="Text in the source language, line by line.", show_default=False)],
    out: _Out,
    beam: _Beam = _WIDTH,
    workers: _Workers = None,
    threads: _Threads = None,
    force: _Force = False,
    estimate: _Estimate = False,
    precision: _Precision = "auto",
    device: _Device = "cpu",
    engine: _Engine = "auto",
) -> None:
    """Write pairs whose sources are TEXTS and whose targets RUN has written; the same call goes on after a stop.

    Each pair is marked as distilled in the column origin.
    """
    _write(True, {**locals(), "tag": ""})


def _write(distils: bool, options: dict[str, Any]) -> None:
    from dikkat.cli.table_out import check_table
    from dikkat.run_directory import RunDirectory
    from dikkat.tasks.common.engines import require_kind
    from dikkat.tasks.translation.synthetic import BACKTRANSLATED, DISTILLED, write_pairs
    from dikkat_runtime.shards.call import Call, run_call
    from dikkat_runtime.shards.job import Job

    run, out = options["run"], options["out"]
    check_table(out, "--out")
    languages = require_kind(RunDirectory.open(run), "translator").get("data", {})
    of_job = {name: options[name] for name in ("precision", "engine", "device", "beam")}
    job = Job(run=run, task="translate", **of_job)
    of_call = {name: options[name] for name in ("out", "workers", "threads", "force", "estimate")}
    call = Call(inputs=options["texts"], **of_call)
    recipe = DISTILLED if distils else replace(BACKTRANSLATED, tag=options["tag"])
    written = write_pairs(recipe, job, call, lambda job, call: run_call(job, call, terminal()))
    if options["estimate"]:
        return
    read_language, new_language = (str(languages.get(f"{side}_language") or "?") for side in ("source", "target"))
    read, new = f"{read_language} as given", f"{new_language} by {run}"
    source, target = (read, new) if distils else (new, read)
    left_out = f", {written.left_out:,} left out without a translation" if written.left_out else ""
    print_report([f"{plural(written.pairs, 'pair')} in {out}: source {source}, target {target}{left_out}"])
