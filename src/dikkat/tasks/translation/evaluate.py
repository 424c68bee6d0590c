"""Score a translator on text, next to two baselines that have learned nothing."""

import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dikkat.config import RunConfig
from dikkat.data.readers import LanguageChoice, read_pairs
from dikkat.evaluation import Scores, copy_source, most_frequent_translation, score_translations
from dikkat.evaluation.scores import PLAIN, Scoring, scoring_for
from dikkat.run_directory import RunDirectory
from dikkat.tasks.translation.vocabularies import Vocabularies, open_corpus
from dikkat_runtime.engine.contract import EngineInfo, EngineName
from dikkat_runtime.engine.options import DecodingOptions, Device
from dikkat_runtime.engine.precision import PrecisionName
from dikkat_runtime.errors import UsageError, msg, plural
from dikkat_runtime.localization import localized, translated
from dikkat_runtime.notices import counted
from dikkat_runtime.tasks.confidence_fitting import training_pairs
from dikkat_runtime.tasks.translator import Translator
from dikkat_runtime.text.casing import lower
from dikkat_runtime.text.text_files import read_lines

# Score the text of a translator in the form that it was trained to write.


_EXAMINED = 2_000
"""Training targets that are examined, evenly spread."""
_MARK = re.compile(r"\w(\s?)[.,](?:\s|$)")
"""A full stop or comma; only tokenised text has a space before it."""


def scored_as_trained(
    references: list[str], config: RunConfig, *, lowercase: bool | None = None
) -> tuple[list[str], Scoring]:
    """Return the references and the way to score against them, without case where the run writes none.

    `lowercase` None takes the setting of `config`. In Turkish and Azeri I is the capital of ı, so the references are
    lower-cased here.
    """
    language = config.data.target_language
    lowercase = config.tokenizer.lowercase if lowercase is None else lowercase
    scoring = scoring_for(language, references, lowercase)
    return [lower(text, language) for text in references] if lowercase else references, scoring


def training_targets(run: RunDirectory, vocabularies: Vocabularies) -> list[str]:
    """Return some of the texts that the run was trained to write; none where it has no corpus next to it."""
    if not run.corpus.is_dir():
        return []
    corpus = open_corpus(run, "train", vocabularies)
    chosen = np.unique(np.linspace(0, len(corpus) - 1, _EXAMINED).astype(int)).tolist() if len(corpus) else []
    return vocabularies.target.decode_batch([corpus.target(index).tolist() for index in chosen])


def is_tokenized(texts: Sequence[str]) -> bool | None:
    """Return whether most full stops and commas of `texts` have a space before them; None where there are none."""
    spaces = [match[1] for text in texts for match in _MARK.finditer(text)]
    return 2 * sum(map(bool, spaces)) > len(spaces) if spaces else None


