"""WebVTT: classes, voices, languages and escapes of a cue, and what is no cue."""

from __future__ import annotations

import pytest
from tests.unit.documents.stand_ins import ENGLISH_FRENCH, in_order, in_reverse, reversing, shouting, unchanged

from dikkat_runtime.documents.documents import translate_document

HEAD = "WEBVTT\n\n00:01.000 --> 00:03.000 line:63% align:start\n"


def cue(text: str) -> str:
    file = f"{HEAD}{text}\n".encode()
    data = translate_document(file, "a.vtt", shouting, align=in_order, options=ENGLISH_FRENCH).data
    assert data.decode().startswith(HEAD)
    assert unchanged(file, "a.vtt").data == file
    return data.decode().removeprefix(HEAD).removesuffix("\n")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<c.yellow>The small cat.</c>", "<c.yellow>THE SMALL CAT.</c>"),
        ("The <i.loud.big>small cat</i> sleeps.", "THE <i.loud.big>SMALL CAT</i> SLEEPS."),
        ("The <c>cat</c> and <b.x>the <c.y>dog</c></b>", "THE <c>CAT</c> AND <b.x>THE <c.y>DOG</c></b>"),
        ("<v.first Paul>The <c.x>cat</c>.</v>", "<v.first Paul>THE <c.x>CAT</c>.</v>"),
        ("<c.x>The cat", "<c.x>THE CAT"),
        ("The cat.</c>", "THE CAT.</c>"),
        ("The <00:02.000>cat", "THE <00:02.000>CAT"),
        ("a &lt;b&gt; c &amp; d", "A &lt;B&gt; C &amp; D"),
        ("A&nbsp;dog &lrm;sleeps&rlm;", "A&nbsp;DOG &lrm;SLEEPS&rlm;"),
        ("The dog & the cat > 3", "THE DOG & THE CAT > 3"),
        ("<ruby>dog<rt>cat</rt></ruby>", "<ruby>DOG<rt>cat</rt></ruby>"),
    ],
)
def test_spans_and_escapes_stay(text: str, expected: str) -> None:
    assert cue(text) == expected


def test_a_span_in_another_language_stays_and_one_in_the_source_language_does_not() -> None:
    assert cue("The <lang fr>chat noir</lang> and <lang en-GB>the dog</lang>") == (
        "THE <lang fr>chat noir</lang> AND <lang en-GB>THE DOG</lang>"
    )


def test_a_sentence_goes_on_over_cues_of_one_voice_alone() -> None:
    text = "WEBVTT\n\n00:01.000 --> 00:02.000\n<v Ann>the big\n\n00:02.000 --> 00:03.000\n<v {name}>red house\n"

    def turned(name: str) -> list[str]:
        data = text.replace("{name}", name).encode()
        document = translate_document(data, "a.vtt", reversing, align=in_reverse, options=ENGLISH_FRENCH)
        return document.data.decode().split("\n")[3::3]

    assert turned("Bob") == ["<v Ann>big the", "<v Bob>house red"]
    assert turned("Ann")[0] != "<v Ann>big the"


def test_two_voices_in_a_cue_keep_their_lines() -> None:
    assert cue("<v Ann>Where is the cat?</v>\n<v Bob>In the very big red house of the farmers.</v>") == (
        "<v Ann>WHERE IS THE CAT?</v>\n<v Bob>IN THE VERY BIG RED HOUSE OF THE FARMERS.</v>"
    )


def test_notes_styles_and_regions_stay_but_a_cue_may_be_named_like_one() -> None:
    others = "NOTE The dog\nsleeps\n\nSTYLE\n::cue { color: red }\n\nREGION\nid:fred\n\n"
    cues = "NOTE-1\n00:01.000 --> 00:02.000\nThe dog\n\nREGION 2\n00:02.000 --> 00:03.000\nA cat\n"
    written = translate_document(f"WEBVTT\n\n{others}{cues}".encode(), "a.vtt", shouting).data.decode()
    assert others in written
    assert "THE DOG" in written
    assert "A CAT" in written


def test_a_translation_cannot_end_the_text_of_a_cue() -> None:
    data = (HEAD + "The dog\n").encode()
    written = translate_document(data, "a.vtt", lambda texts: ["a --> b < c" for _ in texts]).data.decode()
    assert written == HEAD + "a --&gt; b &lt; c\n"
