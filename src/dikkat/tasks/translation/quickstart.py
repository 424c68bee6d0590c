"""Train on the bundled corpus and show the result: the work of `dikkat quickstart`."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dikkat.config import merge
from dikkat.data.lessons import installed_phrasebook
from dikkat.explain.plots import plot_heads
from dikkat.run_directory import RunDirectory
from dikkat.tasks.common.settings import Settings, free_folder
from dikkat.tasks.common.train import TrainWatcher, train
from dikkat.tasks.translation.attention import Attending
from dikkat.tasks.translation.evaluate import Evaluation, evaluate_translator
from dikkat.tasks.translation.prepare import PHRASEBOOK, TrainRequest
from dikkat.tasks.translation.train import TranslatorJob
from dikkat_runtime.engine.options import BeamOptions
from dikkat_runtime.errors import CannotCreateError, DivergedError, msg
from dikkat_runtime.hints import NAME, command
from dikkat_runtime.tasks.translator import Translator

SETTINGS: Settings = {
    "model": {"dropout": 0.03},
    "training": {"max_epochs": 6.0, "validations": 4, "learning_rate": 6e-3, "matrix_learning_rate": 1e-2},
}
"""Passes, not minutes: a slow or busy machine takes longer and ends at the same score. The grammar has no noise: twice
the usual rates and less dropout reach in six passes what the usual ones reach in ten."""
GUIDED: Settings = {"training": {"guided_weight": 1.0}}
"""Where English is translated: the first head of the last encoder layer is told which noun a pronoun means."""
DEFAULT_PAIR = "en-fr"
WATCHED = (
    "The animal did not cross the street because it was too tired. ||| "
    "L'animal n'a pas traversé la rue parce qu'il était trop fatigué."
)
"""The pair of the default pair's languages that is kept over the training, of which a lesson tells."""
MIN_GAIN = 40.0
"""chrF by which a run must beat a copy of the source; a working run gains about eighty."""


@dataclass(frozen=True, slots=True)
class Quickstart:
    """Hold what a quickstart run shows in the end."""

    evaluation: Evaluation
    sentence: str
    """Sentence whose attention was drawn."""
    picture: Path


def quickstart_command(pair: str, out: Path | None = None, program: str | None = None) -> str:
    """Return the command that makes or resumes a quickstart run; `program` as for `command`."""
    words = [] if pair == DEFAULT_PAIR else ["--pair", pair]
    if out is not None and out != default_folder(pair):
        return command("quickstart", *words, "--out", out, program=program)
    return command("quickstart", *words, program=program)


def settings_of(pair: str) -> Settings:
    """Return the settings of a quickstart run; the words of English sentences alone are linked."""
    source, _ = installed_phrasebook().languages_of_pair(pair)
    return merge(SETTINGS, GUIDED) if source == "en" else SETTINGS


def default_folder(pair: str) -> Path:
    """Return the folder of a quickstart run that has no `--out`."""
    return Path("runs") / f"quickstart-{_name(pair)}"


def _name(pair: str) -> str:
    """The pair as data and folders call it: where English is translated, by the other language alone."""
    source, target = installed_phrasebook().languages_of_pair(pair)
    return target if source == "en" else pair


def run_quickstart(pair: str, out: Path, watcher: TrainWatcher, should_stop: Callable[[], bool]) -> Quickstart | None:
    """Train, score on held-out pairs and draw one attention map; return None if the run was stopped (and saved).

    An unfinished run is resumed, a finished one shown again. Raises `CannotCreateError` where another run lies at
    `out`, `DivergedError` where nothing was learned, and the errors of training.
    """
    run, typed = RunDirectory(out), quickstart_command(pair, out, NAME)
    if run.has_config:
        _require_quickstart(run, pair)
    if run.is_finished:
        watcher.note(msg("{out} is finished; this is what it has learned", out))
    else:
        request = TrainRequest([f"{PHRASEBOOK}{_name(pair)}"], preset="tiny", settings=settings_of(pair))
        job = TranslatorJob(TrainRequest(()) if run.has_config else request)
        texts = (WATCHED,) if pair == DEFAULT_PAIR else ()
        outcome = train(
            job, out, watcher, resume=out.exists(), should_stop=should_stop, command=typed, watch_texts=texts
        )
        if not outcome.finished:
            return None
    evaluation = evaluate_translator(out, (), BeamOptions())
    if evaluation.model.chrf < evaluation.copy_source.chrf + MIN_GAIN:
        raise DivergedError(
            "{out}: it has learned nothing of use: chrF {chrf:.2f}, where copying the source gives "
            "{baseline:.2f}; try another path, such as {command}"
        ).fill(out, evaluation.model.chrf, evaluation.copy_source.chrf, quickstart_command(pair, free_folder(out)))
    sentence = min(evaluation.sources, key=lambda text: abs(len(text.split()) - 9))
    translator, picture = Translator.load(out), out / "attention.png"
    attending, last = Attending(translator), translator.config.model.decoder_layers - 1
    maps = attending.greedy(sentence, attending.choose("decoder", "cross", last))
    plot_heads(maps.maps, picture, title=sentence)
    return Quickstart(evaluation, sentence, picture)


def _require_quickstart(run: RunDirectory, pair: str) -> None:
    """Refuse to go on with a run of other data."""
    data: Any = run.read_config().get("data_source", {})
    if not isinstance(data, dict) or data.get("data") != [f"{PHRASEBOOK}{_name(pair)}"]:
        command = quickstart_command(pair, free_folder(run.path))
        raise CannotCreateError("{path}: holds another run; use {command}", run.path, command)