_NO_CASE = msg("scored without case (case:lc): this run was trained to write lower case only")
_TOKENISED = msg(
    "this run was trained to write tokenised text (a space before full stops) and the references are not tokenised: "
    "treat them as the training data was, or read BLEU as too low"
)


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Hold the scores of the model and of two baselines on the same references."""

    model: Scores
    copy_source: Scores
    most_frequent: Scores | None
    """None where the run has no training corpus next to it."""
    sources: list[str]
    translations: list[str]
    references: list[str]
    seconds: float
    """Time to translate, in seconds."""
    scoring: Scoring = PLAIN
    notes: tuple[str, ...] = ()
    """What must be known to read the scores."""

    def lines(self, language: str = "en") -> list[str]:
        """Return the scores with signatures, the baselines beneath, in English or Turkish."""
        copied = self.copy_source
        said = (
            msg("BLEU {bleu:6.2f}, chrF {chrf:6.2f}  for copying the source", copied.bleu, copied.chrf),
            _baseline_line(self.most_frequent),
            msg("{texts} in {seconds:.1f} s", plural(len(self.sources), "sentence"), self.seconds),
            *self.notes,
        )
        return [*self.model.lines(), *(localized(line, language) for line in said)]

    def samples(self, count: int) -> list[str]:
        """Return `count` translations, evenly spread, each as source, model and human."""
        step = max(1, len(self.sources) // count) if count else 1
        chosen = list(range(0, len(self.sources), step))[:count]
        return [
            f"  {translated(label)}  {texts[index]}"
            for index in chosen
            for label, texts in (("source", self.sources), ("model", self.translations), ("human", self.references))
        ]


def evaluate_translator(
    path: Path,
    data: Sequence[str],
    options: DecodingOptions,
    columns: tuple[str | None, str | None] = (None, None),
    precision: PrecisionName = "float32",
    device: Device = "cpu",
    batch_size: int | None = None,
    *,
    engine: EngineName = "auto",
    on_engine: Callable[[EngineInfo], None] = lambda info: None,
) -> Evaluation:
    """Translate the sources of `data` and score the result.

    When `data` is empty, the run's own held-out test part is used. `on_engine` receives the engine that computes.
    The text of a model that writes no case is scored without case.
    """
    translator = Translator.load(path, precision, device, engine)
    # the model is scored, not the people who corrected it
    translator.corrections = None
    on_engine(translator.info)
    run = RunDirectory.open(path)
    sources, references = _text(run, data, columns)
    started = time.monotonic()
    stream = translator.stream(counted(sources), options, batch_size=batch_size)
    translations = [translation.text for translation in stream]
    seconds = time.monotonic() - started
    targets = training_targets(run, Vocabularies.of(translator))
    no_case = _writes_no_case(translator, targets, references)
    wanted, scoring = scored_as_trained(references, translator.config, lowercase=no_case)
    frequent = None
    if run.corpus.is_dir():
        pairs = training_pairs(path, (translator.tokenizer, translator.target_tokenizer))
        frequent = score_translations(most_frequent_translation(pairs, sources), wanted, scoring)
    return Evaluation(
        score_translations(translations, wanted, scoring),
        score_translations(copy_source(sources), wanted, scoring),
        frequent,
        sources,
        translations,
        references,
        seconds,
        scoring,
        tuple(_notes(scoring, targets, references)),
    )


def _writes_no_case(translator: Translator, targets: Sequence[str], references: Sequence[str]) -> bool:
    """Whether the run has learned to write small letters alone, which references with capitals cannot equal."""
    written, has_capitals = "".join(targets), any(map(str.isupper, "".join(references)))
    is_lowercase_only = any(map(str.islower, written)) and not any(map(str.isupper, written))
    return translator.config.tokenizer.lowercase or (is_lowercase_only and has_capitals)


def _notes(scoring: Scoring, targets: Sequence[str], references: Sequence[str]) -> Iterator[str]:
    if scoring.lowercase:
        yield _NO_CASE
    if is_tokenized(targets) and is_tokenized(references) is False:
        yield _TOKENISED


def _baseline_line(frequent: Scores | None) -> str:
    if frequent is None:
        return msg("not known for the most frequent translation seen in training: the run has no corpus/ next to it")
    return msg("BLEU {bleu:6.2f}, chrF {chrf:6.2f}  for the most frequent translation seen in training").fill(
        frequent.bleu, frequent.chrf
    )


def _text(
    run: RunDirectory, data: Sequence[str], columns: tuple[str | None, str | None]
) -> tuple[list[str], list[str]]:
    if data:
        settings = run.read_config()["data"]
        languages = LanguageChoice(settings["source_language"], settings["target_language"])
        pairs = list(read_pairs(data, *columns, languages=languages))
        return [pair.source for pair in pairs], [pair.target for pair in pairs]
    test = run.held_out("test", "source")
    if not test.exists() or not test.stat().st_size:
        raise UsageError("{path}: this run held out no test part; name data to evaluate on", run.path)
    return list(read_lines(test)), list(read_lines(run.held_out("test", "target")))
