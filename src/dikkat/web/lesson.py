"""Read a lesson for a page: steps, each a text in English and Turkish and the state of the page that it begins in.

`page/live_lesson.js` applies what a step sets: text (to read), beam, beta, positions, off (heads as [kind, layer,
head]), hide (words), tab, kind, layer, heads, view, look (a word to keep under the light) and at (the word that six
steps show it looks at). Layers and heads count from 0.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from dikkat_runtime.errors import UsageError

_FOLDER = Path(__file__).parent / "lessons"


def lesson_names() -> list[str]:
    """Return the names of all lessons, which are the numbers of the pages in docs/seeds."""
    return sorted(path.stem for path in _FOLDER.glob("*.json"))


def read_lesson(name: str) -> dict[str, Any]:
    """Return the lesson of a name. Raises `UsageError` for a name that no lesson has."""
    if name not in lesson_names():
        raise UsageError('--lesson: there is no lesson "{name}"; known: {names}', name, ", ".join(lesson_names()))
    lesson: dict[str, Any] = json.loads((_FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    return lesson
