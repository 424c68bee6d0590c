"""A command is read from the signature of its function, and says in one line what it does not understand."""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest

from dikkat_runtime.cli.options import TYPED, Argument, Command, Option
from dikkat_runtime.errors import UsageError


class Colour(StrEnum):
    red = "red"
    blue = "blue"


def paint(
    wall: Annotated[Path, Argument(help="What to paint.")],
    layers: Annotated[list[int] | None, Argument(help="Thickness of each.")] = None,
    colour: Annotated[Colour, Option(help="Of the paint.")] = Colour.red,
    brush: Annotated[Literal["wide", "fine"], Option()] = "wide",
    coats: Annotated[int, Option("--coats", "-c", min=1, max=9, help="How often.")] = 2,
    share: Annotated[float | None, Option(min=0.0, help="Of the wall.")] = None,
    dry_first: Annotated[bool, Option(help="Wait before.")] = False,
    note: Annotated[list[str] | None, Option(help="May be given often.")] = None,
    typed: Annotated[frozenset[str], TYPED] = frozenset(),
) -> int:
    """Paint a wall.

    It dries by itself.
    """
    return 3


COMMAND = Command("dikkat paint", paint)
USUAL: dict[str, Any] = {
    "wall": Path("w"), "layers": None, "colour": Colour.red, "brush": "wide", "coats": 2, "share": None,
    "dry_first": False, "note": None,
}  # fmt: skip


@pytest.mark.parametrize(
    ("words", "changed"),
    [
        ("w", {}),
        ("w 3 4", {"layers": [3, 4]}),
        ("w --colour blue --brush=fine", {"colour": Colour.blue, "brush": "fine"}),
        ("--coats 9 w", {"coats": 9}),
        ("w -c 1", {"coats": 1}),
        ("--dry-first w --share -0", {"dry_first": True, "share": 0.0}),
        ("w --share 1e-3 5", {"share": 0.001, "layers": [5]}),
        ("w --note a --note=b=c", {"note": ["a", "b=c"]}),
        ("w --note -- 7", {"note": None, "layers": [7]}),
        ("-- -w", {"wall": Path("-w")}),
        ("- -3", {"wall": Path("-"), "layers": [-3]}),
        ("w --coats 3 --coats 4", {"coats": 4}),
        ("w --note=", {"note": [""]}),
    ],
)
def test_words_are_read_into_the_arguments_of_the_function(words: str, changed: dict[str, Any]) -> None:
    if words == "w --note -- 7":  # an option takes no "--" for its value
        with pytest.raises(UsageError, match="Option '--note' requires an argument"):
            COMMAND.read(words.split())
        return
    read = COMMAND.read(words.split())
    assert read.pop("typed") == {"wall", *changed}
    assert read == {**USUAL, **changed}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("", "Missing argument 'wall'."),
        ("w x", "Invalid value for 'layers': Input should be a valid integer, unable to parse string as an integer."),
        ("w --coats 0", "Invalid value for '--coats': Input should be greater than or equal to 1."),
        ("w -c 10", "Invalid value for '--coats': Input should be less than or equal to 9."),
        ("w --share nan", "Invalid value for '--share': Input should be greater than or equal to 0."),
        ("w --colour pink", "Invalid value for '--colour': 'pink' is not one of 'red', 'blue'."),
        ("w --brush x", "Invalid value for '--brush': 'x' is not one of 'wide', 'fine'."),
        ("w --coats", "Option '--coats' requires an argument."),
        ("w --dry-first=yes", "Option '--dry-first' does not take a value."),
        ("w --coat 3", "No such option: --coat (Possible options: --coats, --note)."),
        ("w --xyz=3", "No such option: --xyz."),
        ("w -x", "No such option: -x."),
        ("w --dry_first", "No such option: --dry_first (Possible options: --dry-first)."),
    ],
)
def test_what_is_not_understood_is_one_line(words: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        COMMAND.read(words.split())
    assert str(caught.value) == f"{said} Try `dikkat paint --help`."


def test_more_words_than_arguments() -> None:
    def one(run: Path) -> None: ...

    command = Command("dikkat one", one)
    with pytest.raises(UsageError, match=r"^Got unexpected extra argument\(s\) \(b c\)\. Try"):
        command.read(["a", "b", "c"])


def test_a_required_option_is_missed_by_its_name() -> None:
    def make(out: Annotated[Path, Option(help="Where.")]) -> None: ...

    with pytest.raises(UsageError, match="Missing option '--out'"):
        Command("dikkat make", make).read([])
    assert "--out <path>  Where.  [required]" in Command("dikkat make", make).help()


def test_the_fields_of_a_data_class_are_options_in_its_place() -> None:
    @dataclass(frozen=True)
    class Drying:
        fan: Annotated[str, Option(help="Which one.")]
        hours: Annotated[int, Option(min=1)] = 8

    def dry(wall: Path, drying: Drying, lights: bool = False) -> None: ...

    # as a module has it, which this function is not
    dry.__annotations__ = {"wall": Path, "drying": Drying, "lights": bool}
    Drying.__init__.__annotations__ = {field.name: field.type for field in fields(Drying)}
    command = Command("dikkat dry", dry)
    assert [option.shown_name for option in command.options()] == ["--fan", "--hours", "--lights"]
    assert command.read(["w", "--fan", "x"]) == {"wall": Path("w"), "drying": Drying("x"), "lights": False}
    assert command.read(["w", "--hours=2", "--fan", "x"])["drying"] == Drying("x", 2)
    with pytest.raises(UsageError, match="Missing option '--fan'"):
        command.read(["w"])


def test_the_help_tells_everything(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert COMMAND.call(["w", "--help"]) == 0
    assert capsys.readouterr().out == (
        "Usage: dikkat paint [OPTIONS] WALL [LAYERS...]\n\n  Paint a wall.\n\n  It dries by itself.\n\n"
        "Arguments:\n  WALL       What to paint.  [required]\n  LAYERS...  Thickness of each.\n\n"
        "Options:\n"
        "  --colour <red|blue>  Of the paint.  [default: red]\n"
        "  --brush <wide|fine>  [default: wide]\n"
        "  -c, --coats <int>    How often.  [default: 2; 1<=x<=9]\n"
        "  --share <float>      Of the wall.  [0<=x]\n"
        "  --dry-first          Wait before.\n"
        "  --note <str>         May be given often.\n"
        "  -h, --help           Show this message and exit.\n"
    )
    assert COMMAND.call(["w"]) == 3
