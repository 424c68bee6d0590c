"""Lay two runs side by side on the same texts: their words, their confidence, and their heads by what they look at."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from dikkat.evaluation.scores import sentence_chrf
from dikkat.explain.attention_map import (
    ATTENTIONS,
    AttentionMap,
    SentenceMaps,
    attention_name,
    written_words,
)
from dikkat.explain.drawing.chart import escaped, small_map
from dikkat.explain.explanation import Column, Explanation, Step, Table, as_html
from dikkat.explain.notebook import MAX_DESCRIBED, Shown
from dikkat.explain.report.html import heading, page, paragraph
from dikkat.tasks.kinds import load
from dikkat_runtime.engine.options import BeamOptions, GenerationOptions
from dikkat_runtime.engine.precision import PrecisionName
from dikkat_runtime.errors import DataError, UsageError, joined, msg
from dikkat_runtime.localization import language, localized, translated
from dikkat_runtime.special_tokens import SPECIAL_TOKENS
from dikkat_runtime.tasks.classifier import Classifier
from dikkat_runtime.tasks.confidence import PairScorer
from dikkat_runtime.tasks.generator import Generator as LanguageModel
from dikkat_runtime.tasks.translator import Translator

Array = NDArray[np.float64]
Head = tuple[int, int]
"""Layer and head, from 0."""

MAX_TEXTS = 100
CONTINUATION = GenerationOptions(max_tokens=12, temperature=0.0)
"""How a language model goes on with a text: by the likeliest tokens."""
MAX_DRAWN = 220_000
"""Characters of drawings on a page; further pairs of heads stand in the table alone."""


@dataclass(frozen=True, slots=True)
class Way:
    """Hold the way in which a run is asked."""

    beam_size: int = BeamOptions().beam_size
    precision: PrecisionName = "float32"


class _Opened:
    """One of the two runs."""

    def __init__(self, run: Path, way: Way) -> None:
        self.run, self.way = run, way
        self.model: Any = load(run)
        if isinstance(self.model, Translator | Classifier):
            self.model = type(self.model).load(run, way.precision)
        elif not isinstance(self.model, LanguageModel):
            raise UsageError("{run}: only translators, classifiers and language models are compared", run)

    def described(self) -> dict[str, Any]:
        """Return the run and the way for JSON."""
        return {"path": str(self.run), "beam": self.way.beam_size, "precision": self.way.precision}

    def read(self, text: str) -> str:
        """Return what the model makes of a text: a translation, a class, or how the text goes on."""
        if isinstance(self.model, Translator):
            return str(self.model.translate([text], beam_size=self.way.beam_size)[0].text)
        if isinstance(self.model, Classifier):
            return self.model.classify([text])[0].label
        return str(self.model.generate([text], options=CONTINUATION)[0][0].text)

    def confidence(self, text: str, output: str) -> float:
        """Return the probability of an output: of its class, or the geometric mean of its tokens; NaN of no token."""
        if isinstance(self.model, Classifier):
            return self.model.classify([text])[0].probabilities.get(output, math.nan)
        if isinstance(self.model, Translator):
            model = self.model
            scorer = PairScorer(
                model.engine, (model.tokenizer, model.target_tokenizer), (model.language, model.target_language)
            )
            (scores,) = scorer.scores([text], [output])
            return math.nan if scores is None else math.exp(float(scores.log_probabilities.mean()))
        prompt, whole = self.model.read(text), self.model.read(text + output)
        with torch.no_grad():
            module = self.model.model
            shares = module.project(module.hidden(torch.tensor([whole]))[0]).log_softmax(-1)
        written = range(len(prompt), len(whole))
        logs = [float(shares[position - 1, whole[position]]) for position in written]
        return math.exp(sum(logs) / len(logs)) if logs else math.nan

    def maps(self, text: str, output: str) -> SentenceMaps:
        """Return the maps of reading a text and, by a translator, an output."""
        maps: SentenceMaps = self.model.attend(text, *([output] if isinstance(self.model, Translator) else []))
        return maps


@dataclass(frozen=True, slots=True)
class HeadMatch:
    """Hold a head of the first run, and the head of the second that looks most alike."""

    first: Head
    second: Head
    overlap: float
    """Share of the attention that both have in common, from 0 to 1."""
    namesake: float
    """The same of the head of the same layer and number; NaN where there is none."""

    def described(self, attention: str) -> dict[str, Any]:
        """Return the match for JSON, layers and heads from 1."""
        first, second = ([number + 1 for number in head] for head in (self.first, self.second))
        namesake = None if math.isnan(self.namesake) else self.namesake
        return {"attention": attention, "first": first, "second": second, "overlap": self.overlap, "namesake": namesake}


def overlap(first: Array, second: Array) -> float:
    """Return the mean over the rows of two maps (T, S) of the attention that both have in common: Σ min(a, b)."""
    return float(np.minimum(first, second).sum(-1).mean())


def match_heads(overlaps: Array, first: Sequence[Head], second: Sequence[Head]) -> list[HeadMatch]:
    """Return one-to-one pairs of the heads (N, M) whose overlaps have the largest sum, by the Hungarian method."""
    rows, columns = linear_sum_assignment(overlaps, maximize=True)
    numbers = {head: column for column, head in enumerate(second)}
    return [
        HeadMatch(
            first[row],
            second[column],
            float(overlaps[row, column]),
            float(overlaps[row, numbers[first[row]]]) if first[row] in numbers else math.nan,
        )
        for row, column in zip(rows.tolist(), columns.tolist(), strict=True)
    ]


def words_alone(attention_map: AttentionMap) -> Array:
    """Return the rows of words (T, S + 1): a column for each word, and a last one for all special tokens."""
    rows = [token not in SPECIAL_TOKENS for token in attention_map.query_tokens]
    columns = np.array([token not in SPECIAL_TOKENS for token in attention_map.key_tokens])
    weights = attention_map.weights.astype(np.float64)[rows]
    return np.concatenate((weights[:, columns], weights[:, ~columns].sum(1, keepdims=True)), axis=1)


@dataclass(frozen=True, slots=True, repr=False)
class RunComparison:
    """Hold two runs side by side; a notebook shows the page."""

    explanation: Explanation
    numbers: dict[str, Any]
    page: Shown

    def _repr_html_(self) -> str:
        return self.page._repr_html_()

    def __repr__(self) -> str:
        return f'<{self.page.name} side by side; .page.write("page.html") makes a file of it>'


def compare_runs(
    first: str | Path,
    second: str | Path,
    texts: Sequence[str] | str,
    ways: tuple[Way, Way] = (Way(), Way()),
    watch: Callable[[int, int, str], None] = lambda done, count, text: None,
) -> RunComparison:
    """Return two runs side by side on some texts, of which the sentences are read one by one.

    Both may be one run that is asked in two `ways`. For the maps both read what the first one has written. Raises
    `UsageError` for runs of two kinds, `DataError` without a text, and the errors of loading a run.
    """
    opened = [_Opened(Path(run), way) for run, way in zip((first, second), ways, strict=True)]
    if type(opened[0].model) is not type(opened[1].model):
        raise UsageError("{first} and {second} hold models of two kinds; compare two of one kind", first, second)
    lines = [line for text in ([texts] if isinstance(texts, str) else texts) for line in text.split("\n")]
    sentences = [sentence for line in lines if line.strip() for sentence in _sentences(opened[0].model, line)]
    if not sentences:
        raise DataError("there is no text to compare on; give one in quotes, or a file with --file")
    readings, maps = [], []
    for number, sentence in enumerate(sentences[:MAX_TEXTS]):
        watch(number, min(len(sentences), MAX_TEXTS), sentence)
        outputs = [one.read(sentence) for one in opened]
        confidence = [[one.confidence(sentence, output) for output in outputs] for one in opened]
        readings.append(_Reading(sentence, outputs, confidence))
        maps.append([one.maps(sentence, outputs[0]) for one in opened])
    matches, drawn, uncompared = _matches(maps)
    names = _names(opened)
    explanation = _explained(opened, readings, matches, (len(sentences), uncompared))
    numbers = {"runs": [one.described() for one in opened], "sentences": len(sentences)}
    numbers |= {"equal": _equal(readings), "chrf": _chrf(readings), "texts": [asdict(one) for one in readings]}
    numbers["heads"] = [match.described(name) for name, pairs in matches.items() for match in pairs]
    parts = [*as_html(explanation.mapped(localized)), *_drawings(matches, drawn, names)]
    title = localized(explanation.title)
    return RunComparison(explanation, numbers, Shown(title, page(title, language(), parts)))


@dataclass(frozen=True, slots=True)
class _Reading:
    """What both runs make of one text."""

    text: str
    outputs: list[str]
    confidence: list[list[float]]
    """For each run the probability that it gives to the output of each."""


def _explained(
    opened: Sequence[_Opened],
    readings: Sequence[_Reading],
    matches: Mapping[str, Sequence[HeadMatch]],
    counts: tuple[int, int],
) -> Explanation:
    names, (sentences, uncompared) = _names(opened), counts
    introduction: list[str] = [
        msg("{name}: {run}, beam {size}, {precision}.", name, one.run, one.way.beam_size, one.way.precision)
        for name, one in zip(names, opened, strict=True)
    ]
    if len(readings) < sentences:
        text = msg("Of {count:,} sentences the first {shown} are shown; choose others.", sentences, len(readings))
        introduction.append(text)
    if uncompared:
        text = msg("{count} sentences are left out of the heads, since both cut them into other words.", uncompared)
        introduction.append(text)
    steps = [_words(readings, names, isinstance(opened[0].model, Classifier)), _confidence(readings, names)]
    steps += [_heads(name, pairs, names) for name, pairs in matches.items()]
    title = msg("{first} and {second} side by side", *names)
    return Explanation(title, tuple(introduction), None, tuple(steps), ())


def _sentences(model: Any, text: str) -> list[str]:
    found = [sentence for sentence, _ in model.sentences(text)] if isinstance(model, Translator) else []
    return found or [text]


def _names(opened: Sequence[_Opened]) -> list[str]:
    names = [one.run.resolve().name for one in opened]
    return names if names[0] != names[1] else ["A", "B"]


def _equal(readings: Sequence[_Reading]) -> int:
    return sum(one.outputs[0] == one.outputs[1] for one in readings)


def _chrf(readings: Sequence[_Reading]) -> float:
    first, second = zip(*(one.outputs for one in readings), strict=True)
    return float(np.mean(sentence_chrf(second, first)))


HeadMaps = list[tuple[Head, Array, AttentionMap]]
"""The heads of one attention: what is compared of each, and its map between words."""
Drawn = dict[tuple[str, int, Head], AttentionMap]
"""The map of a head on the first sentence, by attention and number of the run."""


def _matches(maps: Sequence[Sequence[SentenceMaps]]) -> tuple[dict[str, list[HeadMatch]], Drawn, int]:
    sums: dict[str, Array] = {}
    heads: dict[str, list[list[Head]]] = {}
    drawn: Drawn = {}
    uncompared = 0
    for pair in maps:
        first, second = (dict(_by_attention(one)) for one in pair)
        both = {name: (first[name], second[name]) for name in first if name in second}
        if any(one[0][1].shape != other[0][1].shape for one, other in both.values()):
            uncompared += 1
            continue
        for name, (one, other) in both.items():
            heads[name] = [[head for head, *_ in own] for own in (one, other)]
            sums[name] = sums.get(name, 0) + np.array([[overlap(a, b) for _, b, _ in other] for _, a, _ in one])
            for number, own in enumerate((one, other)):
                for head, _, attention_map in own:
                    drawn.setdefault((name, number, head), attention_map)
    count = max(1, len(maps) - uncompared)
    return {name: match_heads(total / count, *heads[name]) for name, total in sums.items()}, drawn, uncompared


def _by_attention(maps: SentenceMaps) -> Iterator[tuple[str, HeadMaps]]:
    words = written_words(maps)
    for name, attention in ATTENTIONS.items():
        own = [item for item in words.maps if (item.stack, item.kind) == attention]
        if own:
            yield name, [((item.layer, item.head or 0), words_alone(item), item) for item in own]


def marked(words: Sequence[str], other: Sequence[str]) -> str:
    """Return words in a line, those that the other line has not in brackets."""
    parts = []
    for what, start, end, _, _ in SequenceMatcher(None, words, other, autojunk=False).get_opcodes():
        if start < end:
            part = " ".join(words[start:end])
            parts.append(part if what == "equal" else f"[{part}]")
    return " ".join(parts)


def _words(readings: Sequence[_Reading], names: Sequence[str], are_classes: bool) -> Step:
    rows = tuple(
        (one.text, *(marked(one.outputs[at].split(), one.outputs[1 - at].split()) for at in (0, 1))) for one in readings
    )
    after = [msg("Equal in {equal} of {count}.", _equal(readings), len(readings))]
    if not are_classes:
        after.append(msg("chrF of the second against the first: {chrf:.1f}.", _chrf(readings)))
    text = msg("Words that the other does not have stand in brackets.")
    columns = (Column(msg("text")), *map(Column, names))
    return Step(msg("What they make of it"), (text,), Table(columns, rows), (joined(" ", after),))


def _confidence(readings: Sequence[_Reading], names: Sequence[str]) -> Step:
    columns = (
        Column("#", numeric=True),
        *(Column(msg("{judge} of {output}", judge, output), numeric=True) for judge in names for output in names),
    )
    rows = tuple(
        (f"{number}", *(f"{share:.3f}" for judge in one.confidence for share in judge))
        for number, one in enumerate(readings, start=1)
    )
    text = msg(
        "The probability that each gives to what it makes of the text, and to what the other does (a mean token)."
    )
    return Step(msg("How sure they are"), (text,), Table(columns, rows))


def _heads(name: str, matches: Sequence[HeadMatch], names: Sequence[str]) -> Step:
    columns = (
        *(Column(one) for one in names),
        *(Column(title, numeric=True) for title in (msg("in common"), msg("head of the same name"))),
    )
    rows = tuple(
        (
            _named(match.first),
            _named(match.second),
            f"{match.overlap:.2f}",
            "–" if math.isnan(match.namesake) else f"{match.namesake:.2f}",
        )
        for match in matches
    )
    title = attention_name(*ATTENTIONS[name])
    text = msg("Each head, and the one that looks most alike: the share of its attention that both have in common.")
    mean = msg("Mean of all: {mean:.2f}.", float(np.mean([match.overlap for match in matches])))
    return Step(msg("Heads: {attention}", title), (text,), Table(columns, rows), (mean,))


def _named(head: Head) -> str:
    return msg("layer {layer}, head {head}", head[0] + 1, head[1] + 1)


def _drawings(matches: dict[str, list[HeadMatch]], drawn: Drawn, names: Sequence[str]) -> Iterator[str]:
    """Both maps of each pair on the first sentence, those that differ most first."""
    pairs = sorted(
        ((match.overlap, name, match) for name, own in matches.items() for match in own), key=lambda pair: pair[0]
    )
    yield heading(translated("Maps of the first sentence, those that differ most first"))
    length = 0
    for number, (share, name, match) in enumerate(pairs):
        maps = [drawn[name, at, head] for at, head in enumerate((match.first, match.second))]
        if max(max(one.weights.shape) for one in maps) > MAX_DESCRIBED:
            yield paragraph(translated("The sentence is too long to be drawn here; see `dikkat attend`."))
            return
        title = f"{translated(attention_name(*ATTENTIONS[name]))}: {translated('{share:.2f} in common', share)}"
        figures = "".join(
            f"<figure>{small_map(one)}<figcaption>{escaped(f'{run}: {localized(_named(head))}')}</figcaption></figure>"
            for run, one, head in zip(names, maps, (match.first, match.second), strict=True)
        )
        part = f'{heading(title, 3)}<div class="strip">{figures}</div>'
        length += len(part)
        if length > MAX_DRAWN:
            yield paragraph(translated("{count} more pairs stand in the tables alone.", len(pairs) - number))
            return
        yield part
