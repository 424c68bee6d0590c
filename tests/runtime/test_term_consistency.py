"""In a document a term has the translation that most of its texts have, and whatever else there is stays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from tests.runtime.scripted_engine import Links, ScriptedEngine, tokenizer_of

from dikkat_runtime.tasks.confidence import PairScorer
from dikkat_runtime.tasks.surrogates import FIRST_MARK
from dikkat_runtime.tasks.term_consistency import MAX_FALL, TermUnifier
from dikkat_runtime.tasks.term_placement import TermPlacer

MARK = chr(FIRST_MARK)
MOST = {
    "Open a folder": "Abra uma pasta",
    "New folder here": "Nova pasta agora",
    "A third folder": "Terceira Pasta",
}
OTHER, INSTEAD = "The folder is old", "O diretorio velho"
TOKENIZER = tokenizer_of([*MOST, *MOST.values(), OTHER, INSTEAD, "Diretorio da Anna hoje", "Folder of Anna now"])
LINKS = dict.fromkeys(("pasta", "Pasta", "pastinha", "diretorio", "Diretorio"), "folder")


def unifier(
    pairs: Mapping[str, str],
    links: Mapping[str, str],
    logits: Mapping[str, float] | None = None,
    surrogates: Sequence[str] = (),
    longest: int = 100,
) -> tuple[TermUnifier, ScriptedEngine]:
    """Return what unifies pairs in which each word of a target looks at its word of the source, and its engine."""
    texts = [(own.replace(MARK, "Anna"), text.replace(MARK, "Anna")) for own, text in pairs.items()]
    scripted: dict[tuple[str, str], Links] = {
        (source, text): {
            target: {word: 0.9 for word in source.split() if links.get(target) == word.lower()}
            for target in text.split()
        }
        for source, text in texts
    }
    engine = ScriptedEngine(TOKENIZER, scripted, logits)
    sides, languages = (TOKENIZER, TOKENIZER), ("en", "pt")
    placer, scorer = TermPlacer(engine, sides, languages), PairScorer(engine, sides, languages)
    return TermUnifier(placer, scorer, TOKENIZER.encode_batch, lambda: surrogates, longest), engine


def unified(pairs: Mapping[str, str], links: Mapping[str, str] = LINKS, **named: object) -> tuple[list[str], str]:
    unify, _ = unifier(pairs, links, **named)  # type: ignore[arg-type]
    texts, note = unify(list(pairs), list(pairs.values()))
    return texts, str(note)


def test_the_translation_of_most_texts_takes_the_place_of_others_in_their_case() -> None:
    texts, note = unified({**MOST, OTHER: INSTEAD, "Folder of Anna now": "Diretorio da Anna hoje"})
    assert texts == [*MOST.values(), "O pasta velho", "Pasta da Anna hoje"]
    assert note == "1 term had several translations; 2 texts changed, and 0 of them still have several"


def test_without_a_majority_nothing_changes() -> None:
    pairs = dict(list(MOST.items())[:2]) | {OTHER: INSTEAD, "Old folder is": "O diretorio agora"}
    assert unified(pairs) == (list(pairs.values()), "")


def test_what_is_alike_is_not_even_read() -> None:
    unify, engine = unifier(MOST, LINKS)
    assert (unify(list(MOST), list(MOST.values())), engine.steps_taken) == ((list(MOST.values()), ""), 0)


def test_forms_of_the_same_word_stay() -> None:
    pairs = {**MOST, OTHER: "O pastinha velho"}
    assert unified(pairs) == (list(pairs.values()), "")


@pytest.mark.parametrize("links", [{"pasta": "folder", "Pasta": "folder"}, {"diretorio": "folder"}])
def test_words_that_do_not_clearly_translate_each_other_stay(links: Mapping[str, str]) -> None:
    pairs = {**MOST, OTHER: INSTEAD}
    assert unified(pairs, links) == (list(pairs.values()), "")


@pytest.mark.parametrize(("logit", "is_likely"), [(0.0, True), (9.0, False)])
def test_a_text_that_gets_too_unlikely_stays(logit: float, is_likely: bool) -> None:
    pairs, logits = {**MOST, OTHER: INSTEAD}, {"O diretorio velho": logit}
    scores = unifier(pairs, LINKS, logits)[0].scorer.scores([OTHER] * 2, [INSTEAD, "O pasta velho"])
    before, after = (own.log_probabilities.sum() for own in scores if own is not None)
    assert bool(before - after <= MAX_FALL) is is_likely
    texts, note = unified(pairs, logits=logits)
    assert texts[3] == ("O pasta velho" if is_likely else INSTEAD)
    texts_changed, left = ("1 text", 0) if is_likely else ("0 texts", 1)
    assert note.endswith(f"; {texts_changed} changed, and {left} of them still have several")


def test_placeholders_stay_exactly() -> None:
    pairs = {**MOST, f"Folder of {MARK} now": f"Diretorio da {MARK} hoje"}
    assert unified(pairs, surrogates=["Anna"])[0][3] == f"Pasta da {MARK} hoje"


def test_what_is_too_long_to_read_is_left_alone() -> None:
    pairs = {**MOST, OTHER: INSTEAD}
    assert unified(pairs, longest=1) == (list(pairs.values()), "")
