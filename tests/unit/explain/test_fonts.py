"""Pictures are drawn with fonts that have their characters, or one line says what to install."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest
from fontTools.fontBuilder import FontBuilder
from fontTools.pens.ttGlyphPen import TTGlyphPen
from matplotlib import font_manager

from dikkat.explain import pictures
from dikkat.explain.attention_map import AttentionMap
from dikkat.explain.pictures import choose_families, debian_package, missing_note
from dikkat.explain.plots import plot_confusion, plot_heads, plot_points, plot_training, plot_words

COVERED = "İstanbul’da ğüşöçı Ελλάδα Жизнь سلام שלום 😀"
"""By the font that comes with matplotlib."""
HAN = "我"


@pytest.fixture(autouse=True)
def bundled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """No fonts but those of matplotlib, whatever this machine has; the list is what the system has installed since."""
    ours = [font for font in font_manager.fontManager.ttflist if "mpl-data" in font.fname]
    monkeypatch.setattr(font_manager.fontManager, "ttflist", ours)
    installed: list[str] = []
    monkeypatch.setattr(font_manager, "findSystemFonts", lambda: installed)
    return installed


def font_of(path: Path, family: str, character: str) -> str:
    """A font file of one glyph, a full square."""
    builder = FontBuilder(1000, isTTF=True)
    builder.setupGlyphOrder([".notdef", "square"])
    builder.setupCharacterMap({ord(character): "square"})
    pen = TTGlyphPen(None)
    pen.moveTo((0, 0))
    for corner in ((0, 900), (900, 900), (900, 0)):
        pen.lineTo(corner)
    pen.closePath()
    builder.setupGlyf({".notdef": TTGlyphPen(None).glyph(), "square": pen.glyph()})
    builder.setupHorizontalMetrics({".notdef": (1000, 0), "square": (1000, 0)})
    builder.setupHorizontalHeader(ascent=900, descent=-100)
    builder.setupNameTable({"familyName": family, "styleName": "Regular"})
    builder.setupOS2(usWeightClass=400)
    builder.setupPost()
    builder.save(path)
    return str(path)


def test_the_default_font_is_enough_where_it_has_all() -> None:
    assert choose_families(COVERED.replace(" ", "")) == (["DejaVu Sans"], set())


def test_a_font_that_was_installed_later_is_found(bundled: list[str], tmp_path: Path) -> None:
    assert choose_families({HAN, "a"}) == (["DejaVu Sans"], {HAN})
    bundled.append(font_of(tmp_path / "han.ttf", "One Han", HAN))
    assert choose_families({HAN, "a"}) == (["DejaVu Sans", "One Han"], set())
    assert choose_families({HAN, "द"}) == (["DejaVu Sans", "One Han"], {"द"})


def test_what_is_no_font_is_passed_over(bundled: list[str], tmp_path: Path) -> None:
    (tmp_path / "broken.ttf").write_bytes(b"no font")
    bundled += [str(tmp_path / "broken.ttf"), font_of(tmp_path / "han.ttf", "One Han", HAN)]
    assert choose_families({HAN}) == (["DejaVu Sans", "One Han"], set())


@pytest.mark.parametrize(
    ("characters", "package"),
    [
        ("我語。、ですカ한국ａ（", "fonts-noto-cjk"),
        ("नम्িไทยሰ", "fonts-noto-core"),
        ("🎉👍🦊", "fonts-symbola"),
    ],
)
def test_the_package_that_has_a_character(characters: str, package: str) -> None:
    assert {debian_package(character) for character in characters} == {package}


def test_the_note_is_one_line_with_every_package() -> None:
    assert missing_note({HAN, "द", "🎉"}) == (
        "no installed font has द 我 🎉;"
        " install one (on Debian: apt-get install fonts-noto-cjk fonts-noto-core fonts-symbola) and draw it again"
    )
    assert missing_note(map(chr, range(0x4E00, 0x4F00))).startswith("no installed font has 一 丁 丂 七 丄 丅 丆 万 …; ")


def draw_all(folder: Path, text: str) -> list[Path]:
    """A picture of each kind that shows a user's text."""
    paths = [folder / f"{name}.png" for name in ("heads", "training", "points", "confusion", "words")]
    weights = np.full((1, 1), 1.0, np.float32)
    plot_heads([AttentionMap(weights, (text,), (text,), "encoder", 0, 0, "self")], paths[0], text)
    plot_training([{"step": 1, "train_loss": 1.0}, {"step": 2, "train_loss": 0.5}], paths[1], text)
    plot_points(np.array([[0.0, 0.0], [1.0, 1.0]]), [text, "b"], paths[2], text)
    plot_confusion([text, "b"], np.array([[1, 0], [0, 1]]), paths[3])
    plot_words([text, "b"], np.array([1.0, -1.0]), np.array([0.5, 0.5]), paths[4], text)
    return paths


def test_no_picture_warns_and_each_says_what_is_missing(
    bundled: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        paths = draw_all(tmp_path, HAN)
        hint = f"no installed font has {HAN}; install one (on Debian: apt-get install fonts-noto-cjk) and draw it again"
        assert capsys.readouterr().err == "".join(f"{path}: {hint}\n" for path in paths)
        without = [path.read_bytes() for path in paths]
        bundled.append(font_of(tmp_path / "han.ttf", "One Han", HAN))
        draw_all(tmp_path, HAN)
        draw_all(tmp_path, COVERED)
    assert capsys.readouterr() == ("", "")
    assert all(path.read_bytes() != before for path, before in zip(paths, without, strict=True))


@pytest.mark.parametrize("text", ["", " \t\n\u202e\u200f\u200d\ufe0f \ud800 a\u0301 $x$ \\frac{"])
def test_marks_that_are_not_drawn_need_no_font(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    draw_all(tmp_path, text)
    assert capsys.readouterr().err == ""


def test_fonts_for_chinese_japanese_and_korean_come_first_only_where_needed() -> None:
    names = ["Zen Hei", "Noto Sans CJK JP", "Noto Sans CJK SC", "Noto Sans Devanagari", "Noto Serif CJK JP"]

    def ranked(characters: str) -> list[str]:
        return sorted(names, key=lambda name: pictures._rank(name, pictures._cjk_region(set(characters))))

    assert ranked("我")[0] == "Noto Sans CJK SC"
    assert ranked("我で")[:2] == ["Noto Sans CJK JP", "Noto Serif CJK JP"]
    assert ranked("द")[:2] == ["Noto Sans Devanagari", "Zen Hei"]
