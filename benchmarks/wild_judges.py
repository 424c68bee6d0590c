"""Judge translated documents by readers that are not ours; runs in the environment of requirements-wild.txt.

Reads lines of JSON (`source`, `output`: paths) and writes one line each: `verdict` and `why`. The stand-in for a model
turns each letter of ASCII by 13 (rot13): a text is right where each of its letters is as it was or turned, and all else
is as it was.
"""

from __future__ import annotations

import codecs
import io
import json
import re
import subprocess
import sys
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

Facts = tuple[Any, list[str]]
"""What must be equal, and the texts."""
PLACEHOLDER = re.compile(
    r"%\(\w+\)[sdif]|%\d\$[sd@]|\{\{?\w+\}\}?|%\{\w+\}|\$\{\w+\}|%[sd@](?!\w)|https?://[\w.-]+\.\w[\w./?=&#%-]*"
)
READ = {"alt", "title", "placeholder", "aria-label", "aria-description", "label", "summary", "abbr", "content", "value"}
READ |= {"lang", "{http://www.w3.org/XML/1998/namespace}lang", "xml:lang", "dir"}


def turned(text: str) -> str:
    return codecs.encode(text, "rot13")


TAG = re.compile(r"</?[A-Za-z!][^<>]*>|\{[\\/][^{}]*\}")


def difference(before: str, after: str) -> str:
    """What is wrong with a translated text; nothing where all is right. Tags in a word go to its edge."""
    why = _difference(before, after)
    if why and "<" in before + after and not _difference(TAG.sub("", before), TAG.sub("", after)):
        lost = Counter(TAG.findall(before)) - Counter(TAG.findall(after))
        return f"lost tags {list(lost)[:3]}" if lost else ""
    return why


def _difference(before: str, after: str) -> str:
    ours, theirs = ("".join(text.split()) for text in (before, after))
    if len(ours) != len(theirs) and re.search(r",(?:plural|selectordinal),", ours):
        # the plural forms that the language of the translation needs
        form = r"(?:zero|one|two|few|many)\{(?:[^{}]|\{[^{}]*\})*\}"
        ours, theirs = (re.sub(form, "", text) for text in (ours, theirs))
    pairs = enumerate(zip(ours, theirs, strict=False))
    at = next((at for at, (one, other) in pairs if other not in (one, turned(one))), None)
    if at is not None or len(ours) != len(theirs):
        shown = slice(max((at or 0) - 20, 0), (at or 0) + 30)
        return f"{len(ours)} and {len(theirs)} characters, {ours[shown]!r} is {theirs[shown]!r}"
    if lost := Counter(PLACEHOLDER.findall(before)) - Counter(PLACEHOLDER.findall(after)):
        # a brace may be literal in a text of several lines
        return f"placeholders {list(lost)[:3]}"
    return ""


def catalog(data: bytes, path: str) -> Facts:
    import polib

    read = polib.mofile if path.endswith((".mo", ".gmo")) else polib.pofile
    file = read(path)
    keys: list[Any] = []
    texts: list[str] = []
    for entry in file:
        more = ("obsolete", "occurrences", "comment")
        keys.append((entry.msgctxt, entry.msgid, entry.msgid_plural, *(getattr(entry, name, None) for name in more)))
    keys.sort(key=str)
    return (keys, sorted(file.metadata.items())), texts


def judge_catalog(before: str, after: str) -> str:
    import polib

    is_compiled = before.endswith((".mo", ".gmo"))
    read = polib.mofile if is_compiled else polib.pofile
    old, new = read(before), read(after)
    if catalog(b"", before)[0] != catalog(b"", after)[0]:
        return "other messages"
    known = {(e.msgctxt, e.msgid, getattr(e, "obsolete", False)): e for e in old}
    for entry in new:
        was = known[entry.msgctxt, entry.msgid, getattr(entry, "obsolete", False)]
        if not is_compiled and (was.translated() or was.obsolete):
            if (entry.msgstr, entry.msgstr_plural) != (was.msgstr, was.msgstr_plural):
                return f"a translated message is changed: {entry.msgid[:40]!r}"
            continue
        for number, text in (entry.msgstr_plural or {0: entry.msgstr}).items():
            old_text = was.msgstr_plural.get(number, "") if entry.msgstr_plural else was.msgstr
            if text and text != old_text:
                sources = [entry.msgid, entry.msgid_plural or entry.msgid]
                if all(difference(_directives(source), _directives(text)) for source in sources):
                    return difference(_directives(sources[-1]), _directives(text))
    if not is_compiled:
        check = lambda path: subprocess.run(["msgfmt", "-c", "-o", "/dev/null", path], capture_output=True, text=True)  # noqa: E731
        try:
            if check(before).returncode == 0 and (told := check(after)).returncode:
                return "msgfmt: " + told.stderr[:150]
        except FileNotFoundError:
            pass
    return ""


