"""Hide warnings of libraries, which are for programmers: a user can do nothing about them."""

from __future__ import annotations

import logging
import os
import sys
import warnings


def hide_library_warnings() -> None:
    """Hide warnings, unless Python was asked for them (`-W`, `PYTHONWARNINGS`) or --debug is on."""
    if sys.warnoptions or os.environ.get("DIKKAT_DEBUG"):
        return
    warnings.simplefilter("ignore")
    for library in ("matplotlib", "torch"):  # such as matplotlib's on a font cache that it builds
        logging.getLogger(library).setLevel(logging.ERROR)
