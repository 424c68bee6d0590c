"""Lay two runs side by side on the same texts: their words, their confidence, and their heads by what they look at."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from dikkat.evaluation.scores import sentence_chrf
from dikkat.explain.attention_map import ATTENTIONS, AttentionMap, SentenceMaps, attention_name, written_words
from dikkat.explain.drawing.chart import escaped, small_map
from dikkat.explain.explanation import Column, Explanation, Step, Table, as_html
from dikkat.explain.notebook import MAX_DESCRIBED, Shown
from dikkat.explain.report.html import heading, page, paragraph
from dikkat.tasks.inspection.reader_attention import AttendingReader
from dikkat.tasks.kinds import load
from dikkat_runtime.engine.options import BeamOptions, GenerationOptions
from dikkat_runtime.engine.precision import PrecisionName
from dikkat_runtime.errors import DataError, UsageError, msg
from dikkat_runtime.localization import language, localized, translated
from dikkat_runtime.notices import counted
from dikkat_runtime.special_tokens import SPECIAL_TOKENS
from dikkat_runtime.tasks.classifier import Classifier
from dikkat_runtime.tasks.confidence import PairScorer
from dikkat_runtime.tasks.generator import Generator as LanguageModel
from dikkat_runtime.tasks.translator import Translator

Array = NDArray[np.float64]
Head = tuple[int, int]
"""Layer and head, from 1."""

MAX_TEXTS = 100
MAX_DRAWN = 220_000
"""Characters of drawings on a page; further pairs of heads stand in the table alone."""
CONTINUATION = GenerationOptions(max_tokens=12, temperature=0.0)
"""How a language model goes on with a text: by the likeliest tokens."""


@dataclass(frozen=True, slots=True)
class Way:
    """Hold the way in which a run is asked."""

    beam_size: int = BeamOptions().beam_size
    precision: PrecisionName = "float32"


class _Opened:
    def __init__(self, run: Path, way: Way) -> None:
        self.run, self.way = run, way
        self.model: Any = load(run)
        if not isinstance(self.model, Translator | Classifier | LanguageModel):
            raise UsageError("{run}: only translators, classifiers and language models are compared", run)
        if way.beam_size != Way().beam_size and not isinstance(self.model, Translator):
            raise UsageError("{run}: only a translator searches by beam; leave out --beam", run)
        if way.precision != Way().precision:
            self.model = type(self.model).load(run, way.precision)

    def read(self, text: str) -> str:
        """Return what the model makes of a text: a translation, a class, or how the text goes on."""
        if isinstance(self.model, Translator):
            return str(self.model.translate([text], beam_size=self.way.beam_size)[0].text)
        if isinstance(self.model, Classifier):
            return self.model.classify([text])[0].label
        ids = self.model.encode(text, only_end=True)
        return "".join(part for part, _ in self.model.pieces(ids, CONTINUATION))

    def confidence(self, text: str, output: str) -> float:
        """Return the probability of an output: of its class, or the geometric mean of its tokens; NaN of no token."""
        model = self.model
        if isinstance(model, Classifier):
            return model.classify([text])[0].probabilities.get(output, math.nan)
        if isinstance(model, Translator):
            tokenizers, languages = (model.tokenizer, model.target_tokenizer), (model.language, model.target_language)
            (scores,) = PairScorer(model.engine, tokenizers, languages).scores([text], [output])
            return math.nan if scores is None else math.exp(float(scores.log_probabilities.mean()))
        ids = model.tokenizer.encode(text + output)
        whole = torch.tensor(ids[-model.context :])
        first = max(1, len(model.tokenizer.encode(text)) - len(ids) + len(whole))
        with torch.no_grad():
            logs = model.model(whole[None])[0, first - 1 : -1].log_softmax(-1)
        return float(logs.gather(1, whole[first:, None]).mean().exp())

    def reads_end(self, reading: "_Reading") -> bool:
        """Return whether a text with what follows is longer than the context of a language model."""
        if not isinstance(self.model, LanguageModel):
            return False
        texts = [reading.text + output for output in reading.outputs]
        return max(map(len, self.model.tokenizer.encode_batch(texts))) > self.model.context

    def maps(self, text: str, output: str) -> SentenceMaps:
        """Return the maps of reading a text and, by a translator, an output."""
        if isinstance(self.model, Translator):
            maps: SentenceMaps = self.model.attend(text, output)
            return maps
        reader = AttendingReader.of(self.model)
        return reader.read_window(reader.windows(text)[-1])


@dataclass(frozen=True, slots=True)
class HeadMatch:
    """Hold a head of the first run, and the head of the second that looks most alike."""

    attention: str
    first: Head
    second: Head
    overlap: float
    """Share of the attention that both have in common, from 0 to 1."""
    namesake: float
    """The same of the head of the same layer and number; NaN where there is none."""


def overlap(first: Array, second: Array) -> float:
    """Return the mean over the rows of two maps (T, S) of the attention that both have in common: Σ min(a, b)."""
    return float(np.minimum(first, second).sum(-1).mean())


def match_heads(name: str, overlaps: Array, first: Sequence[Head], second: Sequence[Head]) -> list[HeadMatch]:
    """Return one-to-one pairs of the heads (N, M) whose overlaps have the largest sum, by the Hungarian method."""
    table = {(one, two): overlaps[row, at] for row, one in enumerate(first) for at, two in enumerate(second)}
    chosen = zip(*linear_sum_assignment(overlaps, maximize=True), strict=True)
    pairs = [(first[row], second[column]) for row, column in chosen]
    return [HeadMatch(name, *pair, float(table[pair]), float(table.get((pair[0],) * 2, math.nan))) for pair in pairs]


def words_alone(attention_map: AttentionMap) -> Array:
    """Return the rows of words (T, S + 1): a column for each word, and a last one for all special tokens."""
    rows, columns = (
        np.array([token not in SPECIAL_TOKENS for token in tokens], dtype=bool)
        for tokens in (attention_map.query_tokens, attention_map.key_tokens)
    )
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


@dataclass(frozen=True, slots=True)
class _Reading:
    """What both runs make of one text."""

    text: str
    outputs: list[str]
    confidence: list[list[float]]
    """For each run the probability that it gives to the output of each."""


def compare_runs(
    first: str | Path, second: str | Path, texts: Sequence[str] | str, ways: tuple[Way, Way] = (Way(), Way())
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
    for sentence in counted(sentences[:MAX_TEXTS]):
        outputs = [one.read(sentence) for one in opened]
        confidence = [[one.confidence(sentence, output) for output in outputs] for one in opened]
        readings.append(_Reading(sentence, outputs, confidence))
        maps.append([one.maps(sentence, outputs[0]) for one in opened])
    matches, drawn, uncompared = _matches(maps)
    names = [one.run.resolve().name for one in opened]
    names = names if names[0] != names[1] else ["A", "B"]
    introduction = [
        msg("{name}: {run}, beam {size}, {precision}.", name, one.run, one.way.beam_size, one.way.precision)
        if isinstance(one.model, Translator)
        else msg("{name}: {run}, {precision}.", name, one.run, one.way.precision)
        for name, one in zip(names, opened, strict=True)
    ]
    if len(readings) < len(sentences):
        text = msg("The first {shown} of {count:,} sentences are shown; choose others.", len(readings), len(sentences))
        introduction.append(text)
    if cut := sum(any(one.reads_end(reading) for one in opened) for reading in readings):
        text = msg("{cut} of {count} texts are longer, with what follows, than the context: only their end is read.")
        introduction.append(text.fill(cut, len(readings)))
    if uncompared:
        text = msg("{count} sentences are left out of the heads, since both cut them into other words.", uncompared)
        introduction.append(text)
    written = [[one.outputs[at] for one in readings] for at in (0, 1)]
    chrf = float(np.mean(sentence_chrf(written[1], written[0])))
    steps = (_words(readings, names, chrf), *(_heads(pairs, names) for pairs in matches.values()))
    title = msg("{first} and {second} side by side", *names)
    explanation = Explanation(title, tuple(introduction), None, steps, ())
    heads = [match for pairs in matches.values() for match in pairs]
    runs = [{"path": str(one.run), **asdict(one.way)} for one in opened]
    numbers = {"runs": runs, "sentences": len(sentences), "chrf": chrf, "texts": readings, "heads": heads}
    parts = [*as_html(explanation.mapped(localized)), *_drawings(heads, drawn, names)]
    return RunComparison(explanation, numbers, Shown(localized(title), page(localized(title), language(), parts)))


def _sentences(model: Any, text: str) -> list[str]:
    return ([sentence for sentence, _ in model.sentences(text)] if isinstance(model, Translator) else []) or [text]


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
    return {name: match_heads(name, total / count, *heads[name]) for name, total in sums.items()}, drawn, uncompared


def _by_attention(maps: SentenceMaps) -> Iterator[tuple[str, HeadMaps]]:
    words = written_words(maps)
    for name, attention in ATTENTIONS.items():
        own = [item for item in words.maps if (item.stack, item.kind) == attention]
        if own:
            yield name, [((item.layer + 1, (item.head or 0) + 1), words_alone(item), item) for item in own]


def marked(words: Sequence[str], other: Sequence[str]) -> str:
    """Return words in a line, those that the other line has not in brackets."""
    parts = []
    for what, start, end, _, _ in SequenceMatcher(None, words, other, autojunk=False).get_opcodes():
        if start < end:
            part = " ".join(words[start:end])
            parts.append(part if what == "equal" else f"[{part}]")
    return " ".join(parts)


def _words(readings: Sequence[_Reading], names: Sequence[str], chrf: float) -> Step:
    rows: list[tuple[str, ...]] = []
    for one in readings:
        rows.append((one.text, "", "", ""))
        for at in (0, 1):
            answer = marked(one.outputs[at].split(), one.outputs[1 - at].split())
            rows.append((f"  {names[at]}", answer, *(f"{judge[at]:.3f}" for judge in one.confidence)))
    text = msg(
        "Words that the other does not have stand in brackets; then the probability that each of both gives to them (a "
        "mean token)."
    )
    columns = (Column(msg("text")), Column(""), *(Column(name, numeric=True) for name in names))
    after = msg("Equal in {equal} of {count}; chrF of the second against the first {chrf:.1f}.").fill(
        sum(one.outputs[0] == one.outputs[1] for one in readings), len(readings), chrf
    )
    return Step(msg("What they answer"), (text,), Table(columns, tuple(rows)), (after,))


def _heads(matches: Sequence[HeadMatch], names: Sequence[str]) -> Step:
    headings = (msg("in common"), msg("head of the same name"))
    columns = (*map(Column, names), *(Column(title, numeric=True) for title in headings))
    rows = tuple(
        (_named(one.first), _named(one.second), f"{one.overlap:.2f}", f"{one.namesake:.2f}".replace("nan", "–"))
        for one in matches
    )
    title = msg("Heads: {attention}", attention_name(*ATTENTIONS[matches[0].attention]))
    text = msg("Each head, and the one that looks most alike: the share of its attention that both have in common.")
    mean = msg("Mean of all: {mean:.2f}.", float(np.mean([match.overlap for match in matches])))
    return Step(title, (text,), Table(columns, rows), (mean,))


def _named(head: Head) -> str:
    return msg("layer {layer}, head {head}", *head)


def _drawings(matches: Sequence[HeadMatch], drawn: Drawn, names: Sequence[str]) -> Iterator[str]:
    """Both maps of each pair on the first sentence, those that differ most first."""
    yield heading(translated("Maps of the first sentence, those that differ most first"))
    length = 0
    for number, match in enumerate(sorted(matches, key=lambda match: match.overlap)):
        heads = (match.first, match.second)
        maps = [drawn[match.attention, at, head] for at, head in enumerate(heads)]
        if max(max(one.weights.shape) for one in maps) > MAX_DESCRIBED:
            yield paragraph(translated("The sentence is too long to be drawn here; see `dikkat attend`."))
            return
        name = translated(attention_name(*ATTENTIONS[match.attention]))
        figures = "".join(
            f"<figure>{small_map(one)}<figcaption>{escaped(f'{run}: {localized(_named(head))}')}</figcaption></figure>"
            for run, one, head in zip(names, maps, heads, strict=True)
        )
        title = f"{name}: {translated('{share:.2f} in common', match.overlap)}"
        part = f'{heading(title, 3)}<div class="strip">{figures}</div>'
        length += len(part)
        if length > MAX_DRAWN:
            yield paragraph(translated("{count} more pairs are only in the tables.", len(matches) - number))
            return
        yield part