def _directives(text: str) -> str:
    return re.sub(r"%\d\$", "%", text)


def markup(data: bytes, path: str) -> Facts:
    from lxml import etree

    root = etree.fromstring(data, etree.XMLParser(resolve_entities=False, no_network=True, huge_tree=True))
    shape = [(str(node.tag), sorted(node.attrib.items())) for node in root.iter()]
    return shape, ["".join(root.itertext())]


def units(data: bytes, path: str) -> Facts:
    from lxml import etree

    root = etree.fromstring(data, etree.XMLParser(resolve_entities=False, no_network=True, huge_tree=True))
    added = (
        [n for n in root.iter() if etree.QName(n).localname == "target" or n.get("creationid") == "dikkat"]
        if True
        else []
    )
    texts = []
    for node in added:
        parent = node.getparent()
        sources = [
            n
            for n in parent
            if isinstance(n.tag, str) and etree.QName(n).localname in ("source", "tuv") and n is not node
        ]
        node.set("judged", "yes")
        if sources:
            texts.append("\0".join(("".join(sources[0].itertext()), "".join(node.itertext()))))
    for node in added:
        if node.getparent() is not None:
            previous = node.getprevious()
            if node.tail and previous is not None:
                previous.tail = (previous.tail or "") + node.tail
            node.getparent().remove(node)
    shape = [
        (
            str(n.tag),
            sorted((k, v) for k, v in n.attrib.items() if k not in ("state", "subState")),
            (n.text or "").strip(),
        )
        for n in root.iter()
        if isinstance(n.tag, str)
    ]
    return shape, texts


def judge_units(before: str, after: str) -> str:
    old, new = (units(Path(path).read_bytes(), path) for path in (before, after))
    if old[0] != new[0]:
        return "other units"
    known = set(old[1])
    for pair in new[1]:
        source, _, target = pair.partition("\0")
        if pair not in known and target and (why := difference(source, target)):
            return why
    return ""


def subtitles(data: bytes, path: str) -> Facts:
    if path.endswith(".vtt"):
        import webvtt

        cues = webvtt.from_string(_decoded(data))
        return [(cue.start, cue.end, cue.identifier) for cue in cues], [" ".join(cue.raw_text for cue in cues)]
    import srt

    items = list(srt.parse(_decoded(data), ignore_errors=False))
    return [(item.start, item.end, item.proprietary) for item in items], [" ".join(item.content for item in items)]


def _decoded(data: bytes) -> str:
    for charset in ("utf-8-sig", "utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8", "cp1252", "latin-1"):
        try:
            return data.decode(charset)
        except UnicodeDecodeError:
            pass
    return ""


def markdown(data: bytes, path: str) -> Facts:
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    text = re.sub(r"\A---\n.*?\n---\n", "", _decoded(data), flags=re.DOTALL)
    # notes of MkDocs, which CommonMark takes for code
    note = r"^( *)(?:!!!|\?\?\?)[^\n]*\n((?:(?:\1 {4}[^\n]*)?\n)*)"
    text = re.sub(
        note,
        lambda match: "\n" + re.sub(rf"^{match[1]} {{4}}", match[1], match[2], flags=re.M) + "\n",
        text,
        flags=re.M,
    )
    shape: list[Any] = []
    texts: list[str] = []
    for token in parser.parse(text):
        if token.type == "inline":
            inner = token.children or []
            shape.append(
                Counter(
                    (
                        t.type,
                        t.attrs.get("href"),
                        t.attrs.get("src"),
                        t.content if t.type in ("code_inline", "html_inline") else "",
                    )
                    for t in inner
                    if t.type not in ("text", "softbreak", "text_special")
                )
            )
            texts.append("".join(t.content if t.type in ("text", "image", "text_special") else " " for t in inner))
        else:
            shape.append(
                (
                    token.type,
                    token.info,
                    token.markup if token.type != "heading_open" else token.tag,
                    token.content if token.type != "html_block" else "",
                )
            )
    return shape, texts


def page(data: bytes, path: str) -> Facts:
    import html5lib

    tree = html5lib.parse(data, treebuilder="etree", namespaceHTMLElements=False)
    shape: Counter[Any] = Counter()
    attributes: list[str] = []
    for node in tree.iter():
        kept = sorted((str(k), v) for k, v in node.attrib.items() if str(k) not in READ)
        shape[str(node.tag), str(kept)] += 1
    return shape, [_shown(tree), *attributes]


