"""Clients that want to harm a server: requests and files that cost it far more than they cost their sender."""

from __future__ import annotations

import asyncio
import io
import json
import random
import zipfile
from collections.abc import Awaitable, Callable
from contextlib import suppress

HOST = b"Host: localhost\r\n"
PAIR = {"source": "en", "target": "fr"}
Attack = Callable[[int, random.Random], Awaitable[int]]
_PATIENCE = 150.0
"""Seconds for an answer: more than the server takes for any."""


async def exchange(port: int, *parts: bytes, leaves_after: float | None = None) -> int:
    """Send the parts and return the status of the answer; 0 where the connection ends without one."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        async with asyncio.timeout(leaves_after or _PATIENCE):
            with suppress(OSError):
                for part in parts:
                    writer.write(part)
                    await writer.drain()
            line = await reader.readline()
            return int(line[9:12]) if line.startswith(b"HTTP/1.1 ") else 0
    except (OSError, TimeoutError):
        return 0
    finally:
        writer.transport.abort()


def post(path: str, kind: str, body: bytes) -> bytes:
    """A whole request."""
    head = f"POST {path} HTTP/1.1\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n".encode()
    return head + HOST + b"\r\n" + body


def ask(path: str, **fields: object) -> bytes:
    """A whole request of JSON."""
    return post(path, "application/json", json.dumps(fields).encode())


CHUNKED = (
    b"POST /translate HTTP/1.1\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n" + HOST + b"\r\n"
)
BODY = b"2\r\n{}\r\n0\r\n"


async def endless_trailers(port: int, rng: random.Random) -> int:
    return await exchange(port, CHUNKED + BODY, *[b"X-A: aaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n" * 8000] * 40)


async def endless_trailer(port: int, rng: random.Random) -> int:
    return await exchange(port, CHUNKED + BODY + b"X: ", *[b"a" * 250_000] * 40)


async def endless_extension(port: int, rng: random.Random) -> int:
    return await exchange(port, CHUNKED + b"2;", *[b"a" * 250_000] * 40)


async def chunks_of_one_byte(port: int, rng: random.Random) -> int:
    return await exchange(port, CHUNKED, *[b"1\r\n \r\n" * 40_000] * 10)


async def long_head(port: int, rng: random.Random) -> int:
    return await exchange(
        port, b"GET / HTTP/1.1\r\n" + HOST + b"X: " + b"a" * rng.choice((60_000, 100_000)) + b"\r\n\r\n"
    )


async def many_headers(port: int, rng: random.Random) -> int:
    return await exchange(port, b"GET / HTTP/1.1\r\n" + HOST + b"a:b\r\n" * 12_000 + b"\r\n")


async def slow_head(port: int, rng: random.Random) -> int:
    return await exchange(port, b"POST /translate HTTP/1.1\r\n" + b"a" * rng.choice((1, 50_000)), leaves_after=12.0)


async def unfinished_body(port: int, rng: random.Random) -> int:
    head = b"POST /translate HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: 2000000\r\n" + HOST + b"\r\n"
    return await exchange(port, head + b'{"q": "' + b"a" * 1_900_000, leaves_after=rng.uniform(1.0, 25.0))


async def pipelined(port: int, rng: random.Random) -> int:
    return await exchange(port, (b"GET /languages HTTP/1.1\r\n" + HOST + b"\r\n") * 5000)


async def many_values(port: int, rng: random.Random) -> int:
    unit = rng.choice((b"[],", b"{},", b"[[", b'"",', b"0.1,"))
    body = b'{"q":"a","source":"en","target":"fr","x":[' + unit * (1_900_000 // len(unit)) + b"0]}"
    return await exchange(port, post("/translate", "application/json", body))


async def escaped_form(port: int, rng: random.Random) -> int:
    return await exchange(port, post("/translate", "application/x-www-form-urlencoded", b"q=" + b"%41" * 600_000))


async def many_parts(port: int, rng: random.Random) -> int:
    part = b'--b\r\nContent-Disposition: form-data; name="a"\r\n\r\n\r\n'
    body = part * (1_900_000 // len(part)) + b"--b--\r\n"
    return await exchange(port, post("/translate", "multipart/form-data; boundary=b", body))


async def many_terms(port: int, rng: random.Random) -> int:
    rows = "".join(f"{number}\tb\n" for number in range(180_000))
    fields = {"name": "g", "source_lang": "en", "target_lang": "fr", "entries": rows}
    return await exchange(port, ask("/v2/glossaries", **fields))


async def many_sentences(port: int, rng: random.Random) -> int:
    return await exchange(port, ask("/translate", q="Go. " * 12_000, **PAIR), leaves_after=rng.uniform(0.1, 5.0))


async def hostile_html(port: int, rng: random.Random) -> int:
    unit = rng.choice(("a<br>", "<i>", "<b>a</i>", "a<a '", "&", "<p>a</p>", "<!--", "<x>a</x> "))
    text = unit * (49_000 // len(unit))
    return await exchange(port, ask("/translate", q=text, format="html", **PAIR), leaves_after=rng.uniform(0.5, 30.0))


async def hostile_xml(port: int, rng: random.Random) -> int:
    unit = rng.choice(("<g>", "<x/> dog ", "</g>", "<g>a</g>", "<![CDATA["))
    fields = {"text": [unit * (45_000 // len(unit))], "tag_handling": "xml", "source_lang": "en", "target_lang": "fr"}
    return await exchange(port, ask("/v2/translate", **fields), leaves_after=rng.uniform(0.5, 30.0))


async def hang_up(port: int, rng: random.Random) -> int:
    return await exchange(port, ask("/translate", q="Where is the dog?", **PAIR), leaves_after=0.001)


REQUESTS: list[Attack] = [
    endless_trailers, endless_trailer, endless_extension, chunks_of_one_byte, long_head, many_headers, slow_head,
    unfinished_body, pipelined, many_values, escaped_form, many_parts, many_terms, many_sentences, hostile_html,
    hostile_xml, hang_up,
]  # fmt: skip


def xliff(content: str) -> bytes:
    """An XLIFF file of one unit."""
    head = '<?xml version="1.0"?><xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2"><file original="a"'
    head += ' source-language="en" target-language="fr" datatype="x"><body><trans-unit id="1"><source>'
    return f"{head}{content}</source></trans-unit></body></file></xliff>".encode()


def docx(content: str) -> bytes:
    """A Word document of this body."""
    name = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("[Content_Types].xml", "<Types/>")
        archive.writestr("word/document.xml", f'<w:document xmlns:w="{name}"><w:body>{content}</w:body></w:document>')
    return data.getvalue()


def zip_bomb() -> bytes:
    """An archive of 300 megabytes of spaces in less than one."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("word/document.xml", "w") as entry:
        for _ in range(300):
            entry.write(b" " * 1_000_000)
    return data.getvalue()


