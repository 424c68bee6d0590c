"""Files as strangers send them: what broke a reader once, and random pieces of it inside an honest file."""

from __future__ import annotations

import io
import zipfile

from hypothesis import strategies as st

_DEEP = 200_000


def _bomb() -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("word/document.xml", b" " * (2 << 20))
    return target.getvalue()


WHOLE = {
    "empty": b"",
    "zeros": b"\0" * 100,
    "empty lines": b"\n" * 9,
    "UTF-16": b"\xff\xfea\0b\0\n\0",
    "a byte-order mark": b"\xef\xbb\xbf",
    "nested lists": b"[" * _DEEP,
    "nested objects": b'{"a":' * _DEEP,
    "a nested value": b'{"source": ' + b"[" * _DEEP + b"]" * _DEEP + b', "target": "x"}\n',
    "half of a character in JSON": b'{"source": "\\ud800", "target": "\\udfff x", "text": "\\ud800 dog"}\n',
    "half of a character": b"\xed\xa0\x80 dog\tb\n",
    "a long number": b'{"source": 1' + b"0" * 5_000 + b', "target": "b"}\n',
    "a large number": b'{"source": 1e999, "target": "x", "text": -1e999}\n',
    "no number": b'{"source": NaN, "target": Infinity}\n',
    "wrong types": b'{"source": {"a": [1]}, "target": null, "text": true}\n',
    "a key twice": b'{"source": "a", "source": "b", "target": "c", "target": "d"}\n',
    "digits": b"9" * 5_000 + b"\n",
    "settings nested deep": b"x = " + b"[" * 5_000,
    "settings with a long number": b"[training]\nseed = 1" + b"0" * 6_000,
    "settings of wrong types": b"model = 5\n[training]\nseed = [[]]\n",
    "the begin of a zip": b"PK\x03\x04",
    "the begin of gzip": b"\x1f\x8b\x08\0",
    "the begin of bzip2": b"BZh91AY&SY",
    "the begin of xz": b"\xfd7zXZ\0",
    "the begin of Parquet": b"PAR1",
    "a zip bomb": _bomb(),
    "separators of Unicode": "\u2028\x85\x0b\x0c\x1c dog\n".encode(),
    "tabs alone": b"\t\t\t\n" * 3,
    "an open quotation mark": b'a,"b\nc,d',
}
"""Whole files, whatever a reader expects."""
PIECES = (
    b"<", b">", b'"', b"&", b"\\", b"\\x", b"\xff", b"\0", b"\xed\xa0\x80", b"\\ud800", b"&#xD800;", b"&#0;", b"&x;",
    b"{", b"}", b"%s", b"<b>", b"</b>", b"\n", b"\r", b"\n\n", b"\t", b"1e999", b"9" * 400, b"-->", b"<!--",
    b"<![CDATA[", b"]]>", b"<?", b"<!DOCTYPE a [", b"charset=idna", b"charset=base64", b'encoding="undefined"',
    b"\xef\xbb\xbf", b"null", b"[" * 3_000, b'{"a":' * 3_000, b"<g>" * 90, b"99:99:99,999 --> 00:00:00,000", b"msgid",
    b"msgstr[999]", b"msgid_plural", b"nplurals=99999999; plural=n;", b"plural=n/0;", b"plural=" + b"(" * 500, b"|",
    b"```", b"*", b"_", b"[a]: b", b"<svg>", b"<title>", b"translate='no'", b"\xe2\x80\xa8", b"\xc2\x85", b"\x1c",
    b"\xee\x80\x80", b"<mrk mtype='seg' mid='1'>", b"</mrk>", b"<target>", b"</target>", b"<source>", b"</source>",
    b"<trans-unit id='1'>", b"</trans-unit>", b"<tu>", b"</tu>", b"<seg>", b"</seg>", b"<w:p>", b"</w:p>", b"<w:r>",
    b"</w:r>", b"<w:t>", b"</w:t>", b"<w:fldChar w:fldCharType='begin'/>", b"#, fuzzy", b"#~ ", "²Ⅻ٣".encode(),
)  # fmt: skip
"""What is put into an honest file."""
_CHARSETS = ("utf-16", "utf-16-le", "utf-32", "latin-1", "cp1254")


@st.composite
def _changed(draw: st.DrawFn, honest: bytes) -> bytes:
    content = bytearray(honest)
    for _ in range(draw(st.integers(1, 5))):
        start = draw(st.integers(0, len(content)))
        end = min(len(content), start + draw(st.integers(1, 40)))
        kind = draw(st.sampled_from(("put", "put", "put", "cut", "double", "end", "byte")))
        if kind == "put":
            content[start:start] = draw(st.sampled_from(PIECES))
        elif kind == "cut":
            del content[start:end]
        elif kind == "double":
            content[start:start] = content[start:end]
        elif kind == "end":
            del content[start:]
        elif start < len(content):
            content[start] = draw(st.integers(0, 255))
    if draw(st.integers(0, 30)) == 0:
        return content.decode("utf-8", "replace").encode(draw(st.sampled_from(_CHARSETS)), "replace")
    return bytes(content)


def hostile(honest: bytes) -> st.SearchStrategy[bytes]:
    """Return files that an attacker makes of an honest one, and now and then a whole one of `WHOLE`."""
    changed = _changed(honest)
    return st.one_of(changed, changed, changed, st.sampled_from(sorted(WHOLE.values())))
