"""Terms, prefixes and placeholders are kept by every engine, however little a model knows: random weights do."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tests.runtime.runs import SENTENCES, translator_run

import dikkat_runtime as runtime
from dikkat.run_directory import RunDirectory
from dikkat_runtime.engine.hypotheses import Sentence
from dikkat_runtime.engine.native import StepDecoder
from dikkat_runtime.engine.options import BeamOptions, DecodingOptions, SamplingOptions
from dikkat_runtime.engine.terms import Terms
from dikkat_runtime.errors import DataError, UsageError
from dikkat_runtime.run.weights import read_weights
from dikkat_runtime.special_tokens import EOS_ID
from dikkat_runtime.tasks.translations import PieceRequest, Translation, TranslationNotes
from dikkat_runtime.tasks.translator import Translator
from dikkat_runtime.tasks.translator import Translator as WithModel
from dikkat_runtime.text.demanded import Demanded, unmet
from dikkat_runtime.text.segmentation import ReadingLimits

GLOSSARY = runtime.Glossary.of({"cat": ["Katze"], "keys": ["Schlüssel", "anahtar"], "dog": ["Hund"]})
FORMS = {"cat": ("Katze",), "keys": ("Schlüssel", "anahtar"), "dog": ("Hund",)}
ENGINES: dict[str, Callable[[Path], Translator]] = {
    "float32": lambda run: Translator.load(run, threads=1),
    "int8": lambda run: Translator.load(run, precision="int8", threads=1),
    "torch": lambda run: WithModel.load(run, engine="torch"),
}
# by day the torch engine is compared with the native one alone
BY_DAY = ["float32", "int8", pytest.param("torch", marks=pytest.mark.nightly)]
WAYS: dict[str, DecodingOptions] = {
    "greedy": DecodingOptions(max_length_factor=0.5),
    "beam": BeamOptions(beam_size=4, n_best=2, max_length_factor=0.5),
    "beam without repetition": BeamOptions(beam_size=3, no_repeat_ngram=3, max_length_factor=0.5),
}
LINES = [*SENTENCES[:4], "The cat, the dog and the cat.", "Write {name} 5 km on {name} at a@b.org, 30% of %d."]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return translator_run(tmp_path_factory.mktemp("runs") / "run")


def demands_of(line: str) -> list[Demanded]:
    return [Demanded(forms, line.count(term)) for term, forms in FORMS.items() if term in line]


def searched(translator: Translator, lines: Sequence[str], options: DecodingOptions) -> list[Translation]:
    """The outputs of the search that is made to write the terms, with all hypotheses of its beam."""
    options = replace(translator.defaults.resolved(options), length_penalty=1.0)
    if isinstance(options, BeamOptions):
        options = replace(options, n_best=options.beam_size)
    requests = [PieceRequest(line, tuple(translator.encode(line)), "", GLOSSARY.demands(line)) for line in lines]
    return translator.decoded(requests, range(len(requests)), options, True)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("engine", BY_DAY)
def test_the_search_writes_every_term_exactly_as_often_as_the_source(run: Path, engine: str, way: str) -> None:
    lines = [line for line in LINES if any(term in line for term in FORMS)]
    for line, translation in zip(lines, searched(ENGINES[engine](run), lines, WAYS[way]), strict=True):
        texts = [own.text for own in (translation, *translation.alternatives)]
        assert any(unmet(text, demands_of(line), suffixes=False) == [] for text in texts), line


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("engine", BY_DAY)
def test_a_line_holds_its_terms_or_is_as_without_them_and_names_them(run: Path, engine: str, way: str) -> None:
    translator, notes = ENGINES[engine](run), TranslationNotes()
    plain = translator.translate(LINES, WAYS[way])
    translations = list(translator.stream(LINES, WAYS[way], glossary=GLOSSARY, notes=notes))
    unplaced = Counter[str]()
    for line, free, translation in zip(LINES, plain, translations, strict=True):
        missing = unmet(translation.text, demands_of(line), suffixes=False)
        assert [term.targets for term in translation.unplaced] == [demand.forms for demand in missing]
        assert translation.flags == (("term not placed",) if missing else ())
        assert not missing or translation == replace(free, unplaced=translation.unplaced)
        unplaced.update(map(str, translation.unplaced))
    assert unplaced == notes.unplaced
    messages = notes.lines()
    assert any(line.startswith("glossary: 6 terms in 4 texts") and "cat → Katze (3)" in line for line in messages)
    assert any(" not placed" in line for line in messages) == bool(unplaced)


def test_lines_without_terms_are_translated_as_without_a_glossary(run: Path) -> None:
    translator = Translator.load(run, threads=1)
    plain = translator.translate(LINES)
    kept = translator.translate(LINES, glossary=GLOSSARY)
    for line, one, other in zip(LINES, plain, kept, strict=True):
        if not any(term in line for term in FORMS):
            assert one == other


@pytest.mark.parametrize("engine", BY_DAY)
def test_placeholders_addresses_and_measures_come_through_once_each(run: Path, engine: str) -> None:
    for options in WAYS.values():
        text = ENGINES[engine](run).translate(LINES[-1:], options)[0].text
        assert text.count("{name}") == 2
        assert text.count("a@b.org") == text.count("%d") == 1
        assert unmet(text, [Demanded(("5 km", "5km", "5\u00a0km", "5\u202fkm"))], suffixes=False) == []
    # what is drawn is not searched, but nothing is lost all the same
    drawn = ENGINES[engine](run).translate(LINES[-1:], SamplingOptions(seed=3))[0].text
    assert drawn.count("{name}") == 2
    assert drawn.count("a@b.org") == drawn.count("%d") == 1


@pytest.mark.parametrize("engine", BY_DAY)
@pytest.mark.parametrize("prefix", ["T", "The ", "Zwei Hun", "ça coûte 5 €", "  x", "mix‑\u0301"])
def test_a_translation_begins_with_what_was_typed_byte_for_byte(run: Path, engine: str, prefix: str) -> None:
    translator = ENGINES[engine](run)
    plain, begun = (translator.translate(LINES[:3], WAYS["beam"], prefixes=item) for item in (None, [prefix] * 3))
    for translation in begun:
        for item in (translation, *translation.alternatives):
            assert item.text.encode().startswith(prefix.encode())
    assert translator.translate(LINES[:3], WAYS["beam"], prefixes=["", "", ""]) == plain


def test_engines_agree_under_constraints(run: Path) -> None:
    prefixes = ["", "Wo", "Ein H", "x", "Die ", "{na"]
    native, torch = ENGINES["float32"](run), ENGINES["torch"](run)
    for options in (WAYS["greedy"], WAYS["beam"]):
        result, other = (
            item.translate(LINES, options, glossary=GLOSSARY, prefixes=prefixes) for item in (native, torch)
        )
        assert [item.text for item in result] == [item.text for item in other]
        assert [item.score for item in result] == pytest.approx([item.score for item in other], abs=1e-4)


@pytest.mark.parametrize("engine", BY_DAY)
def test_a_session_completes_as_a_new_search_would(run: Path, engine: str) -> None:
    translator = ENGINES[engine](run)
    source, typed = LINES[2], "Ein Hund läuft am Strand"
    session = translator.complete(source)
    plain = translator.translate([source])[0]
    assert session.suggest("").text == plain.text
    for size in (1, 2, 9, 10, 5, 17, 3, len(typed)):
        anew = translator.translate([source], prefixes=[typed[:size]])[0]
        result = session.suggest(typed[:size])
        assert result.text == anew.text
        assert result.score == pytest.approx(anew.score, abs=1e-5)
        assert result.text.startswith(typed[:size])


@pytest.mark.parametrize("engine", ["float32", "int8"])
def test_the_kernels_finish_what_single_steps_began(run: Path, engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    prefixes = ["Wo", "Ein Hund läuft am St", "", "x", "Die Katze ", "{na"]
    translator = ENGINES[engine](run)
    in_c = translator.translate(LINES, WAYS["beam"], prefixes=prefixes)
    session = translator.complete(LINES[2], WAYS["beam"])
    suggested = [session.suggest(typed).text for typed in ("Ein Hund", "E", "Ein Hund läuft a")]
    finished: list[int] = []

    def leave(self: StepDecoder, sentences: list[Sentence], *more: object) -> None:
        finished.append(len(sentences))

    monkeypatch.setattr(StepDecoder, "finish", leave)
    translator = ENGINES[engine](run)
    by_steps = translator.translate(LINES, WAYS["beam"], prefixes=prefixes)
    session = translator.complete(LINES[2], WAYS["beam"])
    assert [session.suggest(typed).text for typed in ("Ein Hund", "E", "Ein Hund läuft a")] == suggested
    assert finished
    for one, other in zip(in_c, by_steps, strict=True):
        assert [each.text for each in (one, *one.alternatives)] == [each.text for each in (other, *other.alternatives)]
        assert one.score == pytest.approx(other.score, abs=1e-5)


def test_each_of_two_sentences_has_its_share_of_a_prefix(run: Path) -> None:
    translator = Translator.load(run, threads=1, limits=runtime_limits())
    source = "Where are my keys? Yes."
    free = translator.translate([source])[0].text
    assert translator.translate([source], prefixes=["Wo? J"])[0].text.startswith("Wo? J")
    assert translator.translate([source], prefixes=["Wo sind sie"])[0].text.endswith(free.split()[-1])


@pytest.mark.parametrize(
    ("prefixes", "said"), [(["Wo"], "more lines of text than prefixes (1)"), (["", "", ""], "lines of text (2)")]
)
def test_lines_and_prefixes_are_equally_many(run: Path, prefixes: list[str], said: str) -> None:
    translator = Translator.load(run, threads=1)
    with pytest.raises(DataError, match=re.escape(said)):
        translator.translate(LINES[:2], prefixes=prefixes)


def runtime_limits() -> ReadingLimits:
    return ReadingLimits(40, 40, several_sentences=False)


def test_a_placeholder_that_is_typed_in_part_is_completed(run: Path) -> None:
    translator = Translator.load(run, threads=1)
    text = translator.translate([LINES[-1]], prefixes=["Schreib {na"])[0].text
    assert text.startswith("Schreib {name}")
    assert text.count("{name}") == 2


def test_what_is_drawn_keeps_neither_terms_nor_prefixes(run: Path) -> None:
    translator = Translator.load(run, threads=1)
    for more in ({"glossary": GLOSSARY}, {"prefixes": ["x"]}):
        with pytest.raises(UsageError, match="sampling"):
            translator.translate(["A dog."], SamplingOptions(), **more)
    with pytest.raises(UsageError, match="one line"):
        translator.complete("a\nb")
    with pytest.raises(UsageError, match="one line"):
        translator.complete("A dog.").suggest("a\nb")


@pytest.mark.parametrize("engine", BY_DAY)
def test_terms_are_found_among_the_tokens_of_the_source_where_the_target_is_cut_otherwise(
    tmp_path: Path, engine: str
) -> None:
    translator = ENGINES[engine](translator_run(tmp_path / "run", separate=True))
    line = "The small cat is sleeping."
    place = line.index("cat"), line.index("cat") + len("cat")
    constraint = translator.constraints.constraint(line, [Demanded(("Katze",), 1, "term", "cat", (place,))])
    assert isinstance(constraint, Terms)
    (demand,) = constraint.demands
    assert [translator.tokenizer.pieces(translator.encode(line))[number] for number in demand.positions] == ["▁cat"]
    lines = [text for text in LINES if any(term in text for term in FORMS)]
    for text, translation in zip(lines, searched(translator, lines, WAYS["beam"]), strict=True):
        texts = [own.text for own in (translation, *translation.alternatives)]
        assert any(unmet(own, demands_of(text), suffixes=False) == [] for own in texts), text


def test_a_term_of_one_line_changes_no_other_line_and_a_session_writes_the_same(tmp_path: Path) -> None:
    run = translator_run(tmp_path / "run", output_bias=True)
    weights = {name: torch.tensor(array) for name, array in read_weights(run / "model.safetensors").items()}
    # most outputs end before their cap, so that the length penalty matters
    weights["output_bias"][EOS_ID] += 4
    RunDirectory.open(run).save_weights(weights, {"step": "1"})
    translator, options, lines = Translator.load(run, threads=1), BeamOptions(beam_size=4), SENTENCES[:3]
    together = translator.translate(lines, options, prefixes=["The"] * 3, glossary=GLOSSARY)
    for line, translation in zip(lines, together, strict=True):
        assert translator.translate([line], options, prefixes=["The"], glossary=GLOSSARY) == [translation]
        assert translator.complete(line, options, glossary=GLOSSARY).suggest("The").text == translation.text
    others = translator.translate([SENTENCES[0], SENTENCES[4]], options, prefixes=["The"] * 2, glossary=GLOSSARY)
    assert others[1] == translator.translate([SENTENCES[4]], options, prefixes=["The"], glossary=GLOSSARY)[0]
