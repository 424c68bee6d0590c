"""Pages, fragments and Markdown that try to take more time than their size."""

from __future__ import annotations

from collections.abc import Iterator

from tests.unit.documents.hostile_texts import Case, case, nested, repeated


def pages() -> Iterator[Case]:
    """Yield pages whose tags, attributes and comments never end, or end in any order."""
    yield case("a.html", "images", repeated('<img alt="a dog">'))
    yield case("a.html", "attributes", repeated(' value="a"', '<input type="button"', ">"))
    yield case("a.html", "meta", repeated(' content="a dog"', '<meta name="keywords"', ">"))
    yield case("a.html", "names of attributes", repeated(" a", "<p", ">a dog</p>"))
    yield case("a.html", "spaces in a tag", repeated(" ", "<p a", ">a dog</p>"))
    yield case("a.html", "quotes in tags", repeated('<a" ">', "", "a dog"))
    yield case("a.html", "single quotes in tags", repeated("<a' '>", "", "a dog"))
    yield case("a.html", "open quotes", repeated('<a "', "", ">"))
    yield case("a.html", "comments", repeated("<!--", "", "-->a dog"))
    yield case("a.html", "open comments", repeated("<!--", "a dog"))
    yield case("a.html", "declarations", repeated("<!", "a dog", ">"))
    yield case("a.html", "ends", repeated("</", "a dog", ">"))
    yield case("a.html", "ends of names", repeated("</a", "a dog", ">"))
    yield case("a.html", "titles", repeated("<title>", "a dog", ""))
    yield case("a.html", "scripts", repeated("<script>", "a dog", "</script>"))
    yield case("a.html", "closed scripts", repeated("<script></script>", "a dog"))
    yield case("a.html", "references", repeated("&#{n}1;<b>a</b>"))
    yield case("a.html", "ignored", nested('<b translate="no">', "</b>"))
    yield case("a.html", "never ending ignored", repeated('<b translate="no">', "a dog"))
    yield case("a.html", "crossing", repeated("<b><i>a</b></i>"))
    yield case("a.html", "blocks", repeated("<p>a"))
    yield case("a.html", "closings", repeated("</b>", "<i><u>a", "dog"))
    yield case("a.html", "lists", nested("<ul><li>a", "</ul>"))
    yield case("a.html", "charset", repeated("<meta", "", ">a dog"))


def fragments() -> Iterator[Case]:
    """Yield pieces of HTML and XML of clients."""
    for name in ("fragment.xml", "fragment.html"):
        yield case(name, "nested", nested("<a>", "</a>"))
        yield case(name, "nested with words", nested("<a>b ", "</a>"))
        yield case(name, "comments", repeated("<!--", "", "-->a dog"))
        yield case(name, "open comments", repeated("<!--", "a dog"))
        yield case(name, "instructions", repeated("<?", "", "?>a dog"))
        yield case(name, "cdata", repeated("<![CDATA[", "", "]]>a dog"))
        yield case(name, "quotes in tags", repeated('<a" ">', "", "a dog"))
        yield case(name, "open quotes", repeated('<a "', "", ">"))
        yield case(name, "document types", repeated("<!DOCTYPE [", "a dog", "]>"))
        yield case(name, "crossing", repeated("<b><i>a</b></i>"))
        yield case(name, "blocks", repeated("<p>a</p>"))
        yield case(name, "not translated", nested('<p translate="no">', "</p>"))
        yield case(name, "closings", repeated("</b>", "<i><u>a", "dog"))
        yield case(name, "spaces in tags", repeated(" ", "<p translate", ">a dog</p>"))


def markdown() -> Iterator[Case]:
    """Yield texts of marks that never close."""
    yield case("a.md", "delimiters", repeated("_a*b "))
    yield case("a.md", "delimiters alone", repeated("*a "))
    yield case("a.md", "emphasis", repeated("**a** "))
    yield case("a.md", "ticks", repeated("`a "))
    yield case("a.md", "growing ticks", lambda size: "".join("`" * k + "a" for k in range(1, int((2 * size) ** 0.5))))
    yield case("a.md", "code", repeated("`a` "))
    yield case("a.md", "bangs", repeated("![", "", "]"))
    yield case("a.md", "open bangs", repeated("![a", ""))
    yield case("a.md", "images", repeated("![a](b) "))
    yield case("a.md", "links", repeated("[a](b) "))
    yield case("a.md", "open links", repeated("[a](", ""))
    yield case("a.md", "links of spaces", repeated(" ", "[a](b", "x"))
    yield case("a.md", "titles", repeated('[a](b "', ""))
    yield case("a.md", "references", repeated("[a][b] "))
    yield case("a.md", "shortcuts", repeated("[a] ", "", "\n\n[a]: b\n"))
    yield case("a.md", "nested references", nested("[", "]", "a dog"))
    yield case("a.md", "footnotes", repeated("[^", "dog "))
    yield case("a.md", "footnotes closed", repeated("[^a]", "dog "))
    yield case("a.md", "comments", repeated("<!--", "dog "))
    yield case("a.md", "comments closed", repeated("<!-- --> ", "dog "))
    yield case("a.md", "automatic links", repeated("<a:", "dog "))
    yield case("a.md", "mail", repeated("<a@", "dog "))
    yield case("a.md", "math", repeated("$a ", "dog "))
    yield case("a.md", "tags", repeated("<b>a</b> ", "dog "))
    yield case("a.md", "quotes", repeated("> ", "", "dog"))
    yield case("a.md", "lines of quotes", lambda size: "\n".join(">" * 100 + "a" for _ in range(size // 102)))


def markdown_blocks() -> Iterator[Case]:
    """Yield lines that may begin, or not, another block."""
    yield case("a.md", "heading", repeated(" ", "# a", "b"))
    yield case("a.md", "headings", repeated("# a #", "# "))
    yield case("a.md", "lines of headings", repeated("# a\n"))
    yield case("a.md", "table", repeated("|a", "", "\n|-|-|\n|a|b|"))
    yield case("a.md", "rows", repeated("|a|b|\n", "|a|b|\n|-|-|\n"))
    yield case("a.md", "delimiter row", repeated(" ", "|a|b|\n|-", "x\n"))
    yield case("a.md", "delimiter cells", repeated("-|", "|a|b|\n|", "x\n"))
    yield case("a.md", "cells of ticks", repeated("`|", "|a|b|\n|-|-|\n"))
    yield case("a.md", "front matter", repeated(" ", "---\ntitle: a", "b\n---\na dog\n"))
    yield case("a.md", "lines", repeated("a\n"))
    yield case("a.md", "hard lines", repeated("a  \n"))
    yield case("a.md", "backslash lines", repeated("a\\\n"))
    yield case("a.md", "backslashes alone", repeated("\\\n", "a\n"))
    yield case("a.md", "fences", repeated("```\n~~~\n"))
    yield case("a.md", "open fences", repeated("~~~~a\n"))
    yield case("a.md", "blocks of HTML", repeated("<div>\n"))
    yield case("a.md", "comments of HTML", repeated("<!--\n\n"))
    yield case("a.md", "lists", repeated("- a\n"))
    yield case("a.md", "nested lists", lambda size: "\n".join("  " * k + "- a" for k in range(int(size**0.5))))
    yield case("a.md", "rule", repeated("- ", "", "a"))
    yield case("a.md", "definitions", repeated("[a{n}]: b\n", "a dog\n\n"))
    yield case("a.md", "escapes", repeated("\\*", "dog "))
    yield case("a.md", "entities", repeated("&amp;", "dog "))
