"""Read a lesson that anyone writes in Markdown: steps, what each sets in the page, and questions the model answers."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dikkat.explain.attention_map import ATTENTIONS, AttentionMap, SentenceMaps, peak, written_words
from dikkat_runtime.errors import DataError, UsageError, msg, nearest
from dikkat_runtime.text.text_files import read_lines

LANGUAGES = ("en", "tr")
KINDS = {"encoder-self": "encoder", "decoder-self": "decoder", "cross": "cross"}
"""The attentions as a page names them, and as maps do."""
CHOICES: dict[str, tuple[str, ...]] = {
    "kind": tuple(KINDS),
    "tab": ("maps", "six", "decoding", "heads", "importance", "positions", "classes", "next", "parts"),
    "view": ("links", "heat", "text"),
    "positions": ("on", "off"),
    "language": LANGUAGES,
    "page": ("live", "training"),
}
SETTINGS = (
    *("kind", "tab", "view", "positions", "beam", "layer", "beta", "update", "sentence", "text", "look", "at"),
    *("hide", "heads"),
)
"""What a step may set."""
NEAR = 0.02
"""Weight below the largest up to which another head is as right an answer."""
ANSWERS = "head KIND WORD -> WORD, word KIND LAYER.HEAD WORD, weight KIND LAYER.HEAD WORD -> WORD, or output"
_HEAD_AND_WORD = re.compile(r"(\S+)(?: (\d+)\.(\d+))? (.+)")
"""Kind of attention, layer and head, and a word."""


@dataclass(slots=True)
class Question:
    """Hold a question of a step, whose answer the model gives."""

    where: str
    text: str
    answer: str
    expect: str
    hints: list[str]


@dataclass(slots=True)
class Step:
    """Hold one step of a lesson."""

    heading: str
    text: str
    settings: dict[str, Any]
    question: Question | None = None


@dataclass(slots=True)
class Lesson:
    """Hold a lesson as it is written in one language."""

    title: str
    language: str
    page: str
    """A page that computes ("live"), or one over the training of a run ("training")."""
    steps: list[Step]


def read_lesson(path: Path) -> Lesson:
    """Read one file of a lesson. Raises `DataError` with file and line, and the errors of reading a file."""
    return _Reader(path).lesson()


class _Reader:
    def __init__(self, path: Path) -> None:
        self.path, self.lines, self.at = path, [line.strip() for line in read_lines(path)], 1

    def lesson(self) -> Lesson:
        if self.lines[:1] != ["---"]:
            raise DataError("{where}: a lesson begins with a line ---, title: … and another line ---", self._where(0))
        fields = {"language": "en", "page": "live"}
        for number, name, value in self._pairs("---", ("title", "language", "page")):
            fields[name] = self._value(number, name, value)
        if not fields.get("title"):
            raise DataError("{where}: the title is missing; add a line title: …", self._where(0))
        steps: list[Step] = []
        while self.at < len(self.lines):
            number, line = self.at, self.lines[self.at]
            self.at += 1
            if line.startswith("## "):
                text = steps[-1].settings["text"] if steps else ""
                steps.append(Step(line.removeprefix("## "), "", {"text": text}))
            elif line and not steps:
                raise DataError(
                    "{where}: text before the first step; begin it with a heading (##)", self._where(number)
                )
            elif line.startswith("```"):
                self._block(steps[-1], line.removeprefix("```"), number)
            elif steps:
                steps[-1].text += line + "\n"
        if not steps:
            raise DataError("{path}: a lesson needs a step, which begins with a heading (##)", self.path)
        if fields["page"] == "live" and not steps[0].settings["text"]:
            raise DataError("{path}: the first step sets no text; add a block ```set with text: …", self.path)
        for step in steps:
            # lines of one paragraph are one
            step.text = "\n\n".join(" ".join(part.split()) for part in re.split(r"\n{2,}", step.text.strip()))
        return Lesson(fields["title"], fields["language"], fields["page"], steps)

    def _where(self, number: int) -> str:
        return f"{self.path}:{number + 1}"

    def _pairs(self, end: str, known: Sequence[str]) -> Iterator[tuple[int, str, str]]:
        """Yield the lines `name: value` up to a line `end`, each with its number; a line of text has the name ""."""
        first = self.at
        for number in range(first, len(self.lines)):
            line, self.at = self.lines[number], number + 1
            if line == end:
                return
            name, colon, value = line.partition(":")
            if colon and name not in known and re.fullmatch(r"\w+", name):
                raise DataError('{where}: there is no "{name}"{hint}; known: {known}').fill(
                    self._where(number), name, nearest(name, known), ", ".join(known)
                )
            if line:
                yield number, *((name, value.strip()) if colon and name in known else ("", line))
        raise DataError("{where}: the block has no end; close it with {end}", self._where(first - 1), end)

    def _block(self, step: Step, name: str, number: int) -> None:
        if name == "set":
            pairs = list(self._pairs("```", SETTINGS))
            step.settings |= {setting: self._value(line, setting, value) for line, setting, value in pairs}
        elif name == "question":
            pairs = list(self._pairs("```", ("answer", "expect", "hint")))
            lines = {field: (line, value) for line, field, value in pairs}
            if "answer" not in lines or "" not in lines:
                raise DataError(
                    "{where}: a question is a line of text and a line answer: {answers}", self._where(number), ANSWERS
                )
            texts, hints = ([value for _, field, value in pairs if field == wanted] for wanted in ("", "hint"))
            line, answer = lines["answer"]
            expected = lines.get("expect", (0, ""))[1]
            step.question = Question(self._where(line), " ".join(texts), answer, expected, hints)
        else:
            raise DataError(
                '{where}: a block of a lesson is ```set or ```question, not "{name}"', self._where(number), name
            )

    def _value(self, line: int, name: str, value: str) -> Any:
        """Return a setting as the page takes it: layers, heads and sentences from 0."""
        wanted: str = " / ".join(CHOICES.get(name, ()))
        if wanted and value in CHOICES[name]:
            return value == "on" if name == "positions" else value
        if name in ("text", "look", "at", "title"):
            return value
        if name == "hide":
            return [word.strip() for word in value.split(",")]
        if re.fullmatch(r"\d+(\.\d+)?" if name == "beta" else r"[1-9]\d*(, *\d+)*", value) and not wanted and name:
            numbers = [float(part) for part in value.split(",")]
            if name in ("beta", "update", "beam"):
                return numbers[0] if name == "beta" else int(numbers[0])
            return [int(one) - 1 for one in numbers] if name == "heads" else int(numbers[0]) - 1
        wanted = wanted or msg("a number" if name == "beta" else "a whole number from 1" if name else "name: value")
        raise DataError('{where}: {name} must be {wanted}, not "{value}"').fill(
            self._where(line), name or msg("a line of a block set"), wanted, value
        )


def answered(path: Path, maps_of: Callable[[dict[str, Any]], SentenceMaps]) -> dict[str, Any]:
    """Return the lesson of a file as a page takes it, with the answers that the model gives.

    A file of the same name for another language, as my.tr.md beside my.md, is joined to it step by step. `maps_of`
    returns the maps of what a step sets. Raises the errors of `read_lesson`; `DataError` where both languages have
    other numbers of steps or questions, and where the model answers other than a line `expect` says.
    """
    first = read_lesson(path)
    others = [path.with_suffix(f".{language}.md") for language in LANGUAGES if language != first.language]
    lessons = {first.language: first}
    for other in filter(Path.exists, others):
        lesson = read_lesson(other)
        lessons[lesson.language] = lesson
        if [step.question is None for step in lesson.steps] != [step.question is None for step in first.steps]:
            raise DataError("{path}: has other steps or questions than {first}; write the same", other, path)
    steps = []
    for number, step in enumerate(first.steps):
        own = {language: lesson.steps[number] for language, lesson in lessons.items()}
        content: dict[str, Any] = {"set": step.settings}
        content |= {name: {code: getattr(one, name) for code, one in own.items()} for name in ("heading", "text")}
        if step.question is not None:
            questions = {code: one.question for code, one in own.items() if one.question is not None}
            content["question"] = model_answer(step.question, maps_of(step.settings)) | {
                name: {code: getattr(one, name) for code, one in questions.items()} for name in ("text", "hints")
            }
        steps.append(content)
    return {"title": {code: one.title for code, one in lessons.items()}, "page": first.page, "steps": steps}


def model_answer(question: Question, maps: SentenceMaps) -> dict[str, Any]:
    """Return the answers that are right, the best first, the kind of the question, and the weight that it is about.

    Raises `DataError` with file and line for an answer that cannot be computed, and one that `expect` contradicts.
    """
    what, _, rest = question.answer.partition(" ")
    before, arrow, key = rest.strip().replace("→", "->").partition("->")
    match = _HEAD_AND_WORD.fullmatch(before.rstrip())
    shape = (what, bool(match and match[2]), bool(arrow and key))
    if what == "output" and not rest:
        right, weight = [maps.written or maps.output], None
    elif match is None or shape not in (("head", False, True), ("word", True, False), ("weight", True, True)):
        raise DataError(
            '{where}: "{answer}" cannot be computed; write {answers}', question.where, question.answer,
            ANSWERS,
        )  # fmt: skip
    else:
        try:
            right, weight = _of_maps(what, (*match.groups(), key.lstrip()), maps)
        except UsageError as error:
            raise DataError("{where}: {problem}", question.where, error) from None
    if question.expect and not is_right(what, question.expect, right):
        raise DataError(
            '{where}: the model answers "{found}", not "{expect}"; change the line expect', question.where, right[0],
            question.expect,
        )  # fmt: skip
    return {"kind": what, "right": right, "weight": weight}


def is_right(what: str, answer: str, right: Sequence[str]) -> bool:
    """Return whether an answer is one of those that are right, as the page judges it."""
    if what == "weight":
        is_number = re.fullmatch(r"\d+(\.\d+)?", answer) is not None
        return is_number and abs(float(answer) - float(right[0])) <= 0.05
    return bare(answer) in map(bare, right)


def bare(text: str) -> str:
    """Return a word or a text in small letters without the signs around it."""
    small = text.casefold()
    indices = [index for index, character in enumerate(small) if character.isalnum() or character == "_"]
    return small[indices[0] : indices[-1] + 1] if indices else ""


def _of_maps(what: str, parts: tuple[str, ...], maps: SentenceMaps) -> tuple[list[str], float]:
    kind, layer, head, query, key = parts
    if kind not in KINDS:
        raise UsageError('there is no attention "{name}"; choose from {known}', kind, ", ".join(KINDS))
    words = written_words(maps)
    stack, attention = ATTENTIONS[KINDS[kind]]
    if what == "head":
        heads = words.select(stack, attention)
        weights = np.array([one.weights[_word(one, query), _word(one, key, keys=True)] for one in heads])
        near = [index for index in np.argsort(-weights, kind="stable") if weights[index] >= weights.max() - NEAR]
        return [f"{heads[index].layer + 1}.{(heads[index].head or 0) + 1}" for index in near], float(weights.max())
    (one,) = words.select(stack, attention, int(layer) - 1, int(head) - 1)
    row = _word(one, query)
    if what == "word":
        token, weight = peak(one, row)
        return [token], weight
    weight = float(one.weights[row, _word(one, key, keys=True)])
    return [f"{weight:.2f}"], weight


def _word(attention_map: AttentionMap, word: str, *, keys: bool = False) -> int:
    tokens = attention_map.key_tokens if keys else attention_map.query_tokens
    indices = [index for index, token in enumerate(tokens) if word == token or bare(token) == bare(word) != ""]
    if not indices:
        raise UsageError('the sentence has no word "{word}"; it has: {words}', word, " ".join(tokens))
    return indices[0]
