"""`dikkat-runtime translate-files`: its options, and what it does with them."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Any

from dikkat_runtime.cli.whole_numbers import at_least_one, beam_size
from dikkat_runtime.messages import msg
from dikkat_runtime.text.visible import say

ALL_WORDS_HELP = msg("Leave the shortlist of words of a run aside.")
HELP = msg("Translate, classify or embed many files: each becomes one file, whole or absent.")


def add_options(parser: ArgumentParser, precision_help: str) -> None:
    """Add the options of the command."""
    parser.set_defaults(action=translate_files)
    parser.add_argument("run", type=Path, help="Run directory of any kind of model.")
    parser.add_argument("inputs", type=Path, nargs="+", metavar="IN", help="Files, and folders of files.")
    parser.add_argument("--out", type=Path, required=True, help="Folder of the outputs, which have the names of IN.")
    parser.add_argument("--column", default="", help="Column with the text: a name, or a number without a header.")
    parser.add_argument("--output-column", default="", help="Name of the new column.")
    parser.add_argument("--format", choices=["text", "jsonl", "tsv", "csv", "parquet"], help="Where names tell none.")
    parser.add_argument("--embed", action="store_true", help="Vectors, also of a translator or a classifier.")
    parser.add_argument("--beam", type=beam_size, default=5, help="Hypotheses followed side by side; 1 is greedy.")
    parser.add_argument(
        "--length-penalty", type=float, help="Larger favours longer output; if absent, as the run says."
    )
    parser.add_argument("--no-corrections", action="store_true", help="Leave aside what people have corrected.")
    parser.add_argument("--all-words", action="store_true", help=ALL_WORDS_HELP)
    parser.add_argument("--precision", choices=("auto", "float32", "int8"), default="auto", help=precision_help)
    parser.add_argument("--workers", type=at_least_one, help="Processes; if absent, as many as processors or files.")
    parser.add_argument("--threads", type=at_least_one, help="Of each worker; its share of the processors if absent.")
    parser.add_argument("--ray", action="store_true", help="Workers are actors of Ray.")
    parser.add_argument("--ray-address", default="", help="A cluster that runs; else Ray starts on this computer.")
    parser.add_argument("--shard", help="A task of a job array and their number, as 3/8.")
    parser.add_argument("--force", action="store_true", help="Write anew what was made otherwise.")
    parser.add_argument("--estimate", action="store_true", help="Only say how long it would take.")


def translate_files(options: Namespace) -> None:
    """Files in, files out."""
    from dikkat_runtime.run.config import read_config
    from dikkat_runtime.shards.call import Call, run_call
    from dikkat_runtime.shards.job import Job, task_of

    job = Job(
        run=options.run,
        task=task_of(str(read_config(options.run)["task"]), embed=options.embed),
        **_chosen(options, "precision", "beam", "length_penalty", "format", "column", "output_column", "all_words"),
        corrections=not options.no_corrections,
    )
    names = ("inputs", "out", "workers", "threads", "ray", "ray_address", "force", "estimate")
    result = run_call(job, Call(**_chosen(options, *names), part=options.shard), sys.stderr)
    for line in result.lines():
        say(line)
    result.check()


def _chosen(options: Namespace, *names: str) -> dict[str, Any]:
    return {name: getattr(options, name) for name in names}
