"""Documents that try to take more time or memory than their size: each grows to any number of bytes."""

from __future__ import annotations

from collections.abc import Iterator

from tests.unit.documents.hostile_pages import fragments, markdown, markdown_blocks, pages
from tests.unit.documents.hostile_texts import (
    CUE,
    TEXTS,
    WRAPPED,
    Case,
    case,
    cells,
    chapter,
    memories,
    memory,
    nested,
    open_text,
    paragraph,
    repeated,
    slide,
    unit,
    unit_2,
    units,
    units_2,
    utf8,
    web,
    word,
)


def _subtitles() -> Iterator[Case]:
    for name in ("a.srt", "a.vtt"):
        wrapped = web if name == "a.vtt" else utf8
        yield case(name, "digits first", repeated("9", "", "\n00:00:01,000 --> 00:00:02,000\na dog\n"), wrapped)
        yield case(name, "spaces first", repeated(" ", "1", "2\n00:00:01,000 --> 00:00:02,000\na dog\n"), wrapped)
        yield case(name, "lone returns", repeated("a\r", CUE + "a\n"), wrapped)
        yield case(name, "long line with a return", repeated("a", CUE + "a\n", "\rb"), wrapped)
        yield case(name, "cues", repeated("\n00:00:01,000 --> 00:00:01,000\na dog\n"), wrapped)
        yield case(name, "cues of pairs", repeated("\n00:00:01,000 --> 00:00:01,000\n<i>a</i> dog\n"), wrapped)
        yield case(
            name,
            "pair over cues",
            repeated(
                "\n00:00:01,000 --> 00:00:01,000\nbig dog\n",
                "\n00:00:01,000 --> 00:00:01,000\n<i>a\n",
                "\n00:00:01,000 --> 00:00:01,000\na</i>\n",
            ),
            wrapped,
        )
        yield case(name, "voices", repeated("<v ", CUE), wrapped)
        yield case(name, "voices of classes", repeated("<v.a", CUE), wrapped)
        yield case(name, "times in a cue", repeated("<00:01>", CUE + "a"), wrapped)
        yield case(name, "times", repeated("00:00:01,000 --> 00:00:02,000\n", CUE), wrapped)
        yield case(name, "arrows", repeated("-->", CUE), wrapped)
        yield case(name, "speakers", repeated("<a>", CUE + "a\n", "a"), wrapped)
        yield case(name, "spaces at a time", repeated(" ", "00:00:01,000", "\n" + CUE + "a dog\n"), wrapped)
        yield case(name, "lines", repeated("a\n", CUE), wrapped)


