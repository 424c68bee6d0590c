"""Detect settings that were edited by hand in a run without a manifest of checksums."""

from __future__ import annotations

from contextlib import suppress

from dikkat.run_directory.directory import RunDirectory
from dikkat.run_directory.manifest import read_manifest
from dikkat_runtime.errors import DataError, MissingInputError
from dikkat_runtime.native.notices import note


def note_changed_settings(run: RunDirectory) -> None:
    """Note when a run without a manifest has other settings than its scores were measured with.

    What changes no shape, as the number of heads, changes what a model computes without any other sign.
    """
    with suppress(DataError, MissingInputError):
        if read_manifest(run.path) is None and len(run.read_metrics()) in run.foreign_metrics():
            note(
                f"{run.config}: was changed after the scores of the run were measured, so it may compute something"
                f" else; {run.path} has no manifest.json (it is of an older dikkat), and nothing else can be checked"
            )
