"""Collect everything that the page of a translator shows about a few sentences, and write the page."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import numpy as np
import torch

from dikkat.explain.explorer.document import Beam, Candidate, HeadOff, Page, PageSentence, Saliency, Weights, assemble
from dikkat.explain.head_analysis.importance import gradient_times_input, head_names, occlusion, without_heads
from dikkat.explain.notebook import PAGE_KINDS, Shown, explorer_of, page_sentence, shown_page
from dikkat.explain.report.html import card, foreign, heading, page, paragraph, preformatted
from dikkat.explain.report.run_page import training_curves, translator_curves
from dikkat.run_directory import RunDirectory
from dikkat.tasks.inspection.reader_attention import require_no_prefix
from dikkat.tasks.kinds import load
from dikkat.tasks.translation.attention import Attending
from dikkat.torch_engine.beam_search import BeamTree, Branch, beam_search, path_of
from dikkat.torch_engine.stepper import pad_sources
from dikkat_runtime.engine.contract import Hypothesis
from dikkat_runtime.engine.options import BeamOptions
from dikkat_runtime.errors import DataError, UsageError, msg
from dikkat_runtime.files import write_atomically
from dikkat_runtime.localization import language, translated
from dikkat_runtime.notices import counted
from dikkat_runtime.special_tokens import BOS_ID, EOS_ID, source_ids
from dikkat_runtime.tasks.translator import Translator
from dikkat_runtime.text.text_files import read_lines

BEAM = BeamOptions()
MAX_SENTENCES = 5
"""Sentences of one text in the cell of a notebook."""
SAMPLES = 3
"""Held-out sentences on the page of a run."""
MAX_TOKENS = 2000
"""Limit of the tokens of one side of a sentence."""
MAX_SALIENT_TOKENS = 200
"""Limit of the tokens of one side of a sentence with saliency, which takes one pass for each token."""


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
    content = collect_page(translator, sentences, targets=targets, heads_off=heads_off)
    write_atomically(path, assemble(content, language).encode())


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
            collector.sentence(number, *pair)
            for number, pair in enumerate(counted(list(zip(sentences, wanted, strict=True))))
        ],
    )


def show(run: str | Path, text: str | None = None, target: str | None = None) -> Shown:
    """Return the page of the model of `run` that reads `text`, for the cell of a notebook; or of the run itself.

    A translator writes `target`, by default its best output of each sentence, of which the page has the first
    `MAX_SENTENCES`. The page of a run has its curves, its card, and of a
    translator some held-out sentences. Raises the errors of `collect_page` and of loading a run.
    """
    model, path = load(run), Path(run)
    if text is None:
        return _show_run(model, RunDirectory.open(path))
    if not isinstance(model, Translator):
        return explorer_of([model.attend(text, target)], path.resolve().name)
    sentences = [sentence for sentence, _ in model.sentences(text)] if target is None else [text]
    shown = sentences[:MAX_SENTENCES] or [text]
    whole = shown_page(
        collect_page(model, shown, targets=[target] * len(shown), heads_off=False), model.attend(shown[0], target)
    )
    if len(shown) == len(sentences):
        return whole
    cut = translated(
        "Sentences 1 to {shown} of {count}; call it with the others to see theirs.", len(shown), len(sentences)
    )
    return replace(whole, description=paragraph(cut) + whole.description)


def _show_run(model: object, run: RunDirectory) -> Shown:
    name, metrics = run.path.resolve().name, run.read_metrics()
    parts = [
        heading(name, 1),
        *([training_curves(metrics, translator_curves(translated), translated)] if metrics else []),
    ]
    if isinstance(model, Translator) and run.held_out("validation", "source").exists():
        columns = (islice(read_lines(run.held_out("validation", side)), SAMPLES) for side in ("source", "target"))
        parts.append(heading(translated("Held-out sentences")))
        for source, reference in zip(*columns, strict=True):
            lines = {"source": source, "model": model.translate([source])[0].text, "human": reference}
            parts.append(card("", [(translated(label), foreign(line)) for label, line in lines.items()]))
    if run.card.exists():
        parts.append(preformatted(run.card.read_text(encoding="utf-8")))
    return Shown(name, page(name, language(), parts))


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
        return page_sentence(
            maps,
            score=score,
            beam=beam,
            heads_off=self.heads_off[number] if beam is not None and self.heads_off else (),
            saliency=self._saliency(source, written),
            is_given=target is not None,
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
    for name in counted(head_names(translator.model), msg("heads")):
        kind = PAGE_KINDS[name.stack, name.kind]
        with without_heads(translator.model, [name]):
            for number, translation in enumerate(translator.stream(sentences, BEAM)):
                results[number].append(HeadOff(kind, name.layer, name.head, translation.text, translation.score))
    return results


def _shares(influence: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> Weights:
    """Sizes of a row as shares of their sum: what speaks against a token is as much of a reason to look at it."""
    sizes = np.abs(influence)
    sums = sizes.sum(axis=1, keepdims=True)
    shares: Weights = np.divide(sizes, sums, out=np.zeros_like(sizes), where=sums > 0).astype(np.float32)
    return shares