def _bilingual_xml() -> Iterator[Case]:
    for name, wrapped in (("a.xlf", unit), ("a.2.xlf", unit_2), ("a.tmx", memory)):
        yield case(name, "nested", nested('<g id="1">', "</g>"), wrapped)
        yield case(name, "nested with words", nested('<g id="1">a ', "</g>"), wrapped)
        yield case(name, "pairs", repeated('<g id="1">a</g> '), wrapped)
        yield case(name, "void", repeated("<x/> dog "), wrapped)
        yield case(name, "void alone", repeated("<x/>", "a", "b"), wrapped)
        yield case(name, "halves never closed", nested('<bx id="{n}"/>', '<ex id="x"/>'), wrapped)
        yield case(
            name,
            "halves crossing",
            lambda size: (
                "".join(f'<bx id="{k}"/>' for k in range(size // 30))
                + "a dog"
                + "".join(f'<ex id="{k}"/>' for k in range(size // 30))
            ),
            wrapped,
        )
        yield case(name, "placeholders", repeated('<ph id="1">x</ph>', "a "), wrapped)
        yield case(name, "placeholders nested", nested("<ph>", "</ph>"), wrapped)
        yield case(name, "cdata", repeated("<![CDATA[a]]>"), wrapped)
        yield case(name, "comments", repeated("<!---->", "a dog"), wrapped)
        yield case(name, "attributes", repeated(' a{n}=""', "<g", "/>a dog"), wrapped)
        yield case(name, "spaces in a tag", repeated(" ", "<g", "/>a dog"), wrapped)
        yield case(name, "references", repeated("&#160;", "a dog"), wrapped)
        yield case(name, "locked", repeated('<mrk mtype="x" translate="no">a</mrk> '), wrapped)
        yield case(name, "breaks", repeated('a <x ctype="lb"/>'), wrapped)


def _units() -> Iterator[Case]:
    yield case("a.xlf", "units", repeated('<trans-unit id="{n}"><source>a</source></trans-unit>'), units)
    yield case("a.xlf", "units of one id", repeated('<trans-unit id="1"><source>a</source></trans-unit>'), units)
    yield case("a.xlf", "nested units", nested('<trans-unit id="1"><source>a', "</source></trans-unit>"), units)
    yield case(
        "a.xlf",
        "nested groups",
        nested("<group>", "</group>", '<trans-unit id="1"><source>a</source></trans-unit>'),
        units,
    )
    yield case(
        "a.xlf",
        "nested marks",
        nested('<mrk mtype="seg" mid="1">', "</mrk>", "a"),
        lambda t: units(
            f'<trans-unit id="1"><source>a</source><seg-source>{t}</seg-source>'
            f"<target>{t.replace('a</', '</')}</target></trans-unit>"
        ),
    )
    yield case(
        "a.xlf",
        "marks",
        repeated('<mrk mtype="seg" mid="{n}">a</mrk>'),
        lambda t: units(
            f'<trans-unit id="1"><source>a</source><seg-source>{t}</seg-source>'
            f"<target>{t.replace('>a<', '><')}</target></trans-unit>"
        ),
    )
    yield case(
        "a.xlf",
        "spaces in a target",
        repeated(" "),
        lambda t: units(f'<trans-unit id="1"><source>a</source><target{t}state="new"></target></trans-unit>'),
    )
    yield case(
        "a.xlf",
        "spaces in an empty target",
        repeated(" "),
        lambda t: units(f'<trans-unit id="1"><source>a</source><target a="{t}"/></trans-unit>'),
    )
    yield case("a.xlf", "comments before", repeated("<!---->", "", '<xliff version="1.2"/>'))
    yield case("a.html", "comments before nothing", repeated("<!---->", "", "<p>a dog</p>"))
    yield case(
        "a.2.xlf",
        "segments",
        repeated("<segment><source>a</source></segment>"),
        lambda t: units_2(f'<unit id="1">{t}</unit>'),
    )
    yield case("a.2.xlf", "nested units", nested("<unit><segment><source>a", "</source></segment></unit>"), units_2)
    yield case("a.tmx", "units", repeated('<tu><tuv xml:lang="en"><seg>a</seg></tuv></tu>'), memories)
    yield case(
        "a.tmx",
        "languages",
        repeated('<tuv xml:lang="x{n}"><seg>a</seg></tuv>'),
        lambda t: memories(f'<tu>{t}<tuv xml:lang="en-x"><seg>a</seg></tuv></tu>'),
    )
    yield case("a.tmx", "nested units", nested('<tu><tuv xml:lang="en"><seg>a', "</seg></tuv></tu>"), memories)


def _catalogs() -> Iterator[Case]:
    yield case("a.po", "messages", repeated('msgid "a{n}"\nmsgstr ""\n\n'))
    yield case("a.po", "strings", repeated('"a"\n', 'msgid ""\n', 'msgstr ""\n'))
    yield case("a.po", "empty strings", repeated('""\n', 'msgid "a"\n', 'msgstr ""\n'))
    yield case("a.po", "strings with comments", repeated('"a"\n#\n', 'msgid ""\n', 'msgstr ""\n'))
    yield case("a.po", "spaces", repeated(" ", "msgid", "x\n"))
    yield case("a.po", "spaces between", repeated('" ', "msgid", "x\n"))
    yield case("a.po", "flags", repeated(",a", "#", '\nmsgid "a"\nmsgstr ""\n'))
    yield case("a.po", "lines of flags", repeated("#, a\n", "", 'msgid "a"\nmsgstr ""\n'))
    yield case("a.po", "comments", repeated("#\n", "", 'msgid "a"\nmsgstr ""\n'))
    yield case("a.po", "breaks", repeated("a\\n", 'msgid "', '"\nmsgstr ""\n'))
    yield case("a.po", "directives", repeated("%d dog ", '#, c-format\nmsgid "', '"\nmsgstr ""\n'))
    yield case("a.po", "python zeros", repeated("0", '#, python-format\nmsgid "dog %', '"\nmsgstr ""\n'))
    yield case("a.po", "brace format", repeated("{a} dog ", '#, python-brace-format\nmsgid "', '"\nmsgstr ""\n'))
    yield case("a.po", "headers", repeated('msgid ""\nmsgstr "nplurals=2; plural=(n!={n});"\n\n'))
    yield case(
        "a.po",
        "plurals",
        repeated(
            'msgid "a dog"\nmsgid_plural "dogs{n}"\nmsgstr[0] ""\n\n',
            'msgid ""\nmsgstr "nplurals=99; plural=(n!=1);"\n\n',
        ),
    )
    yield case("a.po", "language", repeated("_a", 'msgid ""\nmsgstr "Language: en', '!\\n"\n\nmsgid "a"\nmsgstr ""\n'))
    yield case(
        "a.po",
        "spaces in the rule",
        repeated(" ", 'msgid ""\nmsgstr "nplurals=2; plural=', ';\\n"\n\nmsgid "a"\nmsgstr ""\n'),
    )


def _word_documents() -> Iterator[Case]:
    yield case("a.docx", "nested paragraphs", nested("<w:p>", "</w:p>", "<w:r><w:t>a dog</w:t></w:r>"), word)
    yield case("a.docx", "nested paragraphs with text", nested("<w:p><w:r><w:t>a</w:t></w:r>", "</w:p>", ""), word)
    yield case(
        "a.docx", "few nested paragraphs", repeated("<w:p>" * 8 + "<w:r><w:t>a</w:t></w:r>" + "</w:p>" * 8), word
    )
    yield case(
        "a.docx", "nested links", nested("<w:hyperlink>", "</w:hyperlink>", "<w:r><w:t>a dog</w:t></w:r>"), paragraph
    )
    yield case("a.docx", "nested boxes", nested("<w:p><w:sdt><w:r><w:t>a</w:t></w:r></w:sdt>", "</w:p>", ""), word)
    yield case("a.docx", "paragraphs", repeated("<w:p><w:r><w:t>a</w:t></w:r></w:p>"), word)
    yield case("a.docx", "runs", repeated("<w:r><w:t>a</w:t></w:r>"), paragraph)
    yield case(
        "a.docx", "styles", repeated("<w:r><w:t>a</w:t></w:r><w:r><w:rPr><w:b/></w:rPr><w:t>b</w:t></w:r>"), paragraph
    )
    yield case("a.docx", "many styles", repeated('<w:r><w:rPr><w:s v="{n}"/></w:rPr><w:t>b </w:t></w:r>'), paragraph)
    yield case("a.docx", "breaks", repeated("<w:r><w:t>a</w:t><w:br/></w:r>"), paragraph)
    yield case(
        "a.docx",
        "fields",
        repeated('<w:r><w:fldChar w:fldCharType="begin"/></w:r>', "<w:r><w:t>a</w:t></w:r>"),
        paragraph,
    )
    yield case(
        "a.docx",
        "fields that begin",
        repeated(
            '<w:r><w:t>a</w:t></w:r><w:r><w:fldChar w:fldCharType="begin"/></w:r>'
            '<w:r><w:fldChar w:fldCharType="end"/></w:r>'
        ),
        paragraph,
    )
    yield case("a.docx", "empty runs", repeated("<w:r/>", "<w:r><w:t>a</w:t></w:r>"), paragraph)
    yield case(
        "a.docx", "tags between", repeated("<w:x/>", "<w:r><w:t>a</w:t></w:r>", "<w:r><w:t>a</w:t></w:r>"), paragraph
    )
    yield case("a.docx", "bookmarks", repeated("<w:x/><w:r><w:t>a </w:t></w:r>"), paragraph)


def _tables() -> Iterator[Case]:
    yield case("a.csv", "rows", repeated("a,b\n", "text,b\n"))
    yield case("a.csv", "columns", repeated(",a", "text"))
    yield case("a.csv", "quotes", repeated('"x,""', "text,b\n"))
    yield case("a.csv", "quotes in the head", repeated('"a""', "text,"))
    yield case("a.csv", "quotes alone", repeated('"', "text\n"))
    yield case("a.csv", "quotes at commas", repeated(',"', "text"))
    yield case("a.csv", "open quotes", repeated('"a,', "text\n"))
    yield case("a.tsv", "rows", repeated("a\tb\n", "text\tb\n"))
    yield case("a.jsonl", "lines", repeated('{"text": "a"}\n'))
    yield case("a.jsonl", "keys", repeated('"a{n}": 1, ', '{"text": "a", ', '"b": 1}'))
    yield case("a.jsonl", "arrays", repeated("[], ", '{"text": "a", "b": [', "[]]}"))
    yield case("a.jsonl", "nested arrays", nested("[", "]", ""), lambda t: f'{{"text": "a", "b": {t}}}'.encode())
    yield case("text", "lines", repeated("a\n"))
    yield case("text", "lines of spaces", repeated(" \n"))


def _app_strings() -> Iterator[Case]:
    yield case("a.json", "members", repeated('"k{n}": "a dog", ', "{", '"z": ""}'))
    yield case("a.json", "plural forms", repeated('"k{n}_one": "a", "k{n}_other": "b", ', "{", '"z": ""}'))
    yield case("a.json", "objects", repeated('{"a": {"b": "a dog"}}, ', "[", "0]"))
    yield case("a.json", "nested arrays", nested("[", "]", '"a dog"'))
    yield case("a.json", "open code", repeated("<code>", '{"a": "dog ', '"}'))
    yield case("a.json", "blocks", repeated("<p>", '{"a": "dog ', '"}'))
    yield case("a.json", "closed and opened", repeated("</p><b ", '{"a": "dog ', '"}'))
    yield case("a.yaml", "members", repeated("k{n}: a dog\n"))
    yield case("a.yaml", "plural forms", repeated("k{n}:\n  one: a dog\n  other: dogs\n"))
    yield case("a.yaml", "items", repeated("- 'a dog'\n"))
    yield case("a.yaml", "nested", nested("[", "]", "a dog"))
    yield case("a.yaml", "block", repeated("  a dog\n", "a: |\n"))
    yield case("a.yaml", "folded", repeated("  a dog\n\n", "a: >\n"))
    yield case("a.yaml", "plain lines", repeated("  a dog\n", "a: b\n"))
    yield case("a.yaml", "flow", repeated("a: b, ", "{", "c: d}"))
    yield case("a.yaml", "anchors", repeated("- &a{n} a dog\n- *a{n}\n"))
    yield case("a.properties", "lines", repeated("k{n}=a dog\n"))
    yield case("a.properties", "continued", repeated("a \\\n", "k="))
    yield case("a.properties", "escapes", repeated("\\u0041", "k=a "))
    yield case("a.properties", "key", repeated("\\ ", "", "=a"))
    yield case("a.strings", "entries", repeated('"k{n}" = "a dog";\n'))
    yield case("a.strings", "comments before a sign", repeated("/**/", '"a" ', '= "b";'))
    yield case("a.strings", "open comments", repeated("/*", '"a" = "b";'))
    yield case(
        "a.xml",
        "plurals",
        repeated('<item quantity="other">a dog</item>'),
        lambda t: f"<resources><plurals>{t}</plurals></resources>".encode(),
    )
    yield case(
        "a.xml",
        "strings",
        repeated("<string name='a{n}'>a <b>dog</b></string>"),
        lambda t: f"<resources>{t}</resources>".encode(),
    )
    yield case(
        "a.xml", "nested", nested("<b>", "</b>"), lambda t: f"<resources><string>{t}</string></resources>".encode()
    )
    yield case(
        "a.stringsdict",
        "forms",
        repeated("<dict><key>one</key><string>a</string><key>other</key><string>a dog</string></dict>"),
        lambda t: f"<plist>{t}</plist>".encode(),
    )
    yield case("a.tex", "paragraphs", repeated("A dog.\n\n"))
    yield case("a.tex", "commands", repeated("\\a{b} dog "))
    yield case("a.tex", "options", repeated("[a", "\\a"))
    yield case("a.tex", "open mathematics", repeated("$a ", "dog "))
    yield case("a.tex", "open equations", repeated("\\begin{equation} a "))
    yield case("a.tex", "formats", repeated("\\emph{a} dog "))
    yield case("a.tex", "nested formats", nested("\\emph{a ", "}"))
    yield case("a.tex", "nested notes", nested("\\footnote{a ", "}"))
    yield case("a.tex", "accents", repeated("\\'e"))
    yield case("a.tex", "comments", repeated("a % b\n"))
    yield case("a.tex", "open braces", repeated("{", "dog "))


def _archives() -> Iterator[Case]:
    yield case("a.pptx", "runs", repeated("<a:r><a:t>a</a:t></a:r>"), slide)
    yield case("a.pptx", "breaks", repeated("<a:r><a:t>a</a:t></a:r><a:br/>"), slide)
    yield case("a.xlsx", "strings", repeated("<si><t>a dog</t></si>"), cells)
    yield case("a.xlsx", "runs", repeated("<r><rPr><b v='{n}'/></rPr><t>a </t></r>", "<si>", "</si>"), cells)
    yield case("a.odt", "paragraphs", repeated("<text:p>a dog</text:p>"), open_text)
    yield case("a.odt", "spans", repeated("<text:span>a</text:span> ", "<text:p>", "</text:p>"), open_text)
    yield case(
        "a.odt", "boxes", repeated("<draw:frame><text:p>a</text:p></draw:frame>", "<text:p>a ", "</text:p>"), open_text
    )
    yield case(
        "a.odt", "few nested boxes", repeated("<text:p>a<draw:frame>" * 7 + "</draw:frame></text:p>" * 7), open_text
    )
    yield case("a.epub", "paragraphs", repeated("<p>a <b>dog</b></p>"), chapter)
    yield case(
        "a.docx",
        "boxes",
        repeated("<w:r><w:x><w:p><w:r><w:t>a</w:t></w:r></w:p></w:x></w:r>", "<w:r><w:t>a</w:t></w:r>"),
        paragraph,
    )


def _streams() -> Iterator[Case]:
    yield case(
        "xlf stream",
        "marks",
        repeated('<mrk mtype="seg" mid="{n}">a</mrk>'),
        lambda t: units(
            f'<trans-unit id="1"><source>a</source><seg-source>{t}</seg-source><target>{t}</target></trans-unit>'
        ),
    )
    yield case(
        "xlf stream",
        "nested marks",
        nested('<mrk mtype="seg" mid="1">', "</mrk>", "a"),
        lambda t: units(
            f'<trans-unit id="1"><source>a</source><seg-source>{t}</seg-source><target>{t}</target></trans-unit>'
        ),
    )
    yield case("xlf stream", "nested", nested('<g id="1">', "</g>"), unit)
    yield case("xlf stream", "nested units", nested('<trans-unit id="1"><source>a', "</source></trans-unit>"), units)
    yield case("xlf stream", "attribute", repeated("a", "<g a='", "'/>"), unit)
    yield case("xlf stream", "comment", repeated("a", "<!--", "-->"), unit)
    yield case(
        "tmx stream",
        "languages",
        repeated('<tuv xml:lang="x{n}"><seg>a</seg></tuv>'),
        lambda t: memories(f'<tu>{t}<tuv xml:lang="en-x"><seg>a</seg></tuv></tu>'),
    )
    yield case(
        "po stream", "language", repeated("_a", 'msgid ""\nmsgstr "Language: en', '!\\n"\n\nmsgid "a"\nmsgstr ""\n')
    )


CASES: list[Case] = [
    *(case(name, shape, grown, wrapped) for name, wrapped in WRAPPED.items() for shape, grown in TEXTS.items()),
    *_subtitles(),
    *_bilingual_xml(),
    *_units(),
    *_catalogs(),
    *pages(),
    *fragments(),
    *markdown(),
    *markdown_blocks(),
    *_word_documents(),
    *_tables(),
    *_app_strings(),
    *_archives(),
    *_streams(),
]
