"""Pairs that say "tu" or "vous": which is which, and the mark that a translator learns."""

from __future__ import annotations

import pytest

from dikkat.data.pairs import Pair
from dikkat.tasks.translation.formality import addressed


@pytest.mark.parametrize(
    ("language", "target", "formality"),
    [
        ("fr", "Où vas-tu ?", "less"),
        ("fr", "Je t’aime.", "less"),
        ("fr", "Je vous aime.", "more"),
        ("fr", "Votre chat dort.", "more"),
        ("fr", "Tu vois ? Vous voyez ?", None),
        ("fr", "Le têtu a tout vu.", None),
        ("de", "Hast du Zeit?", "less"),
        ("de", "Können Sie mir helfen?", "more"),
        ("de", "Ist das Ihr Hund?", "more"),
        ("de", "Sie schläft. Sie lacht.", None),
        ("de", "Weiß sie, wo ihre Katze ist?", None),
        ("tr", "Sen nereye gidiyorsun?", "less"),
        ("tr", "Bunu sana verdim.", "less"),
        ("tr", "Size bir şey soracağım.", "more"),
        ("tr", "Senet burada.", None),
    ],
)
def test_a_pair_that_addresses_somebody_is_marked_by_its_pronouns(
    language: str, target: str, formality: str | None
) -> None:
    mark = {"more": ">>formal<< ", "less": ">>informal<< "}
    expected = [] if formality is None else [(formality, Pair(mark[formality] + "You there.", target, 7))]
    assert list(addressed([Pair("You there.", target, 7, (0, 1))], language)) == expected
