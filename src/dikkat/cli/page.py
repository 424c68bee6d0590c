"""`dikkat page`: one HTML file in which a model computes in the browser, and shows what it attends to."""

from pathlib import Path
from typing import Annotated, Any, Literal

from dikkat.cli.progress import Announced
from dikkat_runtime.cli.options import Argument, Option
from dikkat_runtime.cli.streams import print_note, print_written
from dikkat_runtime.errors import MissingInputError, UsageError, msg
from dikkat_runtime.hints import command
from dikkat_runtime.localization import language

WebPrecision = Literal["auto", "int8", "float32"]
"""The precision that an exported model computes in."""
PagePrecision = Literal["auto", "int8", "int4", "float32"]
"""The precision that a model in a page computes in."""
MAX_EXAMPLES = 8


def page(
    run: Annotated[Path | None, Argument(help="Run directory; with --lesson, the quickstart's by default.")] = None,
    out: Annotated[Path | None, Option(help="HTML file to write; lesson-NAME.html for a lesson.")] = None,
    precision: Annotated[
        PagePrecision,
        Option(
            help="auto is int8, a third of the size, unless training measured that it loses; int4: language models."
        ),
    ] = "auto",
    lesson: Annotated[
        str | None,
        Option(help="Add a lesson to the page: 000 to 005, or a file of your own (.md); it prints as a worksheet."),
    ] = None,
) -> None:
    """Write one offline HTML file in which this model reads what is typed, and shows every attention map.

    Nothing is installed, served or loaded: the file holds the model and an engine that computes it in the browser.
    """
    from dikkat.explain.pictures import PAGES, check_format
    from dikkat.tasks.inspection.over_training import OverTraining
    from dikkat.web.opening import example_sentences, open_for_web
    from dikkat.web.page import MAX_EMBEDDED_WEIGHTS, MODEL_SUFFIX, lesson_path, live_page
    from dikkat_runtime.files import probe_next_to, write_atomically, write_errors

    source = None if lesson is None else lesson_path(lesson)
    run = run or _quickstart_run(lesson)
    if out is None and source is None:
        raise UsageError("--out is missing: the HTML file to write")
    path = out or Path(f"lesson-{source.stem if source else ''}.html")
    check_format(path, PAGES)
    with write_errors(path):
        probe_next_to(path)
    steps = None if source is None else _answered(run, source)
    if steps is not None and steps["page"] == "training":
        OverTraining(run).write_page(path, steps)
        print_written(path)
        return
    with Announced(msg("{out}: packing the model of {run}", path, run)):
        model = open_for_web(run, precision)
        examples = example_sentences(run, MAX_EXAMPLES)
        weights = path.with_suffix(MODEL_SUFFIX)
        neighbour = None if model.size <= MAX_EMBEDDED_WEIGHTS else (weights.name, model.encode())
        content = live_page(model, language(), examples, steps, neighbour).encode()
        if neighbour is not None:
            write_atomically(weights, neighbour[1])
        write_atomically(path, content)
    if neighbour is None:
        _report_page(path, len(content), model.precision)
        return
    print_note(
        msg(
            "wrote {path} and {weights} ({size:.1f} MB, {precision}): serve their folder, as by "
            "python -m http.server, and open the page; opened as a file it asks for the weights"
        ).fill(path, weights, len(neighbour[1]) / 1000000.0, model.precision)
    )


def _report_page(path: Path, size: int, precision: str) -> None:
    from dikkat.web.page import MAX_QUICK_SIZE

    print_note("wrote {path} ({size:.1f} MB, {precision}): open it in a browser", path, size / 1000000.0, precision)
    if size > MAX_QUICK_SIZE:
        print_note(
            msg(
                "{path}: over {limit:.0f} MB, which phones and old laptops take seconds to open; a smaller model "
                "or --precision int8 makes it smaller"
            ).fill(path, MAX_QUICK_SIZE / 1000000.0)
        )


def _answered(run: Path, source: Path) -> dict[str, Any]:
    """Return the lesson of a file with the answers of the model of `run`."""
    from dikkat.explain.lesson import answered, read_lesson
    from dikkat.tasks.inspection.over_training import OverTraining
    from dikkat.tasks.kinds import load

    if read_lesson(source).page == "training":
        return answered(source, OverTraining(run).at)
    model = load(run)
    return answered(source, lambda settings: model.attend(settings["text"]))


def _quickstart_run(lesson: str | None) -> Path:
    """Return the run of the quickstart, which a lesson needs; without a lesson a run must be named."""
    from dikkat.tasks.translation.quickstart import DEFAULT_PAIR, default_folder

    if lesson is None:
        raise UsageError("RUN is missing: the run directory of a model")
    run = default_folder(DEFAULT_PAIR)
    if not run.is_dir():
        raise MissingInputError(
            "{run}: there is no such run directory; make it with: {command}", run, command("quickstart")
        )
    return run
