"""In no page and no drawing does a user's text become markup, whatever it is and wherever it stands.

The page with a hostile text has the very elements and attributes that it has with a harmless one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from tests.system.sample_page import sample_page, sample_sentence
from tests.unit.explain.payloads import PAYLOADS
from tests.unit.explain.report.test_run_page import ROWS, facts
from tests.unit.models.small import config

from dikkat.explain.attention_map import AttentionMap
from dikkat.explain.drawing.chart import small_map
from dikkat.explain.drawing.model_drawing import draw_model
from dikkat.explain.drawing.outline import Outline, outline_of_config
from dikkat.explain.page.document import assemble
from dikkat.explain.plots import plot_points
from dikkat.explain.report.facts import ScoredSentence
from dikkat.explain.report.run_page import Followed, Look, report_page, watch_page


@cache
def outline() -> Outline:
    # not while collecting: the first tensor of the device "meta" loads PyTorch's compiler
    return outline_of_config(config(), "model")


def cross(text: str) -> AttentionMap:
    return AttentionMap(np.eye(2, 2, dtype=np.float32), ("<bos>", text), (text, "<eos>"), "decoder", 0, None, "cross")


def attend_page(text: str) -> str:
    return assemble(sample_page(text, [sample_sentence((text, "<eos>"), ("<bos>", text, "<eos>"))]))


def report(text: str) -> str:
    data = replace(facts().data, files=(text,), left_out={text: 7}, longest=(text, text))
    held_out = replace(facts().held_out, lines=(text,), worst=(ScoredSentence(text, text, text, 3.0),))
    run = replace(facts(), name=text, languages=(text, text), data=data, held_out=held_out, card=text, settings=text)
    return report_page(replace(run, browser="page"), "en")


def watch(text: str) -> str:
    followed = [Followed(text, text, ((ROWS[0], Look(text, cross(text))),))]
    return watch_page(text, text, ROWS[:2], followed, running=True)


def model_drawing(text: str) -> str:
    return draw_model(replace(outline(), title=text))


PAGES: dict[str, Callable[[str], str]] = {"attend": attend_page, "report": report, "watch": watch}
DRAWINGS: dict[str, Callable[[str], str]] = {"model": model_drawing, "map": lambda text: small_map(cross(text))}


class Markup(HTMLParser):
    """Tags with the names of their attributes, comments and declarations; never the text between them."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, ...]] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, *(name for name, _ in attrs)))

    def handle_endtag(self, tag: str) -> None:
        self.found.append((f"/{tag}",))

    def handle_comment(self, data: str) -> None:
        self.found.append(("comment", data))

    def handle_pi(self, data: str) -> None:
        self.found.append(("instruction", data))

    def unknown_decl(self, data: str) -> None:
        self.found.append(("declaration", data))


def markup(page: str) -> list[tuple[str, ...]]:
    # how many lines of a drawing a text takes is not what is asked here
    return [item for item in Markup(page).found if item[0] not in ("tspan", "/tspan")]


@pytest.fixture(scope="module")
def harmless() -> dict[str, list[tuple[str, ...]]]:
    """The markup of every page and drawing with a text of one letter."""
    return {name: markup(make("a")) for name, make in (PAGES | DRAWINGS).items()}


def text_of_first_token(page: str) -> str:
    data = re.search(r'<script[^>]*id="data"[^>]*>(.*?)</script>', page, re.DOTALL)
    assert data
    token: str = json.loads(data[1])["sentences"][0]["source"]["tokens"][0]
    return token


def test_there_are_two_hundred() -> None:
    assert len(PAYLOADS) >= 200


@pytest.mark.parametrize(
    "text",
    # every third by day
    [pytest.param(text, id=f"{n}", marks=[pytest.mark.nightly] * (n % 3 > 0)) for n, text in enumerate(PAYLOADS)],
)
def test_a_text_never_becomes_markup(text: str, harmless: dict[str, list[tuple[str, ...]]]) -> None:
    for name, make in PAGES.items():
        page = make(text)
        assert markup(page) == harmless[name], name
        page.encode("utf-8")
        if name == "attend":
            assert text_of_first_token(page) == text
        controls = set(page) & {*map(chr, range(32)), "\x7f"}
        assert controls <= {"\n"}, name
    for name, make in DRAWINGS.items():
        drawing = make(text)
        ElementTree.fromstring(drawing)
        assert markup(drawing) == harmless[name], name


def test_a_picture_of_all_of_them_has_no_markup_of_theirs(tmp_path: Path) -> None:
    path = tmp_path / "all.svg"
    plot_points(np.random.default_rng(0).normal(size=(len(PAYLOADS), 2)), PAYLOADS, path, "".join(PAYLOADS[:9]))
    root = ElementTree.fromstring(path.read_bytes())
    assert not {"script", "image", "a", "foreignObject"} & {item.tag.rpartition("}")[2] for item in root.iter()}
    assert not [name for item in root.iter() for name in item.attrib if name.startswith("on")]
