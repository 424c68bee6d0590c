"""Pairs that translators make of what they were trained on: which, in which order, and each once."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pytest

from dikkat.config import RunConfig
from dikkat.data.pairs import Pair
from dikkat.tasks.translation.synthetic import BEAM, check_directions, diversify
from dikkat_runtime.engine.options import BeamOptions, DecodingOptions, Formality
from dikkat_runtime.errors import UsageError
from dikkat_runtime.tasks.confidence import Judge
from dikkat_runtime.tasks.corrections import KnownTranslations
from dikkat_runtime.tasks.translations import Translation, TranslationNotes
from dikkat_runtime.tasks.translator import Translator
from dikkat_runtime.text.glossary import Glossary

PAIRS = [Pair("a dog", "ein Hund", 1), Pair("a cat", "eine Katze", 2), Pair("a dog", "ein Hund", 3)]


class Parrot(Translator):
    """Writes what it was told to, and keeps how it was asked."""

    def __init__(self, texts: dict[str, str], source: str = "", target: str = "") -> None:
        self.texts, self.asked = texts, list[object]()
        self.config = RunConfig.model_validate({"data": {"source_language": source, "target_language": target}})

    def stream(
        self,
        lines: Iterable[str],
        options: DecodingOptions = BEAM,
        *,
        batch_size: int | None = None,
        window: int | None = None,
        retry_loops: bool = True,
        notes: TranslationNotes | None = None,
        prefixes: Iterable[str] | None = None,
        glossary: Glossary | None = None,
        confidence: Judge | None = None,
        memories: Sequence[KnownTranslations] | None = None,
        formality: Formality = "default",
    ) -> Iterator[Translation]:
        self.asked += [options, batch_size]
        return (Translation(self.texts[line], 0.0, ()) for line in lines)


def test_what_is_new_follows_what_was_given(monkeypatch: pytest.MonkeyPatch) -> None:
    forward = Parrot({"a dog": "der Hund", "a cat": "eine Katze"})
    backward = Parrot({"ein Hund": "one dog", "eine Katze": " "})
    counted: list[str] = []

    def count(items: Sequence[str], what: str) -> Iterator[str]:
        counted.extend(items)
        return iter(items)

    monkeypatch.setattr("dikkat_runtime.notices.COUNTERS", [count])
    result = diversify(forward, backward, PAIRS)
    assert result.pairs == [
        ("a dog", "ein Hund"),
        ("a cat", "eine Katze"),
        ("a dog", "ein Hund"),
        ("a dog", "der Hund"),
        ("one dog", "ein Hund"),
    ]
    assert (result.original, result.by_forward, result.by_backward) == (3, 1, 1)
    assert counted == [side for index in (0, 1) for side in (pair[index] for pair in PAIRS)]


def test_a_pair_that_the_other_translator_wrote_before_is_not_new() -> None:
    forward, backward = Parrot({"x": "z"}), Parrot({"y": "x"})
    assert diversify(forward, backward, [Pair("x", "y", 1)]).pairs == [("x", "y"), ("x", "z")]


def test_both_are_asked_as_the_caller_says() -> None:
    forward, backward, options = Parrot({}), Parrot({}), BeamOptions(beam_size=2)
    assert diversify(forward, backward, [], options=options, batch_size=7).pairs == []
    assert forward.asked == backward.asked == [options, 7]


@pytest.mark.parametrize(
    ("there", "back", "fits"),
    [
        (("en", "de"), ("de", "en"), True),
        (("en", "de"), ("en", "de"), False),
        (("en", "de"), ("fr", "en"), False),
        (("en", "de"), ("", ""), True),
        (("", "de"), ("en", "de"), True),
    ],
)
def test_two_that_are_known_to_go_the_same_way_are_refused(
    there: tuple[str, str], back: tuple[str, str], fits: bool
) -> None:
    forward, backward = Parrot({}, *there), Parrot({}, *back)
    if fits:
        check_directions(forward, backward)
        return
    with pytest.raises(UsageError, match=r"must go the other way, de to en, but goes from (en|fr) to"):
        diversify(forward, backward, PAIRS)


def test_real_translators_write_what_they_translate(untrained: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(untrained, other)
    config = json.loads((other / "config.json").read_text(encoding="utf-8"))
    config["data"] |= {"source_language": "tr", "target_language": "en"}
    (other / "config.json").write_text(json.dumps(config), encoding="utf-8")
    (other / "manifest.json").unlink(missing_ok=True)
    forward, backward = Translator.load(untrained), Translator.load(other)
    inputs = [Pair("go !", "git !", 1), Pair("he's calm .", "o sakin .", 2)]
    options = BeamOptions(beam_size=2)
    result = diversify(forward, backward, inputs, options=options)
    written = [item.text for item in forward.stream(["go !", "he's calm ."], options)]
    thought = [item.text for item in backward.stream(["git !", "o sakin ."], options)]
    expected = [("go !", written[0]), ("he's calm .", written[1]), (thought[0], "git !"), (thought[1], "o sakin .")]
    assert result.pairs == [("go !", "git !"), ("he's calm .", "o sakin ."), *(pair for pair in expected if all(pair))]
