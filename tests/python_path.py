"""Where child processes find the packages that this process tests."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import dikkat
import dikkat_runtime

PYTHON_PATH = os.pathsep.join(str(Path(package.__file__ or "").parents[1]) for package in (dikkat, dikkat_runtime))


def without_library(folder: Path) -> str:
    """The path with a copy of the runtime before it that holds no library: its kernels are compiled at first use."""
    runtime = Path(dikkat_runtime.__file__ or "").parent
    shutil.copytree(runtime, folder / runtime.name, ignore=shutil.ignore_patterns("lib", "__pycache__"))
    return os.pathsep.join([str(folder), PYTHON_PATH])
