"""A table of words becomes entries, and a damaged line of it an error that names the line."""

from __future__ import annotations

from pathlib import Path

import pytest
from tools.phrasebook.lexicon import Case, Preposition, Verb, read_words

from dikkat_runtime.errors import DataError

HEADER = "group\tenglish\tenglish_past\tfrench\tturkish\tgoal\tcase\tflags"


def table(folder: Path, *lines: str) -> Path:
    path = folder / "verbs.tsv"
    path.write_text("\n".join((HEADER, *lines)) + "\n", encoding="utf-8")
    return path


def test_a_line_is_an_entry_of_its_group(tmp_path: Path) -> None:
    words = read_words(
        table(tmp_path, "motion\tgo\twent\taller\tgit\tto\t\t", "other\thelp\thelped\taider\tet\t\tdative\tmanner to"),
        Verb,
    )
    (go,), (aid,) = words["motion"], words["other"]
    assert (go.english, go.goal, go.case, go.to) == ("go", Preposition.TO, Case.ACCUSATIVE, False)
    assert (aid.turkish, aid.goal, aid.case, aid.to, aid.manner, aid.stative) == (
        "et",
        None,
        Case.DATIVE,
        True,
        True,
        False,
    )


@pytest.mark.parametrize(
    "line",
    [
        "motion\tgo\twent\taller\tgit\tto\t",
        "motion\tgo\twent\taller\tgit\tto\t\t\t",
        "motion\tgo\twent\t\tgit\tto\t\t",
        "motion\tgo\twent\taller\tgit\tthither\t\t",
        "motion\tgo\twent\taller\tgit\tto\tpartitive\t",
        "motion\tgo\twent\taller\tgit\tto\t\tgreen",
        "motion\tgo\twent\taller\tgit\tto\t\tcase",
        "",
    ],
)
def test_a_damaged_line_is_named(tmp_path: Path, line: str) -> None:
    path = table(tmp_path, "motion\tcome\tcame\tvenir\tgel\tfrom\t\t", line)
    with pytest.raises(DataError, match=r"verbs\.tsv:3: damaged line of the phrasebook; reinstall dikkat"):
        read_words(path, Verb)
