"""The gallery's pictures are never older than the page that they show."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from tests.docs.pages import ROOT, broken_links
from tools.gallery import RECORD, SHOWN, hash_of, outdated


def test_the_pictures_show_the_page_of_today() -> None:
    assert outdated(ROOT, RECORD) == [], "take them anew with: python tools/gallery.py TRANSLATOR CLASSIFIER LM"


@pytest.mark.parametrize("name", ["gallery.md", "gallery.tr.md"])
def test_the_gallery_shows_each_picture(name: str) -> None:
    page = ROOT / "docs" / name
    text = page.read_text(encoding="utf-8")
    pictures = json.loads(RECORD.read_text(encoding="utf-8"))["pictures"]
    assert len(pictures) == 3
    assert [picture for picture in pictures if f"(images/{picture})" not in text] == []
    assert broken_links(page) == []


def test_a_changed_page_and_a_changed_picture_are_found(tmp_path: Path) -> None:
    for folder in SHOWN:
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    pictures = json.loads(RECORD.read_text(encoding="utf-8"))["pictures"]
    record = tmp_path / "gallery.json"
    for picture in pictures:
        shutil.copy(RECORD.with_name(picture), tmp_path)
    record.write_text(json.dumps({"page": hash_of(tmp_path), "pictures": pictures}), encoding="utf-8")
    assert outdated(tmp_path, record) == []
    first, second, third = sorted(pictures)
    (tmp_path / first).write_bytes(b"another")
    (tmp_path / third).unlink()
    assert outdated(tmp_path, record) == [first, third]
    style = tmp_path / SHOWN[1] / "page.css"
    style.write_text(style.read_text(encoding="utf-8") + "\n", encoding="utf-8")
    assert outdated(tmp_path, record) == [first, second, third]
