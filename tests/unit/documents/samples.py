# ruff: noqa: E501, W291
"""One small file of each format, with every feature that its reader has a rule for."""

from __future__ import annotations

import io
import zipfile

from dikkat_runtime.documents.po import write_mo

PO = """\
# French translations for demo.
msgid ""
msgstr ""
"Project-Id-Version: demo 1.0\\n"
"Language: fr\\n"
"MIME-Version: 1.0\\n"
"Content-Type: text/plain; charset=UTF-8\\n"
"Content-Transfer-Encoding: 8bit\\n"
"Plural-Forms: nplurals=2; plural=(n > 1);\\n"

#. a comment
#: src/main.c:12
msgid "The small cat is sleeping."
msgstr ""

#: src/main.c:20
#, c-format
msgid "%s sees %d dogs.\\n"
msgstr ""

msgid "Done"
msgstr "Fait"

#, fuzzy, c-format
#| msgid "The dog sleeps"
msgid "The <b>big dog</b> sleeps in %s."
msgstr "Le chien dort"

#, c-format
msgid "%d dog"
msgid_plural "%d dogs"
msgstr[0] ""
msgstr[1] ""

msgid ""
"The cat is in the red house.\\n"
"The dog is in the garden and\\n"
"the cow is on the farm.\\n"
msgstr ""

msgctxt "menu"
msgid "_Open the door"
msgstr ""

#~ msgid "old"
#~ msgstr "vieux"
"""

XLIFF_1 = """\
<?xml version="1.0" encoding="UTF-8"?>
<!-- odd   spacing -->
<xliff version='1.2' xmlns="urn:oasis:names:tc:xliff:document:1.2">
 <file original="a.html"  source-language="en" target-language="fr" datatype="html">
  <body>
   <trans-unit id="1"   xml:space="preserve">
      <source>The small cat is sleeping in the <g id="1" ctype="bold">red&#160;house</g>.</source>
   </trans-unit>
   <trans-unit id="2"><source>Done &amp; dusted</source><target state="final">Fini</target></trans-unit>
   <trans-unit id="3" translate="no"><source>x</source></trans-unit>
   <trans-unit id="4"><source>Is <x id="1" equiv-text="{{name}}"/> in the big garden?<x id="2" ctype="lb"/>The dog sleeps.</source><target/></trans-unit>
   <trans-unit id="5"><source>The <bpt id="1">&lt;b></bpt>dog<ept id="1">&lt;/b></ept> sleeps.</source>
   <seg-source><mrk mtype="seg" mid="0">The <bpt id="1">&lt;b></bpt>dog<ept id="1">&lt;/b></ept> sleeps.</mrk></seg-source>
   <target><mrk mtype="seg" mid="0"></mrk></target>
   <alt-trans><target>Le chat</target></alt-trans></trans-unit>
  </body>
 </file>
</xliff>
"""

XLIFF_2 = """\
<xliff xmlns="urn:oasis:names:tc:xliff:document:2.0" version="2.1" srcLang="en" trgLang="fr">
<file id="f1"><unit id="u1">
 <originalData><data id="d1">&lt;b></data></originalData>
 <segment id="s1"><source>The <pc id="1" dataRefStart="d1">big dog</pc> sleeps.</source></segment>
 <ignorable><source> </source></ignorable>
 <segment state="initial" id='s2'>
   <source>The <sc id="2"/>cow<ec startRef="2"/> drinks <ph id="3" disp="%s"/>.</source>
   <target></target>
 </segment>
 <segment state="final"><source>Yes</source><target>Oui</target></segment>
</unit></file></xliff>
"""

TMX = """\
<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE tmx SYSTEM "tmx14.dtd">
<tmx version="1.4"><header srclang="en-US" segtype="sentence" o-tmf="x" adminlang="en" creationtool="t" creationtoolversion="1" datatype="html"/>
<body>
  <tu tuid="1">
    <tuv xml:lang="en-US"><seg>The <bpt i="1">&lt;b></bpt>big dog<ept i="1">&lt;/b></ept> sleeps.</seg></tuv>
  </tu>
  <tu tuid="2" creationdate="20200101T000000Z">
    <note>The note stays.</note>
    <tuv xml:lang="EN-us">
      <seg>The cat &amp; the cow<ph x="1">&lt;br/&gt;</ph>sleep
        in the <hi>garden</hi>.</seg>
    </tuv>
    <tuv xml:lang="de"><seg>Die Katze</seg></tuv>
  </tu>
  <tu><tuv xml:lang="en"><prop type="x">p</prop><seg>See {name} at http://example.org/a?b=1.</seg></tuv></tu>
  <tu><tuv xml:lang="en-US"><seg>Yes</seg></tuv><tuv xml:lang="fr-FR"><seg>Oui</seg></tuv></tu>
</body></tmx>
"""

SRT = """\
1
00:00:01,000 --> 00:00:03,000
The small cat is sleeping
in the house

2
00:00:03,200 --> 00:00:05,000
near the <i>big hospital</i>.

3
00:00:08,000 --> 00:00:10,000
{\\an8}- Where are the elephants?
- Look at us!

4
00:00:11,000 --> 00:00:12,000
♪

5
00:00:12,000 --> 00:00:15,000
The seven farmers are tired because they danced.
"""

