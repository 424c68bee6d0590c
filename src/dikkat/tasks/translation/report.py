"""Write the report of a finished translator: data, scores, worst sentences and attention."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any

import numpy as np

from dikkat.data.corpus import Corpus
from dikkat.evaluation import sentence_chrf
from dikkat.explain.drawing.outline import outline_of
from dikkat.explain.explorer.document import assemble
from dikkat.explain.report.facts import Example, Rows, RunFacts
from dikkat.explain.report.run_page import translator_curves
from dikkat.run_directory import RunDirectory
from dikkat.run_directory.tensor_files import read_metadata
from dikkat.tasks.inspection.page import collect_page
from dikkat.tasks.inspection.reader_attention import require_no_prefix
from dikkat.tasks.translation.evaluate import Evaluation, evaluate_translator
from dikkat.tasks.translation.guiding import guided_note
from dikkat.tasks.translation.vocabularies import Vocabularies, open_corpus
from dikkat_runtime.engine.options import BeamOptions
from dikkat_runtime.errors import msg
from dikkat_runtime.localization import Say, localized, spoken_in
from dikkat_runtime.tasks.translator import Translator

WORST = 20
"""Sentences shown."""
ATTENTION = 5
"""Sentences in the attention browser."""
ATTENTION_WORDS = 25
"""Longer sentences are left out: their maps are too fine to read at first."""
_ON_TEST_PART = msg("On the test part, {count} sentences that training never looked at (beam search):")
_ON_VALIDATION_PART = msg(
    "On the validation part, {count} sentences by which the weights were chosen (beam search); this run held out no "
    "test part:"
)
MAX_PAIRS = 200_000
"""Training pairs that are searched for repetition."""


def translator_facts(run: RunDirectory, metrics: Sequence[Mapping[str, Any]], language: str) -> RunFacts:
    """Translate the held-out part of `run`, and collect everything that its report shows."""
    translator = Translator.load(run.path)
    # the report is about the model, not about the people who corrected it
    translator.corrections = None
    # the page has none of such a model; said here, since the evaluation takes minutes
    require_no_prefix(translator.model)
    test = run.held_out("test", "source")
    is_test = test.exists() and test.stat().st_size > 0
    held_out = () if is_test else [str(run.held_out("validation", side)) for side in ("source", "target")]
    evaluation = evaluate_translator(run.path, held_out, BeamOptions())
    judged = _judged(evaluation)
    data, say, last = translator.config.data, spoken_in(language), metrics[-1]
    languages = (data.source_language, data.target_language)
    source, target = (code or "?" for code in languages)
    outline = outline_of(translator.model, translator.config.model, run.path.resolve().name)
    loss = max(metrics, key=lambda row: float(row["chrf"]))["valid_loss"]
    corpus = open_corpus(run, "train", Vocabularies.of(translator))
    examined = min(len(corpus), MAX_PAIRS)
    minutes, source_of_data = f"{last['seconds'] / 60:.1f}", run.read_config()["data_source"]
    return RunFacts(
        title=say("Translator {source} → {target}", source, target),
        name=run.path.resolve().name,
        summary=[
            ("chrF", f"{evaluation.model.chrf:.1f}"),
            ("BLEU", f"{evaluation.model.bleu:.1f}"),
            (say("validation loss, nats a token"), f"{loss:.3f}"),
            (say("minutes"), minutes),
            (say("target tokens a second"), f"{last['tokens'] / max(last['seconds'], 1e-9):,.0f}"),
            (say("parameters"), f"{outline.parameters:,}"),
        ],
        scored_on=say((_ON_TEST_PART if is_test else _ON_VALIDATION_PART).fill(f"{len(judged):,}")),
        score_lines=evaluation.lines(language),
        rate=say(
            msg("{passes} passes over the data, {tokens} target tokens in {minutes} minutes.").fill(
                f"{last['epoch']:.1f}", f"{last['tokens']:,}", minutes
            )
        ),
        metrics=metrics,
        curves=translator_curves(say),
        files=[*source_of_data["data"], *source_of_data["validation_data"]],
        data=_data(source_of_data, say),
        faults=_faults(corpus, examined, translator, evaluation.sources, say),
        examined=say("Looked at: {count} training pairs.", f"{examined:,}"),
        lengths={say("source"): corpus.source_lengths, say("target"): corpus.target_lengths},
        longest=_longest(corpus, translator, languages, say),
        worst_note=say(
            "The held-out sentences with the lowest chrF. Look for names, numbers, rare words, wrong references."
        ),
        worst=[_example(scored, languages, say) for scored in judged[:WORST]],
        maps=(),
        browser=assemble(collect_page(translator, _spread([scored[0] for _, scored in judged])), language),
        model=(),
        outline=outline,
        card=run.card.read_text(encoding="utf-8"),
        settings=run.config.read_text(encoding="utf-8"),
        frontier=json.loads(read_metadata(run.weights).get("frontier", "[]")),
        note=localized(guided_note(translator.config), language),
    )


def _judged(evaluation: Evaluation) -> list[tuple[float, tuple[str, str, str]]]:
    """chrF, source, translation and reference of every held-out sentence, the worst first."""
    scores = sentence_chrf(evaluation.translations, evaluation.references, evaluation.scoring)
    texts = zip(evaluation.sources, evaluation.translations, evaluation.references, strict=True)
    return sorted(zip(scores, texts, strict=True), key=itemgetter(0))


def _example(scored: tuple[float, tuple[str, str, str]], languages: tuple[str, str], say: Say) -> Example:
    lines = list(zip((say("source"), say("model"), say("human")), scored[1], strict=True))
    return Example(f"chrF {scored[0]:.1f}", lines, (languages[0], languages[1], languages[1]))


def _spread(sources: Sequence[str]) -> list[str]:
    """A few sources from the worst translated to the best, none of them long."""
    short = [source for source in sources if len(source.split()) <= ATTENTION_WORDS] or [sources[0]]
    return [short[index] for index in np.unique(np.linspace(0, len(short) - 1, ATTENTION).astype(int))]


def _data(source: Mapping[str, Any], say: Say) -> Rows:
    left_out: dict[str, int] = source["left_out"]
    # what is validated on came out of the same files, unless it had files of its own
    held_back = 0 if source["validation_data"] else source["validation_pairs"] + source["test_pairs"]
    left = [(say("left out: {reason}", reason), f"{count:,}") for reason, count in left_out.items()]
    return [
        (say("pairs read"), f"{source['train_pairs'] + sum(left_out.values()) + held_back:,}"),
        *(left or [(say("left out"), "0")]),
        (say("pairs to train on"), f"{source['train_pairs']:,}"),
        (say("pairs to validate on"), f"{source['validation_pairs']:,}"),
        (say("pairs to test on"), f"{source['test_pairs']:,}"),
    ]


def _longest(corpus: Corpus, translator: Translator, languages: tuple[str, str], say: Say) -> Example:
    index = int((corpus.source_lengths + corpus.target_lengths).argmax())
    read, write = translator.tokenizer.decode, translator.target_tokenizer.decode
    texts = (read(corpus.source(index).tolist()), write(corpus.target(index).tolist()))
    lines = list(zip((say("source"), say("target")), texts, strict=True))
    return Example(say("The longest training pair"), lines, languages)


def _faults(corpus: Corpus, examined: int, translator: Translator, held_out: Sequence[str], say: Say) -> Rows:
    pairs = Counter((corpus.source(index).tobytes(), corpus.target(index).tobytes()) for index in range(examined))
    translations = Counter(source for source, _ in pairs)
    unknown = translator.tokenizer.unk_id
    width = corpus.source(0).dtype
    encoded = (np.array(translator.encode(text), width).tobytes() for text in held_out)
    unknown_tokens = sum(
        int((side(index) == unknown).sum()) for index in range(examined) for side in (corpus.source, corpus.target)
    )
    several = sum(count > 1 for count in translations.values())
    return [
        (say("training pairs that came before, exactly"), f"{examined - len(pairs):,}"),
        (say("training sources with more than one translation"), f"{several:,}"),
        (say("unknown tokens in training"), f"{unknown_tokens:,}"),
        (
            say("of {count} held-out sources also occur in training", f"{len(held_out):,}"),
            f"{sum(source in translations for source in encoded):,}",
        ),
    ]
