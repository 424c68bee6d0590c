"""Every reader takes processor time in proportion to the size of what a stranger sends, whatever its shape."""

from __future__ import annotations

import io
import math
import re
import time
import tracemalloc
import zipfile
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import partial

import pytest
from tests.unit.documents.hostile_inputs import CASES
from tests.unit.documents.hostile_texts import WORD
from tests.unit.documents.stand_ins import ENGLISH_FRENCH, in_order, same

from dikkat_runtime.documents.documents import translate_document
from dikkat_runtime.documents.fragments import Structure, html_fragment, xml_fragment
from dikkat_runtime.documents.html import escaper
from dikkat_runtime.documents.po import stream_po
from dikkat_runtime.documents.tmx import stream_tmx
from dikkat_runtime.documents.translation import BY_ORDER, ContentTranslator
from dikkat_runtime.documents.xliff import stream_xliff
from dikkat_runtime.errors import DataError
from dikkat_runtime.server.segments import split_text
from dikkat_runtime.text.sentences import split_sentences

BY_DAY = (2_000, 16_000)
"""Bytes by day: what took time by the square took seconds for so many, and a bound of 1.5 does not fail by chance."""
BY_NIGHT = (1 << 16, 1 << 18, 1 << 20)
NOTHING = 0.04
"""Seconds below which no exponent is measured."""
ENOUGH = 1.0
"""Seconds that measure an exponent well: no larger file is read."""
MAX_PER_BYTE = 100e-6
"""Seconds of a processor a byte, ten times what the slowest readers take on a machine that does nothing else."""
DAILY = {
    "a.srt": "digits|spaces|brackets|open tags|pairs|void tags|placeholders|names|digits first|spaces first|cues|voices"
    "|long line with a return|spaces at a time",
    "a.xlf": "URLs|nested|pairs|void|halves crossing|nested units|nested marks|comments before|spaces in a target"
    "|one placeholder after another",
    "a.tmx": "nested units|breaks",
    "a.po": "messages|spaces|zeros|strings|spaces between|python zeros|directives",
    "a.html": "breaks|references|attributes|quotes in tags|open comments",
    "a.md": "nested references|delimiters"
    "|growing ticks|bangs|shortcuts|footnotes|comments|heading|delimiter row|front matter"
    "|backslash lines",
    "a.docx": "runs|paragraphs|fields|many styles|boxes",
    "a.csv": "signs|quotes in the head",
    "a.mo": "tabs",
    "a.json": "members|plural forms|nested arrays|open code|blocks|closed and opened",
    "a.yaml": "members|plural forms|nested|block|flow",
    "a.properties": "continued|key",
    "a.strings": "comments before a sign|open comments",
    "a.xml": "plurals",
    "a.stringsdict": "forms",
    "a.tex": "commands|options|open mathematics|open equations|nested formats|nested notes|open braces",
    "a.pptx": "breaks",
    "a.xlsx": "runs",
    "a.odt": "spans|boxes",
    "a.jsonl": "nested arrays",
    "text": "one word",
    "fragment.xml": "breaks|open comments|quotes in tags",
    "fragment.html": "pairs|references",
    "po stream": "language",
    "xlf stream": "nested marks",
}


def translated(data: bytes, name: str) -> object:
    """Read what a server reads, translate it into itself and write it; words answer words in their order."""
    if name == "text":
        return split_text(data.decode(), "en")
    if name.startswith("fragment"):
        text = data.decode()
        document = html_fragment(text) if name.endswith("html") else xml_fragment(text, Structure())
        translator = ContentTranslator(same, None, partial(split_sentences, language="en"))
        return document.write(translator([segment.content for segment in document.segments]))
    if name == "xlf stream":
        return list(stream_xliff(io.BytesIO(data), name, Counter()))
    if name == "tmx stream":
        return [unit.content("en") for unit in stream_tmx(io.BytesIO(data), name, Counter())]
    if name == "po stream":
        return list(stream_po(io.StringIO(data.decode()), name))
    return translate_document(data, name, same, options=ENGLISH_FRENCH)


def seconds(name: str, data: bytes) -> float:
    """The processor time of one file; one that is refused takes time too."""
    start = time.process_time()
    with suppress(DataError):
        translated(data, name)
    return time.process_time() - start


def check(name: str, grown: Callable[[int], bytes], sizes: tuple[int, ...], bound: float) -> None:
    """Bound the time of the largest size by that of the smallest one, and by a constant a byte.

    The second size is the largest one where it takes `ENOUGH`. What is too slow once is measured again, since other
    programs disturb it.
    """
    files, times = [grown(size) for size in sizes[:2]], [math.inf] * 2
    for number in range(len(sizes)):
        if number < 2:
            times[number] = seconds(name, files[number])
        elif times[1] < ENOUGH:
            files[1] = grown(sizes[number])
            times[1] = seconds(name, files[1])
    growth = math.log(len(files[1]) / len(files[0]))
    for _ in range(4):
        exponent = math.log(times[1] / max(times[0], 1e-3)) / growth
        if times[1] <= NOTHING or (exponent <= bound and times[1] <= MAX_PER_BYTE * len(files[1])):
            return
        times = [min(least, seconds(name, data)) for least, data in zip(times, files, strict=True)]
    pytest.fail(f"{times} seconds for {[len(data) for data in files]} bytes: exponent {exponent:.2f}")


