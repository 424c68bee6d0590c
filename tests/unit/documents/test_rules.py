"""What each format asks of a translation, and what a translator expects of it."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
import zipfile
from io import BytesIO

import pytest
from tests.unit.documents import samples
from tests.unit.documents.stand_ins import ENGLISH_FRENCH, in_order, in_reverse, reversing, shouting

from dikkat_runtime.documents.documents import TranslatedDocument, translate_document
from dikkat_runtime.documents.po import parse_mo
from dikkat_runtime.documents.segments import Options


def shouted(text: str | bytes, name: str, options: Options = ENGLISH_FRENCH) -> str:
    return _translated(text, name, options).data.decode()


def _translated(text: str | bytes, name: str, options: Options = ENGLISH_FRENCH) -> TranslatedDocument:
    data = text.encode() if isinstance(text, str) else text
    return translate_document(data, name, shouting, align=in_order, options=options)


def turned(text: str, name: str) -> str:
    """A document whose sentences are reversed word by word."""
    return translate_document(text.encode(), name, reversing, align=in_reverse, options=ENGLISH_FRENCH).data.decode()


HEADER = 'msgid ""\nmsgstr ""\n"Content-Type: text/plain; charset=UTF-8\\n"\n"Plural-Forms: {rule}\\n"\n\n'
TWO = HEADER.format(rule="nplurals=2; plural=(n > 1);")


def test_po_marks_what_it_translates_and_leaves_the_rest() -> None:
    document = _translated(samples.PO, "a.po")
    written = document.data.decode()
    assert '#, fuzzy\nmsgid "The small cat is sleeping."\nmsgstr "THE SMALL CAT IS SLEEPING."' in written
    assert 'msgid "Done"\nmsgstr "Fait"' in written
    assert '#~ msgid "old"\n#~ msgstr "vieux"' in written
    assert '#, fuzzy, c-format\n#| msgid "The dog sleeps"' in written
    assert 'msgstr "THE <b>BIG DOG</b> SLEEPS IN %s."' in written
    assert 'msgctxt "menu"\nmsgid "_Open the door"\nmsgstr "_OPEN THE DOOR"' in written
    assert document.remarks["messages that are translated already"] == 1


@pytest.mark.parametrize(
    ("rule", "forms"),
    [
        ("nplurals=1; plural=0;", ["%d DOGS"]),
        ("nplurals=2; plural=(n > 1);", ["%d DOG", "%d DOGS"]),
        ("nplurals=3; plural=(n==1 ? 0 : n<5 ? 1 : 2);", ["%d DOG", "%d DOGS", "%d DOGS"]),
        ("nplurals=2; plural=(n==1);", ["%d DOGS", "%d DOG"]),
    ],
)
def test_po_writes_all_forms_of_its_own_rule(rule: str, forms: list[str]) -> None:
    message = '#, c-format\nmsgid "%d dog"\nmsgid_plural "%d dogs"\nmsgstr[0] ""\n'
    written = shouted(HEADER.format(rule=rule) + message, "a.po")
    assert written.endswith("\n".join(f'msgstr[{number}] "{form}"' for number, form in enumerate(forms)) + "\n")


def test_po_leaves_plurals_that_gettext_would_refuse_and_counts_them() -> None:
    message = 'msgid "%d dog"\nmsgid_plural "%d dogs"\nmsgstr[0] ""\nmsgstr[1] ""\n'
    document = _translated(HEADER.format(rule="nplurals=INTEGER; plural=EXPRESSION;") + message, "a.po")
    assert document.data.decode().endswith(message)
    assert [what for what in document.remarks if "rule for plural forms" in what]
    uneven = message.replace("dogs", "dogs\\n")
    document = _translated(TWO + uneven, "a.po")
    assert document.data.decode().endswith(uneven)
    assert [what for what in document.remarks if "line breaks" in what]


def test_po_is_read_as_gettext_reads_it() -> None:
    """Strings on lines of their own, behind empty lines and comments."""
    message = 'msgctxt\n"menu"\n\n# note\nmsgid "The dog "\n\n"sleeps"\nmsgstr\n""\n'
    written = shouted(TWO + message, "a.po")
    expected = '#, fuzzy\nmsgctxt\n"menu"\n\n# note\nmsgid "The dog "\n\n"sleeps"\nmsgstr\n""\n"THE DOG SLEEPS"\n'
    assert written == TWO + expected


def test_a_shortcut_key_is_no_entity_and_in_no_directive() -> None:
    message = '#, c-format\nmsgid "{text}"\nmsgstr ""\n'
    assert 'msgstr "DOG &AMP; CAT"' in shouted(TWO + message.format(text="dog &amp; cat"), "a.po")
    assert 'msgstr "%s _DOG"' in shouted(TWO + message.format(text="%s _dog"), "a.po")


def test_po_keeps_the_line_breaks_at_both_ends() -> None:
    assert 'msgstr "\\nTHE DOG.\\n"' in shouted(TWO + 'msgid "\\nThe dog.\\n"\nmsgstr ""\n', "a.po")


def test_po_numbers_directives_whose_order_changes() -> None:
    message = '#, c-format\nmsgid "%s sees %d dogs"\nmsgstr ""\n'
    assert 'msgstr "dogs %2$d sees %1$s"' in turned(TWO + message, "a.po")


def test_po_in_another_charset_stays_in_it() -> None:
    text = TWO.replace("UTF-8", "ISO-8859-9") + '# açıklama ş\nmsgid "dog ı"\nmsgstr ""\n'
    written = _translated(text.encode("iso-8859-9"), "a.po").data.decode("iso-8859-9")
    assert "# açıklama ş" in written
    assert 'msgstr "DOG I"' in written


def test_mo_is_written_sorted_and_whole() -> None:
    _, messages = parse_mo(_translated(samples.compiled_catalog(), "a.mo").data)
    assert messages[b"The dog sleeps."] == b"THE DOG SLEEPS."
    assert messages[b"menu\4_Open"] == "_Aç".encode()
    assert messages[b"%d dog\0%d dogs"] == b"%d DOG\0%d DOGS"
    assert list(messages) == sorted(messages)


def test_a_catalog_without_anything_to_translate_is_the_same() -> None:
    data = _translated(samples.compiled_catalog(), "a.mo").data
    assert _translated(data, "a.mo").data == data


def test_xliff_is_marked_for_review_and_never_touches_what_is_done() -> None:
    written = shouted(samples.XLIFF_1, "a.xlf")
    ElementTree.fromstring(written)
    machine = '<target state="needs-review-translation" state-qualifier="leveraged-mt">'
    assert f'{machine}THE SMALL CAT IS SLEEPING IN THE <g id="1" ctype="bold">RED\u00a0HOUSE</g>.</target>' in written
    assert '<target state="final">Fini</target>' in written
    assert '<trans-unit id="3" translate="no"><source>x</source></trans-unit>' in written
    assert "<alt-trans><target>Le chat</target></alt-trans>" in written
    assert '<mrk mtype="seg" mid="0">THE <bpt id="1">&lt;b></bpt>DOG<ept id="1">&lt;/b></ept> SLEEPS.</mrk>' in written
    assert "approved" not in written


def test_xliff_2_says_what_a_machine_made() -> None:
    written = shouted(samples.XLIFF_2, "b.xlf")
    ElementTree.fromstring(written)
    assert '<segment id="s1" state="translated" subState="mt:unreviewed">' in written
    assert '<target>THE <pc id="1" dataRefStart="d1">BIG DOG</pc> SLEEPS.</target>' in written
    assert '<target>THE <sc id="2"/>COW<ec startRef="2"/> DRINKS <ph id="3" disp="%s"/>.</target>' in written
    assert '<segment state="final"><source>Yes</source><target>Oui</target></segment>' in written


def test_sdlxliff_leaves_segments_that_are_locked() -> None:
    text = (
        '<xliff version="1.2" xmlns:sdl="http://sdl.com/FileTypes/SdlXliff/1.0"><file source-language="en"><body>'
        '<trans-unit id="1"><source>The dog. The cat.</source><seg-source><mrk mtype="seg" mid="1">The dog.</mrk> '
        '<mrk mtype="seg" mid="2">The cat.</mrk></seg-source><target><mrk mtype="seg" mid="1"/> '
        '<mrk mtype="seg" mid="2"></mrk></target><sdl:seg-defs><sdl:seg id="1"/><sdl:seg id="2" locked="true"/>'
        "</sdl:seg-defs></trans-unit></body></file></xliff>"
    )
    written = shouted(text, "a.sdlxliff")
    assert '<mrk mtype="seg" mid="1">THE DOG.</mrk> <mrk mtype="seg" mid="2"></mrk></target>' in written


def test_a_unit_whose_id_stands_twice_is_counted() -> None:
    unit = '<trans-unit id="1"><source>The dog</source></trans-unit>'
    document = _translated(f'<xliff version="1.2"><file><body>{unit}{unit}</body></file></xliff>', "a.xlf")
    assert document.remarks["units whose id occurs twice in their file"] == 1
    assert document.num_segments == 2


def test_tmx_gets_the_language_that_a_unit_lacks() -> None:
    written = shouted(samples.TMX, "a.tmx")
    ElementTree.fromstring(written)
    assert (
        '<tuv xml:lang="fr-FR" creationid="dikkat"><seg>THE <bpt i="1">&lt;b></bpt>BIG DOG<ept i="1">&lt;/b></ept>'
        " SLEEPS.</seg></tuv>" in written
    )
    assert '<tuv xml:lang="fr-FR"><seg>Oui</seg></tuv></tu>' in written
    assert "SEE {name} AT http://example.org/a?b=1." in written


def test_tags_that_are_text_of_a_unit_stay() -> None:
    source = "The &lt;b class='x'&gt;big dog&lt;/b&gt;&lt;br/&gt; runs."
    unit = f'<trans-unit id="1"><source>{source}</source></trans-unit>'
    wanted = source.replace("The", "THE").replace("big dog", "BIG DOG").replace("runs", "RUNS")
    for text in (source, "<![CDATA[The <b class='x'>big dog</b><br/> runs.]]>"):
        written = shouted(
            f'<xliff version="1.2"><file><body>{unit.replace(source, text)}</body></file></xliff>', "a.xlf"
        )
        assert f"{wanted}</target>" in written
    memory = '<tmx version="1.4"><header/><body><tu><tuv xml:lang="en"><seg>{}</seg></tuv></tu></body></tmx>'
    assert f"<seg>{wanted}</seg>" in shouted(memory.format(source), "a.tmx")
    empty = memory.format("").replace("<seg></seg>", "<seg/>")
    assert shouted(empty, "a.tmx") == empty


def test_tmx_in_utf_16_stays_in_it() -> None:
    text = samples.TMX.replace("UTF-8", "UTF-16")
    written = _translated(text.encode("utf-16"), "a.tmx").data
    assert written[:2] == text.encode("utf-16")[:2]
    assert "BIG DOG" in written.decode("utf-16")


def test_illegal_characters_stay_and_are_counted() -> None:
    document = _translated(samples.TMX.replace("The note stays", "The \x01 note&#x2; stays"), "a.tmx")
    assert "The \x01 note&#x2; stays" in document.data.decode()
    assert [count for what, count in document.remarks.items() if "control characters" in what] == [2]


def test_a_sentence_over_two_cues_is_one_and_cut_again() -> None:
    written = shouted(samples.SRT, "a.srt")
    assert "\nTHE SMALL CAT IS SLEEPING IN THE HOUSE\n\n2\n" in written
    assert "\nNEAR THE <i>BIG HOSPITAL</i>.\n\n3\n" in written
    assert "{\\an8}- WHERE ARE THE ELEPHANTS?\n- LOOK AT US!\n" in written
    assert "\nTHE SEVEN FARMERS ARE\nTIRED BECAUSE THEY DANCED.\n" in written


def test_no_line_of_a_cue_is_longer_than_needed() -> None:
    cue = "1\n00:00:01,000 --> 00:00:09,000\n" + "The small cat sleeps near the big hospital in the old town.\n"
    lines = shouted(cue, "a.srt").split("\n")[2:-1]
    assert len(lines) == 2
    assert max(map(len, lines)) <= 42


def test_vtt_keeps_voices_notes_and_references() -> None:
    written = shouted(samples.VTT, "a.vtt")
    assert "NOTE The dog sleeps" in written
    assert "<v Paul>THE <b>SMALL CAT</b> IS SLEEPING\n&amp; THE DOG IS VERY YOUNG." in written


def test_markdown_keeps_code_addresses_and_front_matter() -> None:
    written = shouted(samples.MARKDOWN, "a.md")
    assert written.startswith("---\ntitle: THE SMALL CAT\nlayout: post\ntags: [dog, cat]\n---\n# THE RED HOUSE\n")
    assert 'THE **BIG DOG** SLEEPS IN THE [RED HOUSE](http://x.org/a_b "t") AND THE\nCAT EATS `the soup` IN' in written
    assert "THE GARDEN.  \nIS THE CAT *VERY* YOUNG?" in written
    assert "> THE COW IS ON THE FARM.\n> THE DOG IS IN THE GARDEN." in written
    assert '```python\nthe_dog = "sleeps"\n```\n\n    The dog code\n' in written
    assert "| SLEEPS  | `eats` THE SOUP \\| X |" in written
    assert "THE [ref] DOG SLEEPS IN [THE HOUSE][ref]. SEE <http://x.org> AND \\*STAR\\*.[^1]" in written
    assert '[ref]: http://x.org "The dog"' in written
    assert '<div align="center">\nThe dog sleeps\n</div>' in written


def test_markdown_is_not_made_of_what_a_model_writes() -> None:
    def writes_marks(texts: list[str]) -> list[str]:
        return ["# 1 *star* [x] `y`" for _ in texts]

    written = translate_document(b"The dog sleeps.\n", "a.md", writes_marks, options=ENGLISH_FRENCH).data  # type: ignore[arg-type]
    assert written == b"\\# 1 \\*star\\* \\[x\\] \\`y\\`\n"


def test_html_translates_what_is_read_and_nothing_else() -> None:
    written = shouted(samples.HTML, "a.html")
    assert '<html lang="fr">' in written
    assert (
        '<p>THE <b>BIG DOG</b> SLEEPS&nbsp;IN THE <a href="x.html?a=1&b=2" title="THE RED HOUSE">RED HOUSE</a>.<br>'
        in written
    )
    assert "<ul><li>A COW<li>THE FARM &amp; THE GARDEN</ul>" in written
    assert '<img src="a.png" alt="THE SMALL BIRD">' in written
    assert 'EATS <code>x < 1</code> IN THE GARDEN. <span translate="no">The cow</span></p>' in written
    assert "<pre>The dog\n sleeps</pre>" in written
    assert '<div translate="no"><p>The dog sleeps.</p></div>' in written
    assert '<input placeholder="THE NAME" value="The cat"><input type=submit value="THE CAT">' in written
    assert 'document.write("<p>The dog</p>")' in written


def test_word_documents_keep_their_formats_fields_and_other_entries() -> None:
    before = samples.word_document()
    after = _translated(before, "a.docx").data
    with zipfile.ZipFile(BytesIO(before)) as one, zipfile.ZipFile(BytesIO(after)) as other:
        assert one.namelist() == other.namelist()
        for name in one.namelist():
            assert name == "word/document.xml" or one.read(name) == other.read(name)
        written = other.read("word/document.xml").decode()
    ElementTree.fromstring(written)
    text = '<w:t xml:space="preserve">'
    assert f"<w:r><w:rPr><w:b/></w:rPr>{text}BIG DOG</w:t></w:r>" in written
    assert f'<w:hyperlink r:id="rId4"><w:r><w:rPr><w:u/></w:rPr>{text}RED HOUSE</w:t></w:r></w:hyperlink>' in written
    assert '<w:r><w:footnoteReference w:id="1"/></w:r></w:p>' in written
    assert '<w:r><w:instrText> PAGE </w:instrText></w:r><w:r><w:fldChar w:fldCharType="end"/></w:r>' in written
    assert f"<w:r><w:br/></w:r><w:r>{text}THE COW SLEEPS.</w:t></w:r>" in written
    assert "THE BIRD &amp; THE COW" in written


def test_tables_get_a_column_where_none_is_named() -> None:
    assert shouted("The dog\tx\n12\ty\n", "a.tsv") == "The dog\tx\tTHE DOG\n12\ty\t12\n"
    assert shouted('id;text\n1;"The dog; big"\n', "a.csv") == 'id;text;translation\n1;"The dog; big";"THE DOG; BIG"\n'
    assert shouted(samples.CSV, "a.csv").split("\n")[1:4] == [
        '1;"The dog; sleeps";"THE DOG; SLEEPS"', "2;The cat sleeps.;Oui", "3;The cow is big.;THE COW IS BIG."
    ]  # fmt: skip
    assert shouted("The dog\tx\n", "a.tsv", Options(source_column="1", target_column="1")) == "THE DOG\tx\n"


def test_json_lines_get_a_key_where_none_is_named() -> None:
    assert shouted('{"text": "A dog", "n": [1, {"text": "x"}]}\n', "a.jsonl") == (
        '{"text": "A dog", "n": [1, {"text": "x"}], "translation": "A DOG"}\n'
    )
