"""A translation that must hold a term or begin with something is held against the free one."""

from __future__ import annotations

import pytest
from tests.runtime.scripted_engine import Links, ScriptedEngine, tokenizer_of

from dikkat_runtime.tasks.demand_keeping import UNCOVERED, LossJudge, Rewritten, counts_differ
from dikkat_runtime.text.demanded import Demanded

SOURCE = "The man is tired today."
FREE = "L'homme est fatigué aujourd'hui."
DOG = "The dog did not eat."
TEXTS = [SOURCE, FREE, DOG, "Le chien n'a pas mangé.", "Le toutou n'a pas mangé.", "monsieur Il Ce matin"]
TOKENIZER = tokenizer_of(TEXTS)
MAN = Demanded(("monsieur",), 1, "term", "man", ((4, 7),))


@pytest.mark.parametrize(
    ("free", "text", "demands", "differ"),
    [
        (FREE, "Le monsieur est fatigué aujourd'hui.", (MAN,), True),  # another article is held for a loss
        ("Cet homme est fatigué.", "Cet monsieur est fatigué.", (MAN,), False),
        (FREE, "monsieur aujourd'hui.", (MAN,), True),
        ("Ce chien voit les canards.", "Ce monsieur voit les canards. monsieur.", (MAN,), False),
        ("Ce chien voit les canards.", "Ce tout le chien voit les canards. monsieur.", (MAN,), True),
        ("Ce chien voit les canards.", "Ce chien voit les canards monsieur.", (MAN,), True),
        ("Le chat dort bien ici.", "Il dort bien ici.", (), False),
        ("Le chat dort bien ici.", "Il dort ici.", (), True),
        ("Le chat dort bien.", "Le chat dort le chat dort bien.", (), True),
        ("Le chat dort bien.", "Aujourd'hui, le chat dort bien.", (), False),
    ],
)
def test_words_are_counted(free: str, text: str, demands: tuple[Demanded, ...], differ: bool) -> None:
    assert counts_differ(Rewritten(SOURCE, (5, 6), free, text, demands)) == differ


def loses(source: str, free: str, text: str, links: dict[str, Links], *demands: Demanded) -> bool:
    engine = ScriptedEngine(TOKENIZER, {(source, target): own for target, own in links.items()})
    judge = LossJudge(engine, (TOKENIZER, TOKENIZER), ("en", "fr"))
    (lost,) = judge([Rewritten(source, tuple(TOKENIZER.encode(source)), free, text, demands)])
    return lost


@pytest.mark.parametrize(("share", "is_lost"), [(1.0 - UNCOVERED + 0.05, False), (1.0 - UNCOVERED - 0.05, True)])
def test_a_source_word_at_which_nothing_looks_any_more_is_lost(share: float, is_lost: bool) -> None:
    text = "Il est fatigué aujourd'hui."
    free: Links = {"fatigué": {"tired": 1.0}}
    assert loses(SOURCE, FREE, text, {FREE: free, text: {"fatigué": {"tired": share}}}) == is_lost


def test_a_term_that_looks_elsewhere_took_the_position_of_another_word() -> None:
    free, text = "Le chien n'a pas mangé.", "Le toutou n'a pas mangé."
    asked = Demanded(("toutou",), 1, "term", "dog", ((4, 7),))
    right: Links = {"toutou": {"dog": 1.0}}
    wrong: Links = {"toutou": {"eat": 1.0}, "mangé": {"dog": 1.0}}
    before: Links = {"chien": {"dog": 1.0}}
    assert not loses(DOG, free, text, {free: before, text: right}, asked)
    assert loses(DOG, free, text, {free: before, text: wrong}, asked)


def test_equal_texts_are_not_read() -> None:
    engine = ScriptedEngine(TOKENIZER, {})
    judge = LossJudge(engine, (TOKENIZER, TOKENIZER), ("en", "fr"))
    assert judge([Rewritten(SOURCE, (5, 6), FREE, FREE)]) == [False]
    assert judge([]) == []
    assert engine.steps_taken == 0
