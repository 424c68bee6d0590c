"""The HTML file: whole, closed to the network, and with data that cannot become markup."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser

import pytest
from tests.system.sample_page import sample_page, sample_sentence

from dikkat.explain.page.document import _HERE, SCRIPTS, assemble
from dikkat_runtime.errors import UsageError

HOSTILE = "</script><script>alert(1)</script><!-- {{SCRIPT}} & <img src=x onerror=alert(1)> \u2028"


class Reader(HTMLParser):
    """Tags with their attributes, and the raw text inside of each `script` and `style`."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.raw: dict[str, list[str]] = {"script": [], "style": []}
        self._open = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag in self.raw:
            self.raw[tag].append("")
        self._open = tag

    def handle_endtag(self, tag: str) -> None:
        self._open = ""

    def handle_data(self, data: str) -> None:
        if self._open in self.raw:
            self.raw[self._open][-1] += data


def hash_of(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def test_the_policy_knows_this_script_and_this_style_alone() -> None:
    result = Reader(assemble(sample_page()))
    policy = next(str(item["content"]) for tag, item in result.tags if tag == "meta" and "http-equiv" in item)
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == "'none'"
    assert rules["script-src"] == hash_of(result.raw["script"][1])
    assert rules["style-src"] == hash_of(result.raw["style"][0])
    assert rules["base-uri"] == rules["form-action"] == "'none'"


def test_nothing_is_referred_to() -> None:
    html = assemble(sample_page())
    assert not any({"src", "srcset", "action", "style", "onclick"} & set(item) for _, item in Reader(html).tags)
    assert {item["href"] for _, item in Reader(html).tags if "href" in item} == {"#stage"}
    code = re.sub(r"http://www\.w3\.org/2000/svg", "", html)
    assert not re.search(r"https?://|url\(|@import|innerHTML|insertAdjacentHTML|document\.write|\beval\b", code)


def test_hostile_text_stays_in_the_data() -> None:
    plain, hostile = (
        Reader(assemble(sample_page(name, [sample_sentence((name, "<eos>"), ("<bos>", name, "<eos>"))])))
        for name in ("name", HOSTILE)
    )
    assert plain.tags == hostile.tags
    content = json.loads(hostile.raw["script"][0])
    assert content["name"] == content["sentences"][0]["source"]["tokens"][0] == HOSTILE


@pytest.mark.parametrize("language", ["en", "tr"])
def test_it_opens_in_the_language(language: str) -> None:
    assert Reader(assemble(sample_page(), language)).tags[0] == ("html", {"lang": language})


def test_another_language_is_refused() -> None:
    with pytest.raises(UsageError, match='a page speaks en or tr, not "fr"'):
        assemble(sample_page(), "fr")


def test_every_script_beside_the_page_is_in_it_and_is_short() -> None:
    assert {path.name for path in _HERE.glob("*.js")} == {*SCRIPTS, "start.js"}
    for name in (*SCRIPTS, "page.css"):
        assert (_HERE / name).read_text(encoding="utf-8").count("\n") <= 350


def test_a_page_holds_what_it_says_in_turkish() -> None:
    script = Reader(assemble(sample_page())).raw["script"][1]
    spoken = json.loads(re.findall(r"^const MESSAGES = (.*);$", script, re.MULTILINE)[0])["tr"]
    assert len(spoken) > 80
    assert spoken["Next sentence"] == "Sonraki cümle"
    assert "What follows" not in spoken, "that is said by a page that computes"
