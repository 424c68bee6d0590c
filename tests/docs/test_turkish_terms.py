"""Turkish texts call each concept by the one name that docs/TERMS.tr.md promises: pages, catalogs and lessons."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.docs.pages import ROOT

from dikkat_runtime.localization import read_entries

TERMS = ROOT / "docs" / "TERMS.tr.md"
PAGES = sorted(path for path in [*ROOT.glob("*.tr.md"), *(ROOT / "docs").rglob("*.tr.md")] if path != TERMS)
CATALOGS = sorted(path for folder in ("src", "runtime/src") for path in (ROOT / folder).rglob("locale/tr/**/*.po"))
LESSONS = sorted((ROOT / "src" / "dikkat" / "web" / "lessons").glob("*.json"))

OTHER_NAMES = {
    "bias": r"sapmasız|\+ sapma|önyargı",
    "cell": r"(?:bir|herhangi bir) göz(?:ü|ünü)?\b",
    "checkpoint": r"(?:kayıt|kontrol) noktası",
    "confusion matrix": r"karışıklık matrisi|karmaşıklık matrisi",
    "corpus": r"korpus|bütünce",
    "decoder": r"(?<!kod)çözücü|kod çözücü",
    "dropout": r"hattan düş|iletim sönümü",
    "embedding": r"gömülüm|gömüt",
    "encoder": r"\bkodlama ağı|\benkoder",
    "epoch": r"\bepok\b",
    "feed-forward network": r"ileriye besleme(?:li)?",
    "frequency": r"sıklıklarla|sütunların sıklığı",
    "hard": r"(?<!\d )(?<!} )(?<!iki )\b(?:sert|katı)\b",
    "head": r"çok başlı|dikkat başlığı",
    "image": r"\bimge",
    "layer normalization": r"katman (?:normalizasyonu|düzgelemesi)",
    "learning rate": r"öğrenme (?:hızı|katsayısı)",
    "mark": r"\bim(?:i|inden|iyle|ler)?\b(?!-)",
    "noun": r"\bisim(?:leri|lere|ler)?\b|\bism(?:i|e|in|ine)\b",
    "optimizer": r"optimize|optimizasyon|iyileştirici",
    "pooling": r"havuz",
    "positional encoding": r"pozitif kodlama|pozisyonel|konum kodlaması",
    "recurrence": r"özyine",
    "residual connection": r"kalıntı bağlantı|artakalan",
    "run": r"\bçalıştırmanın\b",
    "self-attention": r"kendine dikkat|öz dikkat|öz-dikkat",
    "sentence": r"\btümce",
    "stack": r"yığıt|blokların yığını|iki yığın\b|derin bir yığın",
    "teacher forcing": r"öğretmen zorla",
    "token": r"\bjeton|\bsimgecik",
    "Transformer": r"\btransformatör",
    "translator": r"\bçevirici",
    "validation": r"geçerleme",
    "vocabulary": r"söz varlığı|kelime dağarcığı|sözlüğün(?! t)\b|\bsözlükleri|sözlüğü var",
    "word": r"\bkelime",
}
"""Names that a text may not use for a concept, whose own name stands in the table, as patterns of small letters."""


def text_of(path: Path) -> str:
    """Return what a reader sees of a file; of a catalog its translations, of a page nothing that is code."""
    if path.suffix == ".po":
        return "\n".join(spoken for _, spoken in read_entries(path))
    text = path.read_text(encoding="utf-8")
    return re.sub(r"^```.*?^```$|`[^`\n]*`", "", text, flags=re.MULTILINE | re.DOTALL) if path.suffix == ".md" else text


def other_names(text: str) -> list[str]:
    """Return each use of another name, with the concept before it."""
    small = text.replace("İ", "i").replace("I", "ı").lower()
    return [
        f"{concept}: {found[0]} in “{small[max(0, found.start() - 30) : found.end() + 30]}”"
        for concept, pattern in OTHER_NAMES.items()
        for found in re.finditer(pattern, small)
    ]


@pytest.mark.parametrize("path", [*PAGES, *CATALOGS, *LESSONS], ids=lambda path: str(path.relative_to(ROOT)))
def test_a_turkish_text_has_one_name_for_each_concept(path: Path) -> None:
    assert other_names(text_of(path)) == []


def test_every_concept_with_other_names_stands_in_the_table_and_has_one_row() -> None:
    rows = re.findall(r"^\| ([^|]+) \| ([^|]+) \|$", TERMS.read_text(encoding="utf-8"), re.MULTILINE)[1:]
    english = [re.sub(r" \(.*\)", "", name).split(", ") for name, _ in rows]
    named = [name for names in english for name in names]
    assert len(named) == len(set(named))
    assert set(OTHER_NAMES) <= {*named, *(name.split(" ")[0] for name in named)}
    assert other_names("\n".join(turkish for _, turkish in rows)) == [], "the promised names are not forbidden"


def test_another_name_is_found() -> None:
    for text in ("Hattan düşürme", "katı dikkat", "kod çözücü", "sıfatı çözücü okur", "Özyineleme", "iki yığın"):
        assert other_names(text), text
    assert other_names("kodçözücü, seyreltme, keskin dikkat, yineleme, bir yığında, sözlüğün tamamı") == []
