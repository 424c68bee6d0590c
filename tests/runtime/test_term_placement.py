"""A term takes the position of the words that look at its source, and no other word changes."""

from __future__ import annotations

import numpy as np
import pytest
from tests.runtime.scripted_engine import Links, ScriptedEngine, tokenizer_of

from dikkat_runtime.tasks.term_placement import CLEAR, Lacking, TermPlacer
from dikkat_runtime.text.demanded import Demanded

SOURCE = "The man sees the old man and the dog in New York today."
TEXTS = [
    SOURCE, "The man is here.", "L'homme est ici.", "Cet homme voit le chien.", "Le monsieur toutou voit ami coffret.",
    "Un homme, une homme. Une Une Un Un",
    "The box is there.", "Kutuya sığmadı, kutuda.", "Adam köpeği görüyor, köpeğe.",
    "sandık it kedi araba", "L'homme voit le vieil homme et le chien à New York aujourd'hui.",
]  # fmt: skip
TOKENIZER = tokenizer_of(TEXTS)


def demand(source: str, word: str, *forms: str, count: int = 1) -> Demanded:
    spans, start = [], 0
    for _ in range(count):
        start = source.index(word, start)
        spans.append((start, start + len(word)))
        start += len(word)
    return Demanded(forms, count, "term", word, tuple(spans))


def placed(
    source: str,
    target: str,
    links: Links,
    *terms: Demanded,
    language: str = "fr",
    logits: dict[str, float] | None = None,
    begun: int = 0,
    kept: tuple[Demanded, ...] = (),
) -> str | None:
    engine = ScriptedEngine(TOKENIZER, {(source, target): links}, logits)
    placer = TermPlacer(engine, (TOKENIZER, TOKENIZER), ("en", language))
    placer._alone |= {"box": "Kutu kutuda.", "dog": "Köpek köpek."}
    ids = tuple(TOKENIZER.encode(source))
    (text,) = placer([Lacking(source, ids, target, terms, kept, begun)])
    return text


def test_the_word_that_looks_at_the_term_gives_way_wherever_it_stands() -> None:
    source, target = "The dog sees the man.", "Ici voit le chien."
    links = {"Ici": {"man": 0.2, "dog": 0.1}, "le": {"dog": 0.5}, "chien": {"dog": 0.9, "man": 0.1}}
    assert placed(source, target, links, demand(source, "dog", "toutou")) == "Ici voit le toutou."
    turned = {"Ici": {"dog": 0.9}, "chien": {"man": 0.9}}
    assert placed(source, target, turned, demand(source, "dog", "toutou")) == "Toutou voit le chien."
    both = placed(source, target, turned, demand(source, "dog", "toutou"), demand(source, "man", "ami"))
    # le ami is elided
    assert both == "Toutou voit l'ami."


@pytest.mark.parametrize(("share", "is_clear"), [(CLEAR - 0.01, False), (CLEAR + 0.01, True)])
def test_a_word_that_looks_elsewhere_stays(share: float, is_clear: bool) -> None:
    source, target = "The dog sees the man.", "Le chien voit."
    text = placed(source, target, {"chien": {"dog": share, "man": 0.3}}, demand(source, "dog", "toutou"))
    assert text == ("Le toutou voit." if is_clear else None)


@pytest.mark.parametrize(
    ("target", "likely", "expected"),
    [
        ("L'homme est ici.", "Un", "Le monsieur est ici."),
        ("L'homme est ici.", "Une", "La monsieur est ici."),
        ("Ici est l’homme.", " un", "Ici est le monsieur."),
        ("Cet homme voit.", "", "Ce monsieur voit."),
        ("Le vieil homme voit.", "", "Le vieux monsieur voit."),
    ],
)
def test_the_word_before_is_fitted_and_its_gender_is_that_of_the_old_word(
    target: str, likely: str, expected: str
) -> None:
    source = "The man is here."
    links = {"L'homme" if "L'" in target else "homme": {"man": 0.5, "The": 0.5}}
    logits = {likely: 9.0} if likely else {}
    assert placed(source, target, links, demand(source, "man", "monsieur"), logits=logits) == expected


def test_the_form_with_the_highest_probability_is_written() -> None:
    source, target = "The dog is here.", "Le chien est ici."
    for best, other in (("toutou", "monsieur"), ("monsieur", "toutou")):
        asked = demand(source, "dog", "toutou", "monsieur")
        text = placed(source, target, {"chien": {"dog": 1.0}}, asked, logits={f" {other}": -20.0, other: -20.0})
        assert text == f"Le {best} est ici."