def _shown(tree: Any) -> str:
    parts: list[str] = []

    def walk(node: Any) -> None:
        if isinstance(node.tag, str):
            parts.append(node.text or "")
        for child in node:
            walk(child)
            parts.append(child.tail or "")

    walk(tree)
    return "".join(parts)


def json_tree(data: bytes, path: str) -> Facts:
    tree = json.loads(data.decode("utf-8-sig"))
    if path.endswith(".xcstrings"):
        return None, []
    return _leaves(tree)


def _leaves(tree: Any) -> Facts:
    texts: list[str] = []

    def walk(node: Any) -> Any:
        if isinstance(node, dict):
            return {str(key): walk(value) for key, value in node.items()}
        if isinstance(node, list | tuple):
            return [walk(value) for value in node]
        if isinstance(node, str):
            texts.append(str(node))
            return "text"
        return repr(node)

    return walk(tree), texts


def yaml_tree(data: bytes, path: str) -> Facts:
    from ruamel.yaml import YAML

    text = _decoded(data)
    yaml = YAML(typ="rt", pure=True)
    yaml.allow_duplicate_keys = True
    shape, texts = _leaves(list(yaml.load_all(text)))
    comments = [line.strip() for line in text.split("\n") if line.lstrip().startswith("#")]
    return (shape, comments if "|" not in text and ">" not in text else ""), texts


def properties(data: bytes, path: str) -> Facts:
    import javaproperties

    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        text = data.decode("latin-1")
    entries = list(javaproperties.parse(text))
    keys = [entry.source if not hasattr(entry, "key") else entry.key for entry in entries]
    return keys, [entry.value for entry in entries if hasattr(entry, "key")]


def apple(data: bytes, path: str) -> Facts:
    import openstep_plist

    charset = "utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    return _leaves(openstep_plist.loads(data.decode(charset)))


def resources(data: bytes, path: str) -> Facts:
    shape, texts = markup(data, path)
    return shape, [re.sub(r"\\[\"']|[\"'\\]", "", text) for text in texts]


def archive(texts: str, dropped: str = "") -> Callable[[bytes, str], Facts]:
    """Read the entries of an archive: those named by a pattern as texts, all others by their bytes."""
    pattern = re.compile(texts)

    def read(data: bytes, path: str) -> Facts:
        from lxml import etree

        shape: list[Any] = []
        found: list[str] = []
        with zipfile.ZipFile(io.BytesIO(data)) as file:
            for info in file.infolist():
                content = file.read(info)
                if not pattern.fullmatch(info.filename):
                    shape.append((info.filename, content))
                    continue
                if info.filename.endswith((".html", ".htm", ".xhtml")) or b"<html" in content[:2000]:
                    counts, parts = page(content, info.filename)
                    shape.append((info.filename, counts))
                    found += parts
                    continue
                root = etree.fromstring(content, etree.XMLParser(resolve_entities=False, huge_tree=True))
                counts = Counter(
                    (
                        etree.QName(node).localname,
                        str(sorted((k, v) for k, v in node.attrib.items() if not k.endswith("space"))),
                    )
                    for node in root.iter()
                    if isinstance(node.tag, str)
                    and not any(etree.QName(outer).localname == "rPr" for outer in node.iterancestors())
                    and not re.fullmatch(dropped or "$^", etree.QName(node).localname)
                )
                shape.append((info.filename, counts))
                for language in root.iter("{http://purl.org/dc/elements/1.1/}language"):
                    language.text = ""
                found.append("\n".join(root.itertext()))
        return shape, found

    return read


def opened(data: bytes, path: str) -> None:
    """Open a document by a library of its own, which must not raise."""
    import docx
    import openpyxl
    import pptx
    from ebooklib import epub
    from odf.opendocument import load

    ending = path.rpartition(".")[2]
    if ending == "docx":
        docx.Document(path)
    elif ending in ("xlsx", "xlsm"):
        openpyxl.load_workbook(path)
    elif ending == "pptx":
        pptx.Presentation(path)
    elif ending == "epub":
        epub.read_epub(path)
    elif ending in ("odt", "ods", "odp"):
        load(path)