DAY = [case for case in CASES if case[1] in DAILY.get(case[0], "").split("|")]


def test_at_least_forty_shapes_are_read_by_day() -> None:
    translated(b"<p>a <b>dog</b></p>", "a.html")
    assert {(name, shape) for name, shapes in DAILY.items() for shape in shapes.split("|")} == {
        case[:2] for case in DAY
    }
    assert len(DAY) >= 40


@pytest.mark.parametrize(("name", "shape", "grown"), DAY, ids=[f"{name}-{shape}" for name, shape, _ in DAY])
def test_time_grows_as_the_size(name: str, shape: str, grown: Callable[[int], bytes]) -> None:
    check(name, grown, BY_DAY, 1.5)


def test_references_to_as_many_characters_take_as_long_each() -> None:
    """A class of a pattern with characters beyond 65,535 is looked through one by one."""

    def written(count: int) -> float:
        text = "".join(map(chr, range(70_000, 70_000 + count)))
        start = time.process_time()
        assert escaper("".join(f"&#{ord(letter)};" for letter in text))(text).count("&#") == count
        return time.process_time() - start

    assert min(written(8000) for _ in range(3)) < 30 * max(1e-3, min(written(1000) for _ in range(3)))


@pytest.mark.nightly
@pytest.mark.parametrize(("name", "shape", "grown"), CASES, ids=[f"{name}-{shape}" for name, shape, _ in CASES])
def test_time_grows_as_the_size_from_64_kb_to_1_mb(name: str, shape: str, grown: Callable[[int], bytes]) -> None:
    check(name, grown, BY_NIGHT, 1.1)


def grown(name: str, shape: str, size: int) -> bytes:
    """The file of a case."""
    return next(file(size) for case, kind, file in CASES if (case, kind) == (name, shape))


@pytest.mark.parametrize(("name", "shape"), [("a.xlf", "void"), ("a.xlf", "pairs"), ("a.srt", "void tags")])
def test_memory_grows_as_the_size(name: str, shape: str) -> None:
    """Tags times words would be 6 MB for the smaller file and 100 MB for the larger one."""
    translated(grown(name, shape, 1_000), name)
    peaks = []
    for size in (10_000, 40_000):
        data = grown(name, shape, size)
        tracemalloc.start()
        translated(data, name)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 5 * peaks[0] < 1_500 * 40_000


@pytest.mark.parametrize(
    ("shape", "told"),
    [
        ("nested paragraphs", "a.docx/word/document.xml:1: p nested deeper than 16; take it out of the others"),
        ("nested links", "a.docx/word/document.xml:1: hyperlink nested deeper than 16; take it out of the others"),
    ],
)
def test_a_depth_that_no_program_writes_is_refused_in_one_line(shape: str, told: str) -> None:
    with pytest.raises(DataError, match=f"^{re.escape(told)}$"):
        translated(grown("a.docx", shape, 100_000), "a.docx")


def test_a_small_archive_of_much_text_is_refused() -> None:
    body = WORD.format("<w:p>" * 200_000 + "</w:p>" * 200_000)
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("word/document.xml", body)
    with pytest.raises(DataError, match=r"^a\.docx: unpacks to more than 100 times its size, as no document does; not"):
        translated(target.getvalue(), "a.docx")


@pytest.mark.parametrize("shape", ["attribute", "comment"])
def test_a_stream_reads_no_tag_of_any_size(shape: str) -> None:
    with pytest.raises(DataError, match=r"^xlf stream:1: a (?:tag or comment|segment) of more than 1,000,000 "):
        translated(grown("xlf stream", shape, 1_300_000), "xlf stream")


def test_a_long_sentence_is_aligned_by_the_order_of_its_words() -> None:
    """A sentence of 800 words is too long for a matrix; the tag stays at its words, and a note says so."""
    words = [f"w{number}" for number in range(800)]
    text = " ".join([*words[:500], f"<b>{words[500]}</b>", *words[501:]])
    done = translate_document(f"<p>{text}</p>".encode(), "a.html", same, align=in_order, options=ENGLISH_FRENCH)
    assert done.data == f"<p>{text}</p>".encode()
    assert done.remarks[BY_ORDER] == 1
    short = translate_document(b"<p>a <b>dog</b> b</p>", "a.html", same, align=in_order, options=ENGLISH_FRENCH)
    assert not short.remarks[BY_ORDER]
