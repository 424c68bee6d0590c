"""The bundled corpus, trained and shown: what `dikkat quickstart` does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from dikkat.decoding.options import BeamOptions
from dikkat.explain.plots import plot_heads
from dikkat.hints import command
from dikkat.pipelines.attending import Attending
from dikkat.pipelines.evaluation import Evaluation, evaluate_translator
from dikkat.pipelines.preparation import PHRASEBOOK, TrainRequest
from dikkat.pipelines.training import TrainWatcher, train
from dikkat.pipelines.translation import Translator
from dikkat.pipelines.translator_job import TranslatorJob

SETTINGS = {"training": {"minutes": 1.6, "validations": 4}}
"""Time to train; the rest of the two minutes goes to scoring and drawing."""


@dataclass(frozen=True, slots=True)
class Quickstart:
    """What there is to show in the end."""

    evaluation: Evaluation
    sentence: str
    """The sentence whose attention was drawn."""
    picture: Path


def run_quickstart(
    language: str, out: Path, watcher: TrainWatcher, should_stop: Callable[[], bool]
) -> Quickstart | None:
    """Train, score on held-out pairs and draw one attention map; None if it was stopped (and saved)."""
    request = TrainRequest([f"{PHRASEBOOK}{language}"], preset="tiny", settings=SETTINGS)
    typed = command("quickstart", "--language", language)
    outcome = train(TranslatorJob(request), out, watcher, should_stop=should_stop, command=typed)
    if not outcome.finished:
        return None
    evaluation = evaluate_translator(out, (), BeamOptions())
    sentence = min(evaluation.sources, key=lambda text: abs(len(text.split()) - 9))
    picture = out / "attention.png"
    draw_cross_attention(Translator.load(out), sentence, picture)
    return Quickstart(evaluation, sentence, picture)


def draw_cross_attention(translator: Translator, sentence: str, picture: Path) -> None:
    """All heads of the last decoder layer looking back at the source."""
    attending = Attending(translator)
    last = translator.config.model.decoder_layers - 1
    found = attending.greedy(sentence, attending.choose("decoder", "cross", last))
    plot_heads(found.maps, picture, title=sentence)