CUE = "00:00:01,000 --> 00:00:02,000\n"


def hostile_files(size: int) -> list[tuple[str, bytes]]:
    """Names and contents of files of about so many bytes."""

    def filled(unit: str) -> str:
        return unit * (size // len(unit))

    nested = "<w:p><w:r><w:t>a</w:t></w:r>" * (size // 40)
    texts = {
        "digits.srt": "9" * size + f"\n{CUE}a dog\n",
        "italics.srt": f"1\n{CUE}{filled('<i>')}a dog\n",
        "lines.vtt": f"WEBVTT\n\n{filled('00:00:01.000 --> ')}",
        "emphasis.md": filled("_a*b"),
        "backticks.md": filled("`a``"),
        "references.md": filled("[a]["),
        "bangs.md": filled("![a]("),
        "breaks.html": filled("a<br>"),
        "open.html": filled("<div>"),
        "comments.html": filled("<!--"),
        "quotes.po": f'msgid "{filled("a")}"\nmsgstr ""\n' + filled('"\\n"\n'),
        "catalog.po": filled('msgid "a"\nmsgstr ""\n\n'),
        "rows.tsv": filled("a dog\t"),
        "rows.jsonl": filled('{"source": "a dog"}\n'),
        "nested.jsonl": "[" * size,
        "sentences.txt": filled("A dog. "),
    }
    files = [(name, text.encode()) for name, text in texts.items()]
    depth = size // 15
    files += [("nested.xlf", xliff('<g id="1">' * depth + "a dog" + "</g>" * depth))]
    files += [("marks.xlf", xliff('<x id="1"/> dog ' * (size // 16)))]
    files += [("nested.docx", docx(nested + "</w:p>" * (size // 40))), ("bomb.docx", zip_bomb())]
    files += [
        ("broken.docx", docx(nested)[:-100]),
        ("noise.mo", b"\xde\x12\x04\x95" + bytes(range(256)) * (size // 256)),
    ]
    return files


async def send_file(port: int, rng: random.Random, file: tuple[str, bytes]) -> int:
    """Have a file translated; half of the senders leave before it can be."""
    name, data = file
    head = f'--b\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n\r\n'.encode()
    fields = "".join(
        f'--b\r\nContent-Disposition: form-data; name="{field}"\r\n\r\n{value}\r\n' for field, value in PAIR.items()
    )
    body = fields.encode() + head + data + b"\r\n--b--\r\n"
    leaves_after = rng.choice((None, rng.uniform(0.2, 5.0)))
    request = post("/translate_file", "multipart/form-data; boundary=b", body)
    return await exchange(port, request, leaves_after=leaves_after)
