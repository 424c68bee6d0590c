"""Languages guessed from file names."""

from __future__ import annotations

import pytest

from dikkat.data.readers import languages_of


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (["train.en", "train.de"], ("en", "de")),
        (["data/train.en.gz", "data/train.de.gz"], ("en", "de")),
        (["a/train.lc.norm.tok.en.gz", "a/train.lc.norm.tok.fr.gz"], ("en", "fr")),
        (["en.txt", "tr.txt"], ("en", "tr")),
        (["europarl-v7.fr-en.en", "europarl-v7.fr-en.fr"], ("en", "fr")),
        (["train.src", "train.tgt"], ("", "")),
        (["train.en", "train.out"], ("en", "")),
        (["tatoeba/eng-fra.tsv.gz"], ("en", "fr")),
        (["eng-tur.tsv"], ("en", "tr")),
        (["train_en_pt.JSONL.gz"], ("en", "pt")),
        (["my.pairs.csv"], ("", "")),
        (["gettext:fr"], ("en", "fr")),
        (["gettext:pt_BR"], ("en", "pt_BR")),
        ([], ("", "")),
    ],
)
def test_languages_are_read_from_names(data: list[str], expected: tuple[str, str]) -> None:
    assert languages_of(data) == expected
