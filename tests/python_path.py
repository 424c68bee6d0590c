"""Where child processes find the packages that this process tests."""

from __future__ import annotations

import os
from pathlib import Path

import dikkat
import dikkat_runtime

PYTHON_PATH = os.pathsep.join(str(Path(package.__file__ or "").parents[1]) for package in (dikkat, dikkat_runtime))
