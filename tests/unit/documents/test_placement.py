"""Tags land on the words that answer theirs, each exactly once and nested, whatever the model does."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests.unit.documents.stand_ins import in_order, in_reverse, reversing, same, shouting

from dikkat_runtime.documents.segments import is_whole, render, tags_of
from dikkat_runtime.documents.translation import BY_ORDER, LEFT_OUT, ContentTranslator, protected
from dikkat_runtime.tasks.aligner import balanced, word_spans


def translator(translate: object, align: object) -> ContentTranslator:
    return ContentTranslator(translate, align, lambda text: [text] if text else [])  # type: ignore[arg-type]


def placed(text: str, translate: object = reversing, align: object = in_reverse) -> str:
    (content,) = translator(translate, align)([(text,)], markup=True)
    return render(content, str)


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("one <b>two</b> three", "three <b>two</b> one"),
        ("one <b>two three</b> four", "four <b>three two</b> one"),
        ("<i>one <b>two</b> three</i> four", "four <i>three <b>two</b> one</i>"),
        ("<i>one</i> <b>two</b>", "<b>two</b> <i>one</i>"),
        ("<i>one two.</i>", "<i>two one.</i>"),
        ("one two <b>three.</b>", "<b>three</b> two one."),
        ("one <img/> two three", "three two <img/> one"),
        ("<i><b>one</b></i> two", "two <i><b>one</b></i>"),
        ("one <a></a>two", "two <a></a>one"),
    ],
)
def test_tags_follow_their_words(source: str, target: str) -> None:
    assert placed(source) == target


def test_a_pair_over_sentences_and_white_space_stay() -> None:
    text = "One <b>two.\n  Three</b> four."
    split = re.compile(r"[^.]+\.")
    make = ContentTranslator(same, in_order, lambda text: [each.strip() for each in split.findall(text)])
    assert render(make([(text,)], markup=True)[0], str) == text


def test_without_attention_tags_keep_their_share_and_it_is_told() -> None:
    make = translator(shouting, None)
    assert render(make([("one <b>two</b> three",)], markup=True)[0], str) == "ONE <b>TWO</b> THREE"
    assert make.remarks[BY_ORDER] == 1


@given(st.data())
@settings(max_examples=40, deadline=None)
def test_every_tag_stands_once_and_the_text_is_that_without_tags(data: st.DataObject) -> None:
    """For any nesting, any translation and any attention."""
    words = data.draw(st.lists(st.sampled_from(["one", "two", "ten", "go", "x.", "l'a", "5"]), min_size=1, max_size=8))
    parts = [f"{word} " for word in words]
    for number in range(data.draw(st.integers(0, 4))):
        start = data.draw(st.integers(0, len(parts)))
        end = data.draw(st.integers(start, len(parts)))
        parts[start:end] = [f"<t{number}>", *parts[start:end], f"</t{number}>"]
    for number in range(data.draw(st.integers(0, 2))):
        parts.insert(data.draw(st.integers(0, len(parts))), f"<v{number}/>")
    answer = " ".join(data.draw(st.lists(st.sampled_from(["un", "deux", "dix.", "5", "!"]), min_size=1, max_size=8)))
    seed = data.draw(st.integers(0, 1000))

    def align(source: str, target: str) -> NDArray[np.float32]:
        shape = len(word_spans(target)), len(word_spans(source))
        return np.random.default_rng(seed).random(shape, np.float32)

    make = translator(lambda texts: [answer] * len(texts), align)
    source = protected(("".join(parts).strip(),), markup=True)
    (content,) = make([source])
    assert is_whole(source, content)
    if any(map(str.isalpha, "".join(item for item in source if isinstance(item, str)))):
        text = "".join(item for item in content if isinstance(item, str))
        assert text.replace(" ", "") == answer.replace(" ", "")


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("Hello {name}, go", "go {name}, Hello"),
        ("%s sees %(n)d", "%(n)d sees %s"),
        ("see https://example.org/a.", "https://example.org/a see."),
        ("{a}{b} sleeps", "sleeps {a}{b}"),
    ],
)
def test_placeholders_that_come_back_stand_where_the_model_put_them(source: str, target: str) -> None:
    assert placed(
        source,
        lambda texts: [
            " ".join(reversed(re.findall(r"[\w'\ue000-\uf8ff]+,?", t))) + "." * t.endswith(".") for t in texts
        ],
    ) == (target.replace("{name},", "{name},"))


def test_characters_for_private_use_are_no_placeholders() -> None:
    read: list[str] = []

    def keeping(texts: list[str]) -> list[str]:
        read.extend(texts)
        return texts

    text = "one \ue000 {name} two \ue001 %s go"
    assert placed(text, keeping, in_order) == text
    # each has a character of its own, which stands nowhere else
    (sentence,) = read
    marks = [each for each in sentence if 0xE000 <= ord(each) <= 0xF8FF]
    assert len(marks) == len(set(marks)) == 4


@pytest.mark.parametrize("answer", ["nothing comes back", "\ue000 \ue000 \ue001 \ue001", "Tom Tom Mary Mary", ""])
def test_placeholders_that_do_not_come_back_are_placed_all_the_same(answer: str) -> None:
    make = translator(lambda texts: [answer] * len(texts), in_order)
    (content,) = make([("Hello {name} and %s, go",)])
    assert sorted(tag.markup for tag in tags_of(content)) == ["%s", "{name}"]
    assert make.remarks[LEFT_OUT] == 2


def test_a_text_of_placeholders_alone_is_not_translated() -> None:
    def fails(texts: object) -> list[str]:
        raise AssertionError("nothing to translate")

    for text in ("{a}: {b}", "https://example.org", "12", "", " ", "<b>5</b>", "5<x> <b>6</b>7<y>"):
        assert placed(text, fails) == text


def test_balancing_gives_the_article_to_the_article() -> None:
    # "la" looks mostly at the noun
    weights = np.array([[0.3, 0.7], [0.05, 0.95]], np.float32)
    result = balanced(weights, [False, False], [False, False])
    assert result.argmax(axis=1).tolist() == [0, 1]
    np.testing.assert_allclose(result.sum(axis=1), 1, atol=1e-3)
    np.testing.assert_allclose(result.sum(axis=0), 1, atol=1e-3)
