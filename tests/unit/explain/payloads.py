"""Two hundred texts that would rather be something else: markup, script, template, other directions, controls."""

from __future__ import annotations

_SCRIPTS = [
    "<script>alert(1)</script>", "</script><script>alert(1)</script>", "<ScRiPt>alert(1)</sCrIpT>",
    "<script src=//x.example/a.js></script>", "</script >", "</script\t\n foo>", "<script/x>alert(1)</script>",
    "<script>alert(1)//", "<<script>alert(1)//<</script>", "<script type=module>import'//x'</script>",
    "javascript:alert(1)", "data:text/html,<script>alert(1)</script>", "vbscript:msgbox(1)", "';alert(1)//",
    '";alert(1)//', "`;alert(1)//", "</title><script>alert(1)</script>", "--><script>alert(1)</script>",
    "]]><script>alert(1)</script>", "\\u003c/script\\u003e", "\\x3cscript\\x3e", "<\0script>alert(1)</script>",
]  # fmt: skip
_MARKUP = [
    "<img src=x onerror=alert(1)>", '"><img src=x onerror=alert(1)>', "'><img src=x onerror=alert(1)>",
    "<svg onload=alert(1)>", "<svg><script>alert(1)</script></svg>", "<svg/onload=alert(1)//", "</svg><p>",
    '<iframe srcdoc="<script>alert(1)</script>">', '" srcdoc="<script>alert(1)</script>', "<body onload=alert(1)>",
    "<base href=//x.example>", "<meta http-equiv=refresh content=0;url=//x.example>", "<link rel=stylesheet href=//x>",
    "<style>*{display:none}</style>", "</style><p>", "<form action=//x><input>", "<a href=javascript:alert(1)>a</a>",
    "<object data=x>", "<embed src=x>", "<video><source onerror=alert(1)>", "<details open ontoggle=alert(1)>",
    "<math><mi xlink:href=javascript:alert(1)>", "<marquee onstart=alert(1)>", "<input autofocus onfocus=alert(1)>",
    "<template><script>alert(1)</script></template>", "<noscript><p title='</noscript><img src=x onerror=alert(1)>'>",
    "<textarea></textarea><script>alert(1)</script>", "<plaintext>", "<xmp>", "<listing>", "</bdi></p></td></div>",
    "</figure></main></body></html>", "<!--", "-->", "--!>", "<!-->", "<![CDATA[", "]]>", "<?xml version='1.0'?>",
    "<!DOCTYPE svg [<!ENTITY a 'b'>]>", "&a;", "&lt;b&gt;", "&#60;b&#62;", "&#x3c;", "&amp;lt;", "&#0;", "&nbsp;", "&",
    '" onmouseover="alert(1)', "' onmouseover='alert(1)", "x onmouseover=alert(1)", '" style="x:expression(1)', '"',
    "'",
    "<", ">", "</", "<b", "<b>bold</b>", "<p/>", "</textarea>", "</title>", "</iframe>", "</pre></details>",
]  # fmt: skip
_TEMPLATES = [
    "{{SCRIPT}}", "{{DATA}}", "{{STYLE}}", "{{POLICY}}", "{{LANGUAGE}}", "{{7*7}}", "{%import os%}", "${alert(1)}",
    "#{7*7}", "<%= 7*7 %>", "{0}", "{name}", "{", "}", "%s%n", "%(name)s", "$x", "$$", "$\\frac{1}{0}$", "\\input{a}",
    "\\", "\\n", "\\u2028", "__proto__", "constructor", "toString", "NaN", "Infinity", "null", "undefined", "true",
    "0x10", "-0", "1e999",
]  # fmt: skip
_CONTROLS = [chr(code) for code in (*range(32), *range(127, 160, 5))] + ["\x1b[31mred", "\x1b]0;title\x07", "a\r\nb"]
_DIRECTIONS = [
    "\u202e<script>", "\u202eevil\u202c", "\u2066\u2067\u2068", "\u2069\u2069", "\u200f\u200e", "\u061c", "שלום <b>",
    "مرحبا", "abc\u202edef\u202dghi", "\u200b", "\u200d", "\u00ad", "\ufeff", "\u2028", "\u2029", "\u2060",
]  # fmt: skip
_CHARACTERS = [
    "\ud800", "\udfff", "a\ud83db", "\ufffe", "\uffff", "\U0010ffff", "\U000e0041", "e\u0301",
    "Z̷̧̛a̵l̸g̶o̷" * 9, "👩‍👩‍👧‍👦", "🇹🇷",
    "漢字", "ａｂｃ＜", "‹›«»", "＜script＞", "x" * 5000, " ", "  a  ", "▁", "\u00a0",
]  # fmt: skip
_PATHS = ["../../etc/passwd", "C:\\con", "file:///etc/passwd", "//x.example/a", "a/../b", "?q=<b>", "#stage", "~"]
PAYLOADS = list(dict.fromkeys(_SCRIPTS + _MARKUP + _TEMPLATES + _CONTROLS + _DIRECTIONS + _CHARACTERS + _PATHS))
