"""Write the report of a finished translator: data, scores, worst sentences and attention."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dikkat.data.corpus import Corpus
from dikkat.evaluation import sentence_chrf
from dikkat.explain.drawing.outline import outline_of
from dikkat.explain.explorer.document import assemble
from dikkat.explain.report.facts import DataFacts, HeldOutFacts, Repetition, RunFacts, ScoredSentence
from dikkat.explain.report.run_page import report_page
from dikkat.run_directory import RunDirectory
from dikkat.tasks.inspection.page import collect_page
from dikkat.tasks.inspection.reader_attention import require_no_prefix
from dikkat.tasks.translation.evaluate import Evaluation, evaluate_translator
from dikkat.tasks.translation.guiding import guided_note
from dikkat.tasks.translation.vocabularies import Vocabularies, open_corpus
from dikkat_runtime.engine.options import BeamOptions
from dikkat_runtime.localization import localized
from dikkat_runtime.tasks.translator import Translator

WORST = 20
"""Sentences shown."""
ATTENTION = 5
"""Sentences in the attention browser."""
ATTENTION_WORDS = 25
"""Longer sentences are left out: their maps are too fine to read at first."""
MAX_PAIRS = 200_000
"""Training pairs that are searched for repetition."""


def translator_report(run: RunDirectory, metrics: Sequence[Mapping[str, Any]], language: str) -> str:
    """Run the translator of `run` on its held-out part, and return its report as HTML."""
    return report_page(_facts(run, metrics, language), language)


def _facts(run: RunDirectory, metrics: Sequence[Mapping[str, Any]], language: str) -> RunFacts:
    translator = Translator.load(run.path)
    # the report is about the model, not about the people who corrected it
    translator.corrections = None
    # the page has none of such a model; said here, since the evaluation takes minutes
    require_no_prefix(translator.model)
    is_test = _has_text(run.held_out("test", "source"))
    held_out = () if is_test else [str(run.held_out("validation", side)) for side in ("source", "target")]
    evaluation = evaluate_translator(run.path, held_out, BeamOptions())
    judged = _judged(evaluation)
    data = translator.config.data
    return RunFacts(
        name=run.path.resolve().name,
        languages=(data.source_language, data.target_language),
        metrics=metrics,
        data=_data(run, translator, evaluation.sources),
        held_out=HeldOutFacts(
            is_test,
            len(judged),
            evaluation.model.bleu,
            evaluation.model.chrf,
            tuple(evaluation.lines(language)),
            tuple(judged[:WORST]),
        ),
        outline=outline_of(translator.model, translator.config.model, run.path.resolve().name),
        card=run.card.read_text(encoding="utf-8"),
        settings=run.config.read_text(encoding="utf-8"),
        browser=assemble(collect_page(translator, _spread(judged)), language),
        note=localized(guided_note(translator.config), language),
    )


def _has_text(path: Path) -> bool:
    return path.exists() and path.stat().st_size > 0


def _judged(evaluation: Evaluation) -> list[ScoredSentence]:
    """Every held-out sentence, the worst first."""
    scores = sentence_chrf(evaluation.translations, evaluation.references, evaluation.scoring)
    judged = map(ScoredSentence, evaluation.sources, evaluation.translations, evaluation.references, scores)
    return sorted(judged, key=lambda judged_sentence: judged_sentence.chrf)


def _spread(judged: Sequence[ScoredSentence]) -> list[str]:
    """A few sources from the worst translated to the best, none of them long."""
    short = [sentence.source for sentence in judged if len(sentence.source.split()) <= ATTENTION_WORDS] or [
        judged[0].source
    ]
    indices = np.unique(np.linspace(0, len(short) - 1, ATTENTION).astype(int))
    return [short[index] for index in indices]


def _data(run: RunDirectory, translator: Translator, held_out: Sequence[str]) -> DataFacts:
    source = run.read_config()["data_source"]
    corpus = open_corpus(run, "train", Vocabularies.of(translator))
    lengths = (corpus.source_lengths, corpus.target_lengths)
    longest = int((lengths[0] + lengths[1]).argmax())
    left_out: dict[str, int] = source["left_out"]
    # what is validated on came out of the same files, unless it had files of its own
    held_back = 0 if source["validation_data"] else source["validation_pairs"] + source["test_pairs"]
    read, write = translator.tokenizer.decode, translator.target_tokenizer.decode
    return DataFacts(
        files=tuple(source["data"]),
        validation_files=tuple(source["validation_data"]),
        read=source["train_pairs"] + sum(left_out.values()) + held_back,
        left_out=left_out,
        train_pairs=source["train_pairs"],
        validation_pairs=source["validation_pairs"],
        test_pairs=source["test_pairs"],
        source_lengths=lengths[0],
        target_lengths=lengths[1],
        longest=(read(corpus.source(longest).tolist()), write(corpus.target(longest).tolist())),
        repetition=_repetition(corpus, translator, held_out),
    )


def _repetition(corpus: Corpus, translator: Translator, held_out: Sequence[str]) -> Repetition:
    examined = min(len(corpus), MAX_PAIRS)
    pairs = Counter((corpus.source(index).tobytes(), corpus.target(index).tobytes()) for index in range(examined))
    translations = Counter(source for source, _ in pairs)
    unknown = translator.tokenizer.unk_id
    width = corpus.source(0).dtype
    encoded = (np.array(translator.encode(text), width).tobytes() for text in held_out)
    return Repetition(
        examined=examined,
        same_pairs=examined - len(pairs),
        other_translations=sum(count > 1 for count in translations.values()),
        unknown_tokens=sum(
            int((side(index) == unknown).sum()) for index in range(examined) for side in (corpus.source, corpus.target)
        ),
        held_out=len(held_out),
        held_out_seen=sum(source in translations for source in encoded),
    )
