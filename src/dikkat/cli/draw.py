"""`dikkat draw`: draw a model with its sizes, and the table of positions."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

from dikkat.cli.training import parse_settings
from dikkat.config import ModelConfig, build_config, merge
from dikkat.config import preset as settings_of
from dikkat.config.settings import read_toml
from dikkat_runtime.cli.options import Argument, Option
from dikkat_runtime.cli.program import Group
from dikkat_runtime.cli.streams import print_report, print_written
from dikkat_runtime.errors import UsageError, msg


def model(
    run: Annotated[Path | None, Argument("DIR", help="Run directory, also an unfinished one.")] = None,
    preset: Annotated[str | None, Option(help="tiny, small, base or d2l, instead of a run.")] = None,
    config: Annotated[Path | None, Option(help="TOML file of settings, instead of a run.")] = None,
    set_: Annotated[
        list[str] | None, Option("--set", help="A setting, such as model.positions=rotary; can be repeated.")
    ] = None,
    out: Annotated[Path | None, Option(help="Picture to write, .svg.")] = None,
) -> None:
    """Draw a model with the size and the parameters of each part; as text on standard output, with --out as SVG."""
    from dikkat.explain.pictures import check_format

    if out is not None:
        check_format(out, [".svg"])
    if run is not None and (preset or config or set_):
        raise UsageError("a run has its own settings: leave out DIR, or --preset, --config and --set")
    if run is None:
        settings, title = _of_settings(preset, config, set_ or [])
    else:
        from dikkat.run_directory import RunDirectory
        from dikkat.tasks.common.settings import run_config

        opened = RunDirectory.open(run)
        settings, title = run_config(opened.read_config(), str(opened.config)).model, run.resolve().name
    from dikkat.explain.drawing.outline import localized_outline, outline_as_text, outline_of_config

    outline = localized_outline(outline_of_config(settings, title))
    if out is not None:
        from dikkat.explain.drawing.model_drawing import draw_model
        from dikkat_runtime.files import write_atomically

        write_atomically(out, draw_model(outline).encode())
    print_report([outline_as_text(outline).removesuffix("\n")])
    print_written(out)


def _of_settings(name: str | None, file: Path | None, assignments: list[str]) -> tuple[ModelConfig, str]:
    """The vocabulary is as large as the tokenizer may make it, unless it is set."""
    if name is None and file is None and not assignments:
        raise UsageError("name what to draw: a run directory, --preset NAME, --config FILE or --set")
    overrides = merge(settings_of(name) if name else {}, read_toml(file) if file else {}, parse_settings(assignments))
    run_config = build_config(overrides, where=str(file or "settings"))
    title = name or (file.stem if file else "model")
    if "vocab_size" in overrides.get("model", {}):
        return run_config.model, title
    size = run_config.tokenizer.vocab_size
    target = size if run_config.data.vocabularies == "separate" else None
    return run_config.model.model_copy(update={"vocab_size": size, "target_vocab_size": target}), title


def positions(
    out: Annotated[Path, Option(help="Picture to write, .png or .svg.")],
    kind: Annotated[str, Option(help="sinusoidal, sinusoidal_halves or sinusoidal_concatenated.")] = "sinusoidal",
    dim: Annotated[int, Option(help="Columns of the table, the model's width.")] = 32,
    length: Annotated[int, Option(help="Rows of the table, positions.")] = 60,
    columns: Annotated[str, Option(help="Columns to draw as waves, from 0, such as 6-9 or 0,4.")] = "6-9",
    shift: Annotated[int, Option(help="Rows by which the table is shifted to show the rotation.")] = 5,
) -> None:
    """Draw the table of positions: columns as waves, all of it as a heat map, a shift of rows as a rotation."""
    from dikkat.explain.drawing.position_table import PositionTable, binary_lines, draw_positions

    table = PositionTable(kind, dim, length)
    chosen = _columns(columns)
    periods = [
        msg("column {column} repeats after {period:.2f} rows", column, table.period(column)) for column in chosen
    ]
    error = table.rotation_error(shift)
    draw_positions(table, chosen, shift, out)
    rotation_line = msg(
        "row p + {shift} is row p turned by one fixed rotation, for every p; largest error {error:.1e}", shift, error
    )
    print_report([*periods, rotation_line, *binary_lines()])
    print_written(out)


def _columns(text: str) -> list[int]:
    """Numbers and ranges, `6-9` or `0,4`. Raises `UsageError` for anything else."""
    chosen: list[int] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not (first.isdecimal() and (last.isdecimal() or not dash)) or int(last or first) - int(first) > 50:
            raise UsageError(
                '--columns must be numbers from 0, as in 6-9 or 0,4, at most 50 of them, not "{text}"', text
            )
        chosen += range(int(first), int(last or first) + 1)
    if not chosen:
        raise UsageError('--columns "{text}" names no column', text)
    return chosen


_COMMANDS: dict[str, Callable[..., Any]] = {"model": model, "positions": positions}
draw = Group("Draw a model with its sizes, or the table of positions.", tuple(_COMMANDS), _COMMANDS.__getitem__)