def latex(data: bytes, path: str) -> Facts:
    from pylatexenc.latexwalker import LatexWalker

    shape: Counter[str] = Counter()
    parts: list[str] = []

    def walk(nodes: Any) -> None:
        for node in nodes or ():
            kind = type(node).__name__
            if kind == "LatexCharsNode":
                parts.append(node.chars)
            elif kind in ("LatexMacroNode", "LatexEnvironmentNode"):
                name = getattr(node, "macroname", None) or node.environmentname
                if not re.fullmatch(r"[^A-Za-z]|[cvuHkrd]|ss|ae|AE|oe|OE|o|O|aa|AA|l|L|i", name):
                    shape[name] += 1
                if kind == "LatexEnvironmentNode":
                    walk(node.nodelist)
                if node.nodeargd:
                    walk([argument for argument in node.nodeargd.argnlist or () if argument is not None])
            elif kind == "LatexGroupNode":
                walk(node.nodelist)
            elif kind == "LatexMathNode":
                shape["$" + node.latex_verbatim()] += 1
            elif kind == "LatexCommentNode":
                shape["%" + node.comment] += 1

    walk(LatexWalker(_decoded(data), tolerant_parsing=False).get_latex_nodes()[0])
    return shape, [re.sub(r"[^A-Za-z]", "", "".join(parts))]


OFFICE = (
    r"word/(document\d*|header\d*|footer\d*|footnotes|endnotes|comments)\.xml|ppt/(slides|notesSlides)/[^/]+\.xml"
    r"|(word|ppt|xl)/(charts/chart\d*|diagrams/(data|drawing)\d*|drawings/drawing\d*)\.xml"
    r"|xl/(sharedStrings|comments\d*|worksheets/[^/]+)\.xml"
)
READERS: dict[str, Callable[[bytes, str], Facts]] = {
    "srt": subtitles, "vtt": subtitles, "md": markdown, "markdown": markdown, "html": page, "htm": page, "xhtml": page,
    "json": json_tree, "arb": json_tree, "xcstrings": json_tree, "yaml": yaml_tree, "yml": yaml_tree,
    "properties": properties, "strings": apple, "xml": resources, "stringsdict": markup, "tex": latex,
    "docx": archive(OFFICE, "r|t|rPr|proofErr|lastRenderedPageBreak|softHyphen"),
    "pptx": archive(OFFICE, "r|t|rPr"),
    "xlsx": archive(OFFICE, "rPh|phoneticPr|r|t|rPr"), "xlsm": archive(OFFICE, "rPh|phoneticPr|r|t|rPr"),
    "odt": archive(r"(?:.*/)?(content|styles)\.xml"), "ods": archive(r"(?:.*/)?(content|styles)\.xml"),
    "odp": archive(r"(?:.*/)?(content|styles)\.xml"), "epub": archive(r".*\.(?:x?html?|xml|ncx|opf)"),
}  # fmt: skip


def judge(before: str, after: str | None) -> tuple[str, str]:
    """The verdict on one file, and the reason: unread where the other reader refuses the source already."""
    ending = before.rpartition(".")[2].lower()
    try:
        if ending in ("po", "pot", "mo", "gmo"):
            catalog(b"", before)
        elif ending in ("xlf", "xliff", "sdlxliff", "tmx"):
            units(Path(before).read_bytes(), before)
        else:
            old = READERS[ending](Path(before).read_bytes(), before)
            opened(b"", before)
    except Exception as error:
        return "unread", f"{type(error).__name__}: {str(error)[:100]}"
    if after is None:
        return "read", ""
    try:
        if ending in ("po", "pot", "mo", "gmo"):
            why = judge_catalog(before, after)
        elif ending in ("xlf", "xliff", "sdlxliff", "tmx"):
            why = judge_units(before, after)
        else:
            new = READERS[ending](Path(after).read_bytes(), after)
            opened(b"", after)
            why = compared(old, new)
    except Exception as error:
        return "wrong", f"{type(error).__name__}: {str(error)[:200]}"
    return ("wrong", why) if why else ("right", "")


def compared(old: Facts, new: Facts) -> str:
    if old[0] != new[0]:
        return "other structure: " + str(next(_unequal(old[0], new[0]), ""))[:300]
    if len(old[1]) != len(new[1]):
        return f"{len(old[1])} texts, then {len(new[1])}"
    return next((why for pair in zip(old[1], new[1], strict=True) if (why := difference(*pair))), "")


def _unequal(old: Any, new: Any) -> Iterator[Any]:
    if isinstance(old, Counter) and isinstance(new, Counter):
        yield list((old - new).items())[:3], list((new - old).items())[:3]
    elif isinstance(old, dict) and isinstance(new, dict):
        for key in old.keys() | new.keys():
            if old.get(key) != new.get(key):
                yield key, old.get(key), new.get(key)
    elif isinstance(old, list | tuple) and isinstance(new, list | tuple):
        for one, other in zip(old, new, strict=False):
            if one != other:
                yield from _unequal(one, other)
        yield f"{len(old)} and {len(new)} parts"
    else:
        yield old, new


def main() -> None:
    for line in sys.stdin:
        task = json.loads(line)
        verdict, why = judge(task["source"], task["output"])
        print(json.dumps({"verdict": verdict, "why": why}), flush=True)


if __name__ == "__main__":
    main()
