"""The frame of a page: its policy, and user text that stays text."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.explain.report.inspection import seen

from dikkat.explain.pictures import PAGES, check_format
from dikkat.explain.report.html import card, folded, foreign, heading, page, paragraph, table, tiles
from dikkat_runtime.errors import UsageError

HOSTILE = '</p></bdi><script>alert(1)</script><img src=x onerror=alert(2)> \u202e right to left \0 " onload="x'


def test_user_text_is_inert_wherever_it_stands() -> None:
    parts = [
        heading(HOSTILE),
        paragraph(HOSTILE),
        foreign(HOSTILE, HOSTILE),
        tiles([(HOSTILE, HOSTILE)]),
        table([(HOSTILE, HOSTILE)]),
        card(HOSTILE, [(HOSTILE, foreign(HOSTILE))]),
        folded(HOSTILE, f"{HOSTILE}\n{HOSTILE}"),
    ]
    result = seen(page(HOSTILE, "en", parts))
    shown = HOSTILE.replace("\0", "·")
    assert result.text.count(shown) == 14
    assert result.named("bdi")[0] == {"dir": "auto", "lang": shown}


@pytest.mark.parametrize("scripts", [False, True])
def test_no_page_may_ask_for_anything(scripts: bool) -> None:
    result = seen(page("title", "tr", ["<p>x</p>"], scripts=scripts))
    (policy,) = [
        item["content"] for item in result.named("meta") if item.get("http-equiv") == "Content-Security-Policy"
    ]
    assert policy is not None
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
    assert rules["default-src"] == "'none'"
    assert rules["base-uri"] == rules["form-action"] == "'none'"
    assert ("script-src" in rules) is scripts
    assert not any(word in policy for word in ("http", "*", "data:", "unsafe-eval"))
    assert result.named("html") == [{"lang": "tr"}]
    assert {"name": "viewport", "content": "width=device-width, initial-scale=1"} in result.named("meta")


@pytest.mark.parametrize("name", ["report.pdf", "report", "report.html.gz"])
def test_a_page_has_the_suffix_of_one(name: str, tmp_path: Path) -> None:
    check_format(tmp_path / "report.HTML", PAGES)
    with pytest.raises(UsageError, match=r"is written as \.html or \.htm, not "):
        check_format(tmp_path / name, PAGES)