@pytest.mark.parametrize(
    ("language", "target", "links", "expected"),
    [
        # an article looks at its noun, in German more than the noun does
        ("de", "Ein Mann voit.", {"Ein": {"man": 0.5}, "Mann": {"man": 0.3}}, "Ein Herr voit."),
        ("de", "Ein Mann voit.", {"Ein": {"man": 0.5}, "Mann": {"man": 0.05}}, None),
        ("fi", "Ein Mann voit.", {"Ein": {"man": 0.5}, "Mann": {"man": 0.1}}, "Herr Mann voit."),
    ],
)
def test_an_article_stays_before_the_term(language: str, target: str, links: Links, expected: str | None) -> None:
    source = "The man sees the dog."
    assert placed(source, target, links, demand(source, "man", "Herr"), language=language) == expected


def test_two_words_of_one_term_give_way_together_and_the_article_stays() -> None:
    source, target = SOURCE, "L'homme voit le vieil homme et le chien à New York aujourd'hui."
    links = {"New": {"New": 0.5, "York": 0.4}, "York": {"New": 0.2, "York": 0.8}, "à": {"in": 0.9}}
    text = placed(source, target, links, demand(source, "New York", "Ici"))
    assert text == "L'homme voit le vieil homme et le chien à Ici aujourd'hui."


def test_neither_what_is_typed_nor_what_is_demanded_too_gives_way() -> None:
    source, target = "The dog sees the man.", "Le chien voit ici."
    links = {"chien": {"dog": 1.0}}
    assert placed(source, target, links, demand(source, "dog", "toutou"), begun=len("Le chien")) is None
    assert placed(source, target, links, demand(source, "dog", "toutou"), begun=len("Le ")) == "Le toutou voit ici."
    kept = (demand(source, "man", "chien"),)
    assert placed(source, target, links, demand(source, "dog", "toutou"), kept=kept) is None


def test_of_a_term_that_came_twice_the_one_that_lacks_is_written() -> None:
    source, target = "The dog sees the dog.", "Le toutou voit le chien."
    tokens, spans = TOKENIZER.spans(source)[1], demand(source, "dog", "toutou", count=2).spans
    engine = ScriptedEngine(TOKENIZER, {(source, target): {}})
    ids, targets = tuple(TOKENIZER.encode(source)), TOKENIZER.spans(target)[1]
    (attention,) = engine._rows.values()
    for word, (start, end) in zip(("toutou", "chien"), spans, strict=True):
        first = target.index(word)
        for row, (a, b) in enumerate(targets):
            if a < first + len(word) and b > first:
                attention[row] = [1.0 if x < end and y > start else 0.0 for x, y in tokens] + [0.0]
                attention[row] /= attention[row].sum()
    placer = TermPlacer(engine, (TOKENIZER, TOKENIZER), ("en", "fr"))
    asked = demand(source, "dog", "toutou", count=2)
    assert placer([Lacking(source, ids, target, (asked,))]) == ["Le toutou voit le toutou."]
    assert np.isclose(attention.sum(axis=1), 1).all()


@pytest.mark.parametrize(
    ("source", "word", "target", "old", "form", "expected"),
    [
        ("The box is there.", "box", "Kutuya sığmadı, kutuda.", "Kutuya", "sandık", "Sandıka sığmadı, kutuda."),
        ("The box is there.", "box", "Kutuya sığmadı, kutuda.", "kutuda", "araba", "Kutuya sığmadı, arabada."),
        ("The dog is here.", "dog", "Adam köpeği görüyor, köpeğe.", "köpeği", "it", "Adam iti görüyor, köpeğe."),
        ("The dog is here.", "dog", "Adam köpeği görüyor, köpeğe.", "köpeğe", "ev", "Adam köpeği görüyor, eve."),
    ],
)
def test_a_turkish_term_takes_over_the_suffixes(
    source: str, word: str, target: str, old: str, form: str, expected: str
) -> None:
    assert placed(source, target, {old: {word: 1.0}}, demand(source, word, form), language="tr") == expected


def test_neighbours_in_the_batch_change_nothing() -> None:
    pairs = {
        ("The dog is here.", "Le chien est ici."): {"chien": {"dog": 1.0}},
        ("The man sees the dog.", "L'homme voit le chien."): {"chien": {"dog": 1.0}, "L'homme": {"man": 0.5}},
        ("The box is there.", "Le coffret."): {},
    }
    engine = ScriptedEngine(TOKENIZER, pairs)
    placer = TermPlacer(engine, (TOKENIZER, TOKENIZER), ("en", "fr"))
    items = [
        Lacking(source, tuple(TOKENIZER.encode(source)), target, (demand(source, source.split()[1], "toutou"),))
        for source, target in pairs
    ]
    together = placer(items)
    assert together == [placer([item])[0] for item in items]
    assert together == ["Le toutou est ici.", "Le toutou voit le chien.", None]
    assert placer([]) == []
