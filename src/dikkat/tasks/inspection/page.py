"""Collect everything that the page of a translator shows about a few sentences, and write the page."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from dikkat.explain.attention_map import END, SentenceMaps, Words, has_spaces
from dikkat.explain.head_analysis.importance import (
    HeadName,
    attention_rollout,
    gradient_times_input,
    head_names,
    occlusion,
    without_heads,
)
from dikkat.explain.page.document import (
    Beam,
    Candidate,
    HeadOff,
    MapKind,
    Maps,
    Page,
    PageSentence,
    Saliency,
    TokenizedText,
    Weights,
    assemble,
)
from dikkat.tasks.inspection.reader_attention import require_no_prefix
from dikkat.tasks.translation.attention import Attending
from dikkat.torch_engine.beam_search import BeamTree, Branch, beam_search, path_of
from dikkat.torch_engine.stepper import pad_sources
from dikkat_runtime.engine.contract import Hypothesis
from dikkat_runtime.engine.options import BeamOptions
from dikkat_runtime.errors import DataError, UsageError
from dikkat_runtime.files import write_atomically
from dikkat_runtime.special_tokens import BOS_ID, EOS_ID, source_ids
from dikkat_runtime.tasks.translator import Translator

BEAM = BeamOptions()
MAX_TOKENS = 2000
"""Limit of the tokens of one side of a sentence."""
MAX_SALIENT_TOKENS = 200
"""Limit of the tokens of one side of a sentence with saliency, which takes one pass for each token."""

_KINDS: dict[tuple[str, str], MapKind] = {
    ("encoder", "self"): "encoder-self",
    ("decoder", "self"): "decoder-self",
    ("decoder", "cross"): "cross",
}


def write_page(
    translator: Translator,
    sentences: Sequence[str],
    path: Path,
    *,
    targets: Sequence[str | None] | None = None,
    language: str = "en",
    heads_off: bool = True,
) -> None:
    """Write one offline HTML file that shows the attention of each of `sentences`.

    The decoder reads the best output of a beam search, or the one of `targets` that belongs to the sentence, where it
    is not None. `heads_off` also translates every sentence with each single head off. `language` is the language of the
    page. Raises `DataError` when there is no sentence, or an empty or very long one; `UsageError` for a number of
    targets that does not fit or an unknown language; `DiskError` or `CannotCreateError` when `path` cannot be written.
    """
    page = collect_page(translator, sentences, targets=targets, heads_off=heads_off)
    write_atomically(path, assemble(page, language).encode())


def collect_page(
    translator: Translator,
    sentences: Sequence[str],
    *,
    targets: Sequence[str | None] | None = None,
    heads_off: bool = True,
) -> Page:
    """Collect the data that `write_page` writes; raises the same errors, except those of writing."""
    wanted = [None] * len(sentences) if targets is None else list(targets)
    if len(wanted) != len(sentences):
        raise UsageError("{count} sentences need as many targets, not {targets}; None stands for no target").fill(
            len(sentences), len(wanted)
        )
    _check(translator, sentences)
    data = translator.config.data
    collector = _Collector(translator, Attending(translator), _all_without(translator, sentences) if heads_off else ())
    return Page(
        name="-".join(filter(None, (data.source_language, data.target_language))) or "translator",
        source_language=data.source_language,
        target_language=data.target_language,
        sentences=[
            collector.sentence(number, *pair) for number, pair in enumerate(zip(sentences, wanted, strict=True))
        ],
    )


@dataclass(frozen=True, slots=True)
class _Collector:
    translator: Translator
    attending: Attending
    heads_off: Sequence[Sequence[HeadOff]]
    """Results of each sentence, where asked for."""

    def sentence(self, number: int, text: str, target: str | None) -> PageSentence:
        source = self.translator.encode(text)
        if target is None:
            (maps,) = self.attending.hypotheses(text, BEAM)
            hypothesis, steps = self._search(source)
            written: Sequence[int] = hypothesis.tokens
            score, beam = hypothesis.score, self._beam(hypothesis, steps)
        else:
            maps, score, beam = self.attending.forced(text, target), None, None
            language = self.translator.config.data.target_language
            written = self.translator.target_tokenizer.encode(target.strip(), language)
        by_kind = _by_kind(maps)
        return PageSentence(
            source=_tokenized(maps.source, maps.source_tokens, maps.source_tokens),
            target=_tokenized(maps.output, (*maps.output_tokens, END), maps.source_tokens),
            score=score,
            maps=by_kind,
            rollout={kind: _rollout(by_kind[kind]) for kind in ("encoder-self", "decoder-self")},
            beam=beam,
            heads_off=self.heads_off[number] if beam is not None and self.heads_off else (),
            saliency=self._saliency(source, written),
        )

    def _search(self, source: Sequence[int]) -> tuple[Hypothesis, list[list[Branch]]]:
        options = self.translator.defaults.resolved(BEAM)
        tree = BeamTree(1, options)
        ids, mask = pad_sources([source], torch.device("cpu"), add_eos=self.translator.model.add_source_eos)
        ((hypothesis,),) = beam_search(self.translator.model, ids, mask, options, tree.watch)
        return hypothesis, tree.steps[0]

    def _beam(self, hypothesis: Hypothesis, steps: Sequence[Sequence[Branch]]) -> Beam:
        path = path_of(hypothesis, steps)
        labels = self.translator.target_tokenizer.labels
        # what each hypothesis that lives on has written so far, since a candidate may be a part of a character
        written: list[list[int]] = [[]]
        candidates = []
        for step in steps[: len(path)]:
            grown = [[*written[candidate.parent], candidate.token] for candidate in step]
            candidates.append(
                [
                    Candidate(
                        candidate.parent, labels(tokens)[-1], candidate.log_probability, candidate.score, candidate.fate
                    )
                    for candidate, tokens in zip(step, grown, strict=True)
                ]
            )
            written = [tokens for candidate, tokens in zip(step, grown, strict=True) if candidate.fate == "lives"]
        return Beam(BEAM.beam_size, candidates, path)

    def _saliency(self, source: Sequence[int], written: Sequence[int]) -> Saliency | None:
        if max(len(source), len(written)) > MAX_SALIENT_TOKENS:
            return None
        model = self.translator.model
        read = torch.tensor(source_ids(source, model.add_source_eos))
        fed = torch.tensor([BOS_ID, *written, EOS_ID])
        return Saliency(
            gradient=_shares(gradient_times_input(model, read, fed).source),
            occlusion=_shares(occlusion(model, read, fed)),
        )


def _check(translator: Translator, sentences: Sequence[str]) -> None:
    require_no_prefix(translator.model)
    if not sentences:
        raise DataError("a page needs at least one sentence")
    for number, sentence in enumerate(sentences, start=1):
        length = len(translator.encode(sentence))
        if length == 0:
            raise DataError("sentence {number} is empty: there is nothing to attend to; leave it out", number)
        if length > MAX_TOKENS:
            raise DataError("sentence {number} has {length:,} tokens, over the limit of {max_tokens:,}; split it").fill(
                number, length, MAX_TOKENS
            )


def _all_without(translator: Translator, sentences: Sequence[str]) -> list[list[HeadOff]]:
    """For each sentence what is written without each single head."""
    results: list[list[HeadOff]] = [[] for _ in sentences]
    for name in head_names(translator.model):
        with without_heads(translator.model, [name]):
            for number, translation in enumerate(translator.stream(sentences, BEAM)):
                results[number].append(HeadOff(_kind(name), name.layer, name.head, translation.text, translation.score))
    return results


def _kind(name: HeadName) -> MapKind:
    return _KINDS[name.stack, name.kind]


def _by_kind(maps: SentenceMaps) -> Maps:
    layers: dict[MapKind, dict[int, list[Weights]]] = {kind: {} for kind in _KINDS.values()}
    for attention_map in maps.maps:
        layers[_KINDS[attention_map.stack, attention_map.kind]].setdefault(attention_map.layer, []).append(
            attention_map.weights
        )
    return {kind: [np.stack(heads) for _, heads in sorted(by_layer.items())] for kind, by_layer in layers.items()}


def _rollout(layers: Sequence[Weights]) -> list[Weights]:
    return [layer_weights.astype(np.float32)[None] for layer_weights in attention_rollout(layers)]


def _tokenized(text: str, tokens: tuple[str, ...], source_tokens: tuple[str, ...]) -> TokenizedText:
    # the source tells whether the vocabulary is of subwords, since a target may be empty
    words = Words.of(tokens, text, spaced=has_spaces(source_tokens))
    numbers = words.members.argmax(axis=0)
    # a token may hold a rare separator and so be of two words: it becomes the one word of both
    firsts, ids = np.unique(numbers, return_inverse=True)
    ends = [*firsts[1:].tolist(), len(words.names)]
    names = (" ".join(words.names[first:end]) for first, end in zip(firsts.tolist(), ends, strict=True))
    return TokenizedText(text, tokens, tuple(ids.tolist()), tuple(names))


def _shares(influence: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> Weights:
    """Sizes of a row as shares of their sum: what speaks against a token is as much of a reason to look at it."""
    sizes = np.abs(influence)
    sums = sizes.sum(axis=1, keepdims=True)
    shares: Weights = np.divide(sizes, sums, out=np.zeros_like(sizes), where=sums > 0).astype(np.float32)
    return shares
