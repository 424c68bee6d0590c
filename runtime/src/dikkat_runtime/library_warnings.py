"""Hide warnings of libraries, which are for programmers: a user can do nothing about them."""

from __future__ import annotations

import os
import sys
import warnings


def hide_library_warnings() -> bool:
    """Hide warnings, unless Python was asked for them (`-W`, `PYTHONWARNINGS`) or DIKKAT_DEBUG is set; tell whether."""
    if sys.warnoptions or os.environ.get("DIKKAT_DEBUG"):
        return False
    warnings.simplefilter("ignore")
    return True
