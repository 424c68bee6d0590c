"""Whatever a document or a file of data holds: it is read, or refused in one line, and no other error comes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.hostile_files import WHOLE, hostile
from tests.unit.documents import app_samples, archive_samples, samples
from tests.unit.documents.stand_ins import in_order, shouting
from tests.unit.documents.test_unchanged import CASES

from dikkat.data.readers import read_pairs
from dikkat_runtime.documents.documents import translate_document
from dikkat_runtime.documents.segments import Options
from dikkat_runtime.errors import DikkatError

FILES = {
    **{case: (name, text.encode()) for case, (name, text, _, _) in CASES.items()},
    "docx": ("a.docx", samples.word_document()),
    "mo": ("a.mo", samples.compiled_catalog()),
    **{name: (name, data) for name, data in archive_samples.ARCHIVES.items()},
    "xcstrings": ("a.xcstrings", app_samples.CATALOG.encode()),
}
MODELS = (Options("en", "fr"), Options(), Options("en", "fr", "source", "target"), Options("en", "fr", "2", "1"))
BY_DAY = 6
MAX_LENGTH = 600
"""Characters of a message."""


def refusal(read: Callable[[], object]) -> str:
    """The line of an error that a user is told of; empty where there is none."""
    try:
        read()
    except DikkatError as error:
        told = error
    else:
        return ""
    assert told.exit_code in (2, 65, 66)
    assert "\n" not in str(told)
    assert len(str(told)) < MAX_LENGTH
    return str(told)


def assert_read_or_refused(name: str, data: bytes, options: Options, folder: Path) -> None:
    line = refusal(lambda: translate_document(data, name, shouting, align=in_order, options=options))
    assert line == "" or line.startswith(name)
    (folder / name).write_bytes(data)
    is_alone = name.rpartition(".")[2] in ("po", "xlf", "tmx", "csv", "tsv", "jsonl", "mo")
    sides = [str(folder / name)] * (1 if is_alone else 2)
    refusal(lambda: list(read_pairs(sides)))


@pytest.mark.parametrize("kind", WHOLE)
def test_a_whole_file_of_a_stranger_is_read_or_refused(kind: str, tmp_path: Path) -> None:
    # each kind with some of the formats by day; brackets of Markdown by the hundred thousand by night
    number = list(WHOLE).index(kind)
    for case in list(FILES)[number % BY_DAY :: BY_DAY]:
        if case != "markdown" or len(WHOLE[kind]) < 100_000:
            assert_read_or_refused(FILES[case][0], WHOLE[kind], MODELS[0], tmp_path)


@pytest.mark.nightly
@pytest.mark.parametrize("case", FILES)
def test_every_whole_file_of_a_stranger_is_read_or_refused(case: str, tmp_path: Path) -> None:
    for data in WHOLE.values():
        assert_read_or_refused(FILES[case][0], data, MODELS[0], tmp_path)


@pytest.mark.parametrize("case", FILES)
@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(data=st.data())
def test_a_changed_file_is_read_or_refused(case: str, tmp_path: Path, data: st.DataObject) -> None:
    name, honest = FILES[case]
    options = data.draw(st.sampled_from(MODELS))
    assert_read_or_refused(name, data.draw(hostile(honest)), options, tmp_path)


@pytest.mark.nightly
@pytest.mark.parametrize("case", FILES)
@settings(max_examples=3_000, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(data=st.data())
def test_thousands_of_changed_files_are_read_or_refused(case: str, tmp_path: Path, data: st.DataObject) -> None:
    name, honest = FILES[case]
    options = data.draw(st.sampled_from(MODELS))
    assert_read_or_refused(name, data.draw(hostile(honest)), options, tmp_path)


@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(body=hostile(samples.WORD_BODY.encode()))
def test_a_word_document_of_a_changed_body_is_read_or_refused(tmp_path: Path, body: bytes) -> None:
    assert_read_or_refused("a.docx", samples.word_document(body), MODELS[0], tmp_path)


@pytest.mark.parametrize(
    ("name", "part", "build"),
    [
        ("a.pptx", archive_samples.SLIDE, archive_samples.presentation),
        ("a.xlsx", archive_samples.STRINGS, archive_samples.spreadsheet),
        ("a.odt", archive_samples.CONTENT, archive_samples.open_document),
        ("a.epub", archive_samples.CHAPTER, archive_samples.book),
    ],
)
@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(data=st.data())
def test_an_archive_of_a_changed_part_is_read_or_refused(
    name: str, part: str, build: Callable[[bytes], bytes], tmp_path: Path, data: st.DataObject
) -> None:
    assert_read_or_refused(name, build(data.draw(hostile(part.encode()))), MODELS[0], tmp_path)
