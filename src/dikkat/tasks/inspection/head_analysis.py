"""Measure what every head of a trained model does on held-out text, and what is lost without it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import nn

from dikkat.data.corpus import Corpus
from dikkat.data.readers import read_pairs
from dikkat.evaluation.alignment_error import GoldAlignment, parse_alignments
from dikkat.explain.head_analysis.alignment_head import Agreement, Agreements, WordNumbers, choose_alignment_head
from dikkat.explain.head_analysis.circuits import head_scores
from dikkat.explain.head_analysis.head_stats import HeadStats, HeadStatsCollector
from dikkat.explain.head_analysis.importance import (
    Cost,
    HeadName,
    Measure,
    Quality,
    cost_without,
    gradient_times_input,
    head_costs,
    head_names,
    least_useful,
    occlusion,
)
from dikkat.models.language_model import LanguageModel
from dikkat.nn.recorder import record_attention
from dikkat.run_directory import RunDirectory
from dikkat.tasks.inspection.reader_attention import require_no_prefix
from dikkat.tasks.kinds import kind_name, load_part
from dikkat.tasks.translation.guiding import guided_note
from dikkat.training.translation import Validator
from dikkat_runtime.errors import DataError, UsageError, msg
from dikkat_runtime.notices import counted
from dikkat_runtime.special_tokens import BOS_ID, EOS_ID, source_ids
from dikkat_runtime.tasks.translator import Translator
from dikkat_runtime.text.text_files import read_lines


@dataclass(frozen=True, slots=True)
class HeadSubject:
    """Hold a model, and the texts that its heads are measured on."""

    model: nn.Module
    kind: str
    """`translator`, `classifier`, `multi_label` or `lm`: names the measure."""
    count: int
    """Number of texts, or of windows of text."""
    total: int
    """Number of those that there are, from which they were taken."""
    observe: Callable[[HeadStatsCollector, Sequence[int]], Mapping[HeadName, Agreement] | None]
    """Adds the maps of the texts with these indices; returns the agreement of each head of cross-attention."""
    measure: Callable[[Sequence[int]], Quality]
    """Returns the quality of the model, as it is now, on the texts with these indices."""
    note: str = ""
    """What who looks at the heads should know; empty where there is nothing."""
    longest: int = 0
    """Tokens that a language model reads at once."""


def spread(count: int, most: int, path: Path) -> list[int]:
    """Return at most `most` indices below `count`, evenly spread. Raises `DataError` naming `path` without any text."""
    if not count:
        raise DataError("{path}: there is no text to examine the heads on", path)
    return [int(index) for index in np.unique(np.linspace(0, count - 1, most).astype(int))]


MAX_POINTS = 10
"""Largest number of points on the pruning curve."""


@dataclass(frozen=True, slots=True)
class HeadFinding:
    """Hold the measurements of one head."""

    head: HeadName
    stats: HeadStats
    cost: Cost
    """Loss of quality while this head alone is off."""
    agreement: Agreement | None
    """Agreement with word alignments, for heads of cross-attention."""
    patterns: Mapping[str, float] | None = None
    """Scores of a head of a language model, see `detection_patterns`."""


@dataclass(frozen=True, slots=True)
class Pruning:
    """Hold the quality of the model with its least useful heads off."""

    off: tuple[HeadName, ...]
    cost: Cost


@dataclass(frozen=True, slots=True)
class HeadsReport:
    """Hold the measurements of all heads of one model on one sample."""

    kind: str
    """`translator`, `classifier`, `multi_label` or `lm`."""
    sentences: int
    total: int
    """Number of texts that there are to examine."""
    whole: Quality
    """Quality with every head on."""
    heads: tuple[HeadFinding, ...]
    alignment_head: HeadFinding | None
    """The head that agrees best with word alignments; None without cross-attention."""
    other_sentences: int
    """Number of texts that the pruning was measured on; the heads were ranked on the sample."""
    pruned: tuple[Pruning, ...]
    note: str = ""
    """What who looks at the heads should know, such as which one was guided; empty where there is nothing."""


@dataclass(frozen=True, slots=True)
class _Pair:
    """One held-out pair: text, ids without marks, and which word each id is of."""

    texts: tuple[str, str]
    ids: tuple[list[int], list[int]]
    words: WordNumbers
    gold: GoldAlignment | None


def examine_heads(
    path: Path, data: Sequence[str] = (), *, sentences: int = 100, gold: Path | None = None, prune: int = 0
) -> HeadsReport:
    """Measure every head of the model at `path` on held-out text.

    `sentences` pairs, texts or windows are taken from `data`, or from the run's own validation part when empty. `gold`,
    for a translator, holds one word alignment a pair (see `parse_alignments`), with words split at spaces. The `prune`
    least useful heads are switched off together in at most `MAX_POINTS` steps, on as many other texts. Raises
    `UsageError`, `MissingInputError` or `DataError` naming the option or the file and line.
    """
    run, most = RunDirectory.open(path), sentences * (2 if prune else 1)
    if kind_name(run) == "translator":
        subject = _translator_heads(path, data, most, gold)
    elif gold is not None:
        raise UsageError("--gold is for the pairs of a translator, but {run} holds another kind; leave it out", path)
    else:
        subject = load_part(run, "heads", msg("whose heads cannot be examined"))(path, data, most)
    heads = head_names(subject.model)
    if prune > len(heads):
        raise UsageError("--prune {prune}: this model has only {count} heads to switch off", prune, len(heads))
    sample, others = _halves(range(subject.count), prune, "pairs" if subject.kind == "translator" else "texts")
    counts = [int(count) for count in np.unique(np.linspace(1, prune, min(prune, MAX_POINTS)).astype(int))]
    collector = HeadStatsCollector()
    agreements = subject.observe(collector, sample) or {}
    measure = partial(subject.measure, sample)
    whole = measure()
    costs = head_costs(subject.model, whole, measure)
    scores = head_scores(subject.model, subject.longest) if isinstance(subject.model, LanguageModel) else {}
    finding_of = {
        head: HeadFinding(head, collector.of(head), costs[head], agreements.get(head), scores.get(head))
        for head in heads
    }
    best = finding_of[choose_alignment_head(agreements)] if agreements else None
    order = least_useful(costs, prune)
    pruned = _prune(subject.model, partial(subject.measure, others), order, counts) if prune else ()
    findings = tuple(finding_of.values())
    return HeadsReport(
        subject.kind, len(sample), subject.total, whole, findings, best, len(others), pruned, subject.note
    )


def _translator_heads(path: Path, data: Sequence[str], most: int, gold: Path | None) -> HeadSubject:
    translator = Translator.load(path)
    # the model is measured, not the people who corrected it
    translator.corrections = None
    pairs = _read_pairs(translator, RunDirectory.open(path), data, gold)
    total = len(pairs)
    pairs = [pairs[index] for index in spread(total, most, path)]
    return HeadSubject(
        translator.model,
        "translator",
        len(pairs),
        total,
        lambda collector, indices: _observe(translator, [pairs[index] for index in indices], collector),
        lambda indices: _measure(translator, [pairs[index] for index in indices]),
        guided_note(translator.config),
    )


def _halves(chosen: Sequence[int], prune: int, what: str) -> tuple[Sequence[int], Sequence[int]]:
    """What the heads are examined on, and what pruning is measured on."""
    if not prune:
        return chosen, ()
    if len(chosen) < 2:
        raise UsageError(
            "--prune needs two {unit} or more: heads are chosen on some, their cost is measured on others", what
        )
    return chosen[::2], chosen[1::2]


def _read_pairs(translator: Translator, run: RunDirectory, data: Sequence[str], gold: Path | None) -> list[_Pair]:
    texts = _texts(run, data)
    alignments: list[GoldAlignment | None] = [None] * len(texts)
    if gold is not None:
        alignments = list(parse_alignments(read_lines(gold), str(gold)))
        if len(alignments) != len(texts):
            raise DataError(
                "{gold} has {count:,} lines, but there are {pairs:,} pairs; line N must align the words of pair N"
            ).fill(gold, len(alignments), len(texts))
    pairs = [_encode(translator, *both) for both in zip(texts, alignments, strict=True) if all(map(str.split, both[0]))]
    if not pairs:
        raise DataError("there is no pair to examine: each has an empty side")
    return pairs


def _texts(run: RunDirectory, data: Sequence[str]) -> list[tuple[str, str]]:
    if data:
        return [(pair.source, pair.target) for pair in read_pairs(data)]
    columns = [list(read_lines(run.held_out("validation", side))) for side in ("source", "target")]
    return list(zip(*columns, strict=True))


def _encode(translator: Translator, texts: tuple[str, str], gold: GoldAlignment | None) -> _Pair:
    """Word by word, which gives the ids of the whole text, since no piece crosses a space."""
    settings = translator.config.data
    ids, numbers = [], []
    languages = settings.source_language, settings.target_language
    tokenizers = translator.tokenizer, translator.target_tokenizer
    for text, language, tokenizer in zip(texts, languages, tokenizers, strict=True):
        pieces = tokenizer.encode_batch(text.split(), language)
        ids.append([token for word in pieces for token in word])
        numbers.append(tuple(number for number, word in enumerate(pieces) for _ in word))
    if gold is not None:
        gold.require_within(*(len(text.split()) for text in texts))
    return _Pair(texts, (ids[0], ids[1]), WordNumbers(*numbers), gold)


def _observe(
    translator: Translator, sample: Sequence[_Pair], collector: HeadStatsCollector
) -> dict[HeadName, Agreement]:
    """The maps of the sample, read with the reference as the target, next to what each output depends on."""
    model = translator.model
    require_no_prefix(model)
    gold = [pair.gold for pair in sample if pair.gold is not None]
    agreements = Agreements(gold or None)
    for pair in sample:
        source = torch.tensor(source_ids(pair.ids[0], model.add_source_eos))
        target = torch.tensor([BOS_ID, *pair.ids[1], EOS_ID])
        reads = translator.tokenizer.pieces(source.tolist())
        writes = translator.target_tokenizer.pieces(target[:-1].tolist())
        with torch.no_grad(), record_attention(model) as maps:
            model(source[None], target[None, :-1], torch.ones(1, len(source), dtype=torch.bool))
        occluded = occlusion(model, source, target)
        gradient = gradient_times_input(model, source, target).source
        for name, (tensor,) in maps.items():
            weights = tensor[0].double().numpy()
            queries = reads if name.stack == "encoder" else writes
            collector.add(name, weights, queries, reads if name.kind == "cross" else queries)
            if name.kind == "cross":
                agreements.add(name, weights, occluded, gradient, pair.words)
    return agreements.results()


def _measure(translator: Translator, sample: Sequence[_Pair]) -> Quality:
    corpus = Corpus.in_memory([pair.ids for pair in sample])
    sources, targets = ([pair.texts[side] for pair in sample] for side in (0, 1))
    validation = Validator(corpus, translator.target_tokenizer, sources, targets)(translator.model, 0)
    return Quality(validation.loss, validation.score)


def _prune(model: nn.Module, measure: Measure, order: Sequence[HeadName], counts: Sequence[int]) -> tuple[Pruning, ...]:
    whole = measure()
    points = []
    for count in counted(counts, msg("groups of heads switched off")):
        off = tuple(order[:count])
        points.append(Pruning(off, cost_without(model, off, whole, measure)))
    return tuple(points)
