"""JSON of a run is read by one strict reader: nothing in it ends in another error than one line of `DataError`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.runtime.runs import finished, translator_run

from dikkat_runtime import Translator
from dikkat_runtime.errors import DataError, DikkatError
from dikkat_runtime.run.strict_json import MAX_DEPTH, parse_json


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff",
        b"[1,]",
        b'{"a": 1, "a": 2}',
        b'["\\ud800"]',
        b'{"\\udc00": 1}',
        b"[NaN]",
        b"[1e999]",
        b"[-Infinity]",
        b"9" * 5_000,
        b"[" * 200_000,
        b"[" * 200_000 + b"]" * 200_000,
        b'{"a":' * (MAX_DEPTH + 1) + b"1" + b"}" * (MAX_DEPTH + 1),
        b'["[",' + b"[" * MAX_DEPTH + b"]" * MAX_DEPTH + b"]",
    ],
)
def test_what_our_programs_never_write_is_refused(content: bytes) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        parse_json(content)


@pytest.mark.parametrize("value", [["[", "]]", {"{": [1, [2, [3]]]}], [[]] * 500, {"a": [{}] * 500}, "[" * 500])
def test_brackets_side_by_side_or_in_texts_are_not_deep(value: object) -> None:
    assert parse_json(json.dumps(value).encode()) == value


def test_as_many_levels_as_there_may_be_are_read() -> None:
    assert json.dumps(parse_json(b"[" * MAX_DEPTH + b"]" * MAX_DEPTH)) == "[" * MAX_DEPTH + "]" * MAX_DEPTH


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The files of a finished run, by name."""
    run = finished(translator_run(tmp_path_factory.mktemp("sound") / "run", languages=("en", "tr")))
    return {path.name: path.read_bytes() for path in run.iterdir()}


def use(run: Path) -> None:
    """Read every file of a translator's run that is there."""
    translator = Translator.load(run, precision="auto")
    translator.translate(["Yes."])
    translator.judge(run)


def nested(content: bytes) -> bytes:
    return b"[" * 200_000


def not_utf8(content: bytes) -> bytes:
    return content.replace(b'"', b'"\xff', 1)


def half_a_pair(content: bytes) -> bytes:
    return content.replace(b"{", b'{"\\ud800": 1, ', 1)


def a_number(content: bytes) -> bytes:
    return b"7"


@pytest.mark.parametrize("damage", [nested, not_utf8, half_a_pair, a_number])
@pytest.mark.parametrize(
    "name", ["config.json", "manifest.json", "tokenizer.json", "precision.json", "confidence.json", "corrections.json"]
)
def test_every_file_of_a_run_is_refused_with_its_name(
    name: str, damage: Callable[[bytes], bytes], sound: dict[str, bytes], tmp_path: Path
) -> None:
    for other, content in sound.items():
        if other != "manifest.json":
            (tmp_path / other).write_bytes(content)
    (tmp_path / name).write_bytes(damage(sound.get(name, b"{}")))
    with pytest.raises(DataError) as caught:
        use(tmp_path)
    assert str(caught.value).startswith(str(tmp_path / name))
    assert "\n" not in str(caught.value)


ODD = [None, [], {}, "x", -1, 10**400, 0.5, True, [[1]], {"a": 1}]


@pytest.mark.parametrize("key", ["norm_eps", "inverse_temperature", "num_heads", "positions", "target_prefix", "norm"])
def test_a_setting_of_another_kind_is_one_line(key: str, sound: dict[str, bytes], tmp_path: Path) -> None:
    for other, content in sound.items():
        if other != "manifest.json":
            (tmp_path / other).write_bytes(content)
    config = json.loads(sound["config.json"])
    said = []
    for value in ODD:
        (tmp_path / "config.json").write_text(json.dumps({**config, "model": {**config["model"], key: value}}))
        try:
            Translator.load(tmp_path)
        except DikkatError as error:
            said.append(str(error))
    assert said
    assert all("config.json" in line and "\n" not in line for line in said)


@pytest.mark.parametrize("task", [None, [], {"a": 1}, 7, "shouter"])
def test_a_task_that_is_no_word_is_one_line(task: object, sound: dict[str, bytes], tmp_path: Path) -> None:
    config = json.loads(sound["config.json"])
    (tmp_path / "config.json").write_text(json.dumps({**config, "task": task}))
    with pytest.raises(DikkatError, match=r'holds a ".*", not a translator'):
        Translator.load(tmp_path)
