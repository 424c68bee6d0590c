"""`dikkat translate`: lines in, lines out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dikkat.cli import translating as work
from dikkat.cli.engine_option import ALL_WORDS_HELP, DEVICE_HELP, ENGINE_HELP, PRECISION_HELP
from dikkat_runtime.engine.contract import EngineName
from dikkat_runtime.engine.options import Device
from dikkat_runtime.engine.precision import PrecisionName
from dikkat_runtime.messages import msg

DEFAULTS = work.TranslateOptions(Path())

_Out = Annotated[
    Path | None,
    typer.Option(help="Read FILE as a document (.po .xlf .tmx .srt .md .html .docx …) and write it here."),
]
_Columns = Annotated[
    str, typer.Option(help="Of a table, with --out: what is translated into what, as in source:target or 2:3.")
]
_MIN_BEAM, _MAX_BEAM = work.LIMITS["beam"]
_Beam = Annotated[
    int, typer.Option(min=_MIN_BEAM, max=_MAX_BEAM, help="Hypotheses followed side by side; 1 is greedy.")
]
_LENGTH_PENALTY = msg("Larger favours longer output; if absent, as the run says (1.6 for one that was trained here).")
_NoRepeatNgram = Annotated[
    int | None,
    typer.Option(
        help="Write no n-gram of so many tokens twice; 0 allows all. If absent, only lines that came out as a loop"
        " are translated again with 3."
    ),
]
_RepetitionPenalty = Annotated[
    float,
    typer.Option(help="Above 1 makes written tokens less probable; decoding is then slower."),
]
_NoCorrections = Annotated[bool, typer.Option("--no-corrections", help="Leave corrections aside (see dikkat correct).")]
_AllWords = Annotated[bool, typer.Option("--all-words", help=ALL_WORDS_HELP)]
_Glossary = Annotated[
    Path | None,
    typer.Option(help="Terms: a term, a tab and its translation a line, several parted by |; each is kept."),
]
_Prefix = Annotated[Path | None, typer.Option(help="What the translation of each line begins with, one a line.")]
_Confidence = Annotated[bool, typer.Option("--confidence", help="Probability before each text, faults after it.")]
_Json = Annotated[bool, typer.Option("--json", help="A line of JSON each, with the probability of each word.")]
_Abstain = Annotated[float | None, typer.Option(help="Leave a line empty that is less probably right than this.")]
_BatchSize = Annotated[
    int | None, typer.Option(help="Sentences translated at once; if absent, as many as are fastest.")
]
_Precision = Annotated[PrecisionName, typer.Option(help=PRECISION_HELP)]


def translate(
    run: Annotated[Path, typer.Argument(help="Run directory.", show_default=False)],
    file: Annotated[Path | None, typer.Argument(help="Text, line by line; standard input if absent.")] = None,
    out: _Out = None,
    columns: _Columns = "",
    beam: _Beam = DEFAULTS.beam,
    n_best: Annotated[int, typer.Option(help="Translations a line; above 1 each as number, score, text.")] = 1,
    scores: Annotated[bool, typer.Option("--scores", help="Number and score before each text.")] = False,
    length_penalty: Annotated[float | None, typer.Option(help=_LENGTH_PENALTY)] = None,
    sample: Annotated[bool, typer.Option("--sample", help="Draw at random instead of searching.")] = False,
    temperature: Annotated[float, typer.Option(help="Of sampling: below 1 sharper, above 1 flatter.")] = 1.0,
    top_k: Annotated[int, typer.Option(help="Of sampling: only so many most probable tokens; 0 is all.")] = 0,
    top_p: Annotated[float, typer.Option(help="Of sampling: only the most probable tokens of this share.")] = 1.0,
    seed: Annotated[int, typer.Option(help="Of sampling.")] = 1,
    no_repeat_ngram: _NoRepeatNgram = None,
    repetition_penalty: _RepetitionPenalty = DEFAULTS.repetition_penalty,
    glossary: _Glossary = None,
    no_corrections: _NoCorrections = False,
    all_words: _AllWords = False,
    prefix: _Prefix = None,
    confidence: _Confidence = False,
    json: _Json = False,
    abstain: _Abstain = None,
    batch_size: _BatchSize = None,
    precision: _Precision = DEFAULTS.precision,
    device: Annotated[Device, typer.Option(help=DEVICE_HELP)] = "cpu",
    engine: Annotated[EngineName, typer.Option(help=ENGINE_HELP)] = "auto",
) -> None:
    """Translate FILE or standard input, in order and in constant memory; a line without words comes back as it is.

    With --out, FILE is a document, of which every byte stays but the text to translate.
    """
    work.translate(work.TranslateOptions(**locals()))
