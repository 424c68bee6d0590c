"""Lessons in Markdown: what a step sets, what the model answers, and one line with file and line for what is wrong."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dikkat.explain.attention_map import AttentionMap, SentenceMaps
from dikkat.explain.lesson import answered, is_right, read_lesson
from dikkat_runtime.errors import DataError

LESSON = """---
title: Of cats
---

## Look

One line
and its other half.

A second paragraph.

```set
text: the cat
kind: cross
layer: 2
heads: 1, 2
beta: 0.5
positions: off
hide: the, cat
```

```question
Which head looks most
from “chat” to “cat”?
answer: head cross chat -> cat
hint: Layer 2.
expect: 2.1
```

## Again
"""
READ, WRITTEN = ("▁the", "▁cat", "<eos>"), ("<bos>", "▁le", "▁chat")


def maps(settings: dict[str, Any]) -> SentenceMaps:
    """Return two layers of two heads of cross-attention: head 1 of layer 2 looks from "chat" to "cat"."""
    weights = {(0, 0): 0.2, (0, 1): 0.3, (1, 0): 0.8, (1, 1): 0.79}
    both = []
    for (layer, head), weight in weights.items():
        # row t wrote token t + 1, so "chat" is written by row 1
        rows = np.array([[0.6, 0.3, 0.1], [0.9 - weight, weight, 0.1], [0.0, 0.0, 1.0]], dtype=np.float32)
        both.append(AttentionMap(rows, WRITTEN, READ, "decoder", layer, head, "cross"))
    assert settings["text"] == "the cat"
    return SentenceMaps("the cat", "le chat", READ, WRITTEN, tuple(both))


def written(folder: Path, text: str, name: str = "my.md") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_a_step_sets_the_page_and_its_question_is_answered_by_the_model(tmp_path: Path) -> None:
    lesson = answered(written(tmp_path, LESSON), maps)
    first, second = lesson["steps"]
    assert (lesson["title"], lesson["page"]) == ({"en": "Of cats"}, "live")
    assert first["text"] == {"en": "One line and its other half.\n\nA second paragraph."}
    assert first["set"] == {
        "text": "the cat", "kind": "cross", "layer": 1, "heads": [0, 1], "beta": 0.5, "positions": False,
        "hide": ["the", "cat"],
    }  # fmt: skip
    assert second["set"] == {"text": "the cat"}  # the text of the step before
    question = first["question"]
    assert question["text"] == {"en": "Which head looks most from “chat” to “cat”?"}
    # a head that is as near as 0.02 is right, too
    assert (question["kind"], question["right"], question["hints"]) == ("head", ["2.1", "2.2"], {"en": ["Layer 2."]})
    assert question["weight"] == pytest.approx(0.8)


@pytest.mark.parametrize(
    ("answer", "right"),
    [
        ("word cross 2.1 chat", ["cat"]), ("word cross 1.1 le", ["the"]), ("weight cross 1.2 chat → cat", ["0.30"]),
        ("output", ["le chat"]),
    ],
)  # fmt: skip
def test_words_weights_and_outputs_are_answers(tmp_path: Path, answer: str, right: list[str]) -> None:
    text = LESSON.replace("head cross chat -> cat", answer).replace("expect: 2.1\n", "")
    assert answered(written(tmp_path, text), maps)["steps"][0]["question"]["right"] == right


def test_answers_are_judged_as_they_are_read_off_a_picture() -> None:
    assert is_right("word", " Cat. ", ["cat"])
    assert is_right("weight", "0.26", ["0.30"])
    assert not is_right("weight", "0.2", ["0.30"])
    assert not is_right("weight", "high", ["0.30"])
    assert not is_right("head", "1.2", ["2.1"])


def test_a_file_of_another_language_is_joined(tmp_path: Path) -> None:
    path = written(tmp_path, LESSON)
    turkish = LESSON.replace("title: Of cats", "title: Kediler\nlanguage: tr").replace("## Look", "## Bak")
    written(tmp_path, turkish, "my.tr.md")
    lesson = answered(path, maps)
    assert lesson["title"] == {"en": "Of cats", "tr": "Kediler"}
    assert lesson["steps"][0]["heading"] == {"en": "Look", "tr": "Bak"}
    written(tmp_path, turkish + "\n## More\n", "my.tr.md")
    with pytest.raises(DataError, match=r"my\.tr\.md: has other steps or questions than .*my\.md; write the same"):
        answered(path, maps)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("---\ntitle", "title", "my.md:1: a lesson begins with a line ---, title: … and another line ---"),
        ("title: Of cats", "tittle: Of cats", 'my.md:2: there is no "tittle"; did you mean "title"?; known: title, '
            "language, page"),
        ("title: Of cats", "", "my.md:1: the title is missing; add a line title: …"),
        ("title: Of cats", "title: a\nlanguage: de", 'my.md:3: language must be en / tr, not "de"'),
        ("## Look", "Look", "my.md:5: text before the first step; begin it with a heading (##)"),
        ("text: the cat\n", "", "my.md: the first step sets no text; add a block ```set with text: …"),
        ("kind: cross", "kind: cros", 'my.md:14: kind must be encoder-self / decoder-self / cross, not "cros"'),
        ("layer: 2", "layer: 0", 'my.md:15: layer must be a whole number from 1, not "0"'),
        ("beta: 0.5", "beta: high", 'my.md:17: beta must be a number, not "high"'),
        ("```set", "```python", 'my.md:12: a block of a lesson is ```set or ```question, not "python"'),
        ("expect: 2.1\n```", "expect: 2.1", "my.md:22: the block has no end; close it with ```"),
        ("answer: head cross chat -> cat\n", "", "my.md:22: a question is a line of text and a line answer: "),
        ("head cross chat -> cat", "head cross chat", 'my.md:25: "head cross chat" cannot be computed; write head'),
        ("head cross chat -> cat", "head cross dog -> cat", 'my.md:25: the sentence has no word "dog"; it has: '
            "le chat <eos>"),
        ("head cross chat -> cat", "head crss chat -> cat", 'my.md:25: there is no attention "crss"; choose from '
            "encoder-self, decoder-self, cross"),
        ("expect: 2.1", "expect: 1.2", 'my.md:25: the model answers "2.1", not "1.2"; change the line expect'),
    ],
)  # fmt: skip
def test_what_is_wrong_is_one_line_with_its_place(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in LESSON
    path = written(tmp_path, LESSON.replace(old, new, 1))
    with pytest.raises(DataError, match=re.escape(message)) as caught:
        answered(path, maps)
    assert "\n" not in str(caught.value)


def test_a_file_without_a_step_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="a lesson needs a step"):
        read_lesson(written(tmp_path, "---\ntitle: a\n---\n"))