VTT = """\
WEBVTT - t

NOTE The dog sleeps

STYLE
::cue { color: red }

intro
00:01.000 --> 00:03.000 align:start
<v Paul>The <b>small cat</b> is sleeping &amp; the dog is very young.

00:04.000 --> 00:05.000
The dog
"""

MARKDOWN = """\
---
title: The small cat
layout: post
tags: [dog, cat]
---
# The red house

The **big dog** sleeps in the [red house](http://x.org/a_b "t") and the
cat eats `the soup` in
the garden.  
Is the cat *very* young?

> The cow is on the farm.
> The dog is in the garden.

- The dog sleeps.
- [x] The cat sleeps
  in the house.

    The cow sleeps.

1. The bird
2. snake_case and 2 * 3

```python
the_dog = "sleeps"
```

    The dog code

| The dog | The cat |
|---------|:-------:|
| sleeps  | `eats` the soup \\| x |

![The dog](a.png)

[ref]: http://x.org "The dog"

The [ref] dog sleeps in [the house][ref]. See <http://x.org> and \\*star\\*.[^1]

[^1]: The dog sleeps.

The dog
=======

<div align="center">
The dog sleeps
</div>
"""

HTML = """\
<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>The small cat</title>
<style>p > a { color: red }</style><script>if (1 < 2) document.write("<p>The dog</p>");</script></head>
<body class=x>
<p>The <b>big dog</b> sleeps&nbsp;in the <a href="x.html?a=1&b=2" title="The red house">red house</a>.<br>
   Is the cat <em>very</em> young?</p>
<ul><li>A cow<li>The farm &amp; the garden</ul>
<img src="a.png" alt="The small bird">
<p>The dog eats <code>x < 1</code> in the garden. <span translate="no">The cow</span></p>
<pre>The dog
 sleeps</pre>
<div translate="no"><p>The dog sleeps.</p></div>
<input placeholder="The name" value="The cat"><input type=submit value="The cat">
<!-- The dog sleeps -->
</body></html>
"""

CSV = """\
id;source;target
1;"The dog; sleeps";
2;The cat sleeps.;Oui
3;The cow is big.
"""

TSV = """\
The dog sleeps.\tx
The cat\ty
"""

JSON_LINES = """\
{"id": 1, "text": "The dog sleeps.", "m": {"text": [1, "}"]}}
{"text":"The \\"cat\\" is \\u00e9 big","translation":""}
"""

_WORD = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main" xmlns:r="http://r"'
WORD_BODY = f"""\
<?xml version="1.0" encoding="UTF-8" standalone="yes"?>
<w:document {_WORD}><w:body>
<w:p w:rsidR="00A"><w:pPr><w:pStyle w:val="Heading1"/></w:pPr><w:r><w:t>The small cat</w:t></w:r></w:p>
<w:p><w:r w:rsidR="1"><w:t xml:space="preserve">The </w:t></w:r><w:proofErr w:type="spellStart"/>\
<w:r><w:rPr><w:b/></w:rPr><w:t xml:space="preserve">big </w:t></w:r><w:r><w:rPr><w:b/></w:rPr><w:t>dog</w:t></w:r>\
<w:r><w:t xml:space="preserve"> sleeps in the </w:t></w:r><w:hyperlink r:id="rId4"><w:r><w:rPr><w:u/></w:rPr>\
<w:t>red house</w:t></w:r></w:hyperlink><w:r><w:t>.</w:t></w:r><w:r><w:footnoteReference w:id="1"/></w:r></w:p>
<w:p><w:r><w:t>See </w:t></w:r><w:r><w:fldChar w:fldCharType="begin"/></w:r><w:r><w:instrText> PAGE </w:instrText>\
</w:r><w:r><w:fldChar w:fldCharType="end"/></w:r><w:r><w:t xml:space="preserve"> in the garden.</w:t><w:br/>\
<w:t>The cow sleeps.</w:t></w:r></w:p>
<w:p/><w:tbl><w:tr><w:tc><w:p><w:r><w:t>The bird &amp; the cow</w:t></w:r></w:p></w:tc></w:tr></w:tbl>
</w:body></w:document>
"""


def word_document(body: str | bytes = WORD_BODY, **more: bytes) -> bytes:
    """A `.docx` of this body; `more` entries by their names, a slash written as two underscores."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("[Content_Types].xml", "<Types/>")
        archive.writestr("word/document.xml", body)
        archive.writestr("word/media/image.png", b"\x89PNG\0\xff")
        for name, content in more.items():
            archive.writestr(name.replace("__", "/"), content)
    return target.getvalue()


def compiled_catalog() -> bytes:
    """A `.mo` with a translated message, one that is not, and a plural."""
    header = "Content-Type: text/plain; charset=UTF-8\nPlural-Forms: nplurals=2; plural=(n != 1);\n"
    return write_mo(
        {
            b"": header.encode(),
            b"The dog sleeps.": b"",
            b"menu\4_Open": "_Aç".encode(),
            b"%d dog\0%d dogs": b"%d dog\0",
        }
    )
