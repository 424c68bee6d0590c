"""Write the report of a finished run as one HTML file."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from dikkat.explain.attention_map import AttentionMap, join_words, mean_of_heads
from dikkat.explain.pictures import PAGES, check_format
from dikkat.explain.report.run_page import report_page
from dikkat.run_directory import RunDirectory
from dikkat.run_directory.data_source import data_source
from dikkat.tasks.inspection.reader_attention import AttendingReader
from dikkat.tasks.kinds import kind_name, load_part
from dikkat_runtime.errors import MissingInputError, msg
from dikkat_runtime.files import probe_next_to, write_atomically, write_errors
from dikkat_runtime.hints import command
from dikkat_runtime.localization import spoken_in
from dikkat_runtime.run.config import wrong_kind
from dikkat_runtime.tasks.classifier import Classifier
from dikkat_runtime.tasks.generator import Generator as LanguageModel

MAPS = 3
MAX_TOKENS = 40
"""Longer texts are not shown: their maps are too fine to read."""


def attention_of(trained: Classifier | LanguageModel, texts: Sequence[str]) -> list[tuple[str, AttentionMap]]:
    """Return at most `MAPS` of `texts`, evenly spread, with the mean map of the last layer between words."""
    reader = AttendingReader.of(trained)
    ((stack, kind), layers), *_ = reader.layers.items()
    wanted = reader.choose(stack, kind, layers - 1)
    short = [text for text in texts if text.strip() and len(trained.tokenizer.encode(text.strip())) <= MAX_TOKENS]
    chosen = np.unique(np.linspace(0, len(short) - 1, MAPS).astype(int)).tolist() if short else []
    texts_and_maps = [(short[index], join_words(reader.read(short[index], wanted))) for index in chosen]
    return [(text, mean_of_heads(maps.select(stack, kind, layers - 1, None))) for text, maps in texts_and_maps]


def write_report(path: Path, out: Path, language: str = "en") -> None:
    """Run the finished model at `path` on its held-out part, and write its report to `out` as HTML.

    Raises `UsageError` for another suffix or language, `MissingInputError` for a run that is unfinished or has lost a
    file, `DataError` for one that is damaged, `DiskError` or `CannotCreateError` when `out` cannot be written.
    """
    check_format(out, PAGES)
    spoken_in(language)
    run = RunDirectory.open(path)
    metrics = run.read_metrics()
    if run.is_finished and not metrics and "imported_from" in run.read_config():
        raise wrong_kind(path, {"task": kind_name(run)}, msg("imported, with no training to report"), is_shown=True)
    if not run.is_finished or not metrics:
        finishing = command("train", kind_name(run), "--out", path, "--resume")
        raise MissingInputError("{path}: holds an unfinished run; finish it with: {command}", path, finishing)
    facts_of = load_part(run, "report", msg("of which there is no report"))
    data_source(run.read_config(), run.config)
    with write_errors(out):
        probe_next_to(out)
    write_atomically(out, report_page(facts_of(run, metrics, language), language).encode("utf-8", "replace"))
