"""Read LaTeX (`.tex`): paragraphs, headings, captions, items, cells and footnotes; all that is not prose stays.

Mathematics, code, comments, references and commands that are not known stand where they have stood, each once.
Source: The LaTeX Project, LaTeX2e: An unofficial reference manual (2024).
"""

import re
import unicodedata
from collections import Counter, deque

from dikkat_runtime.documents.decoded_file import DecodedFile, TextDocument
from dikkat_runtime.documents.markup_ends import NextEnd
from dikkat_runtime.documents.segments import Content, Item, Options, Segment, Tag, joined, plain, render
from dikkat_runtime.errors import msg
from dikkat_runtime.text.placeholders import has_words

_TOKEN = re.compile(
    r"(?P<break>\n[ \t]*\n\s*)|(?P<comment>%[^\n]*+\n?[ \t]*+)|\\(?P<name>[A-Za-z@]++\*?)|(?P<symbol>\\.?)"
    r"|(?P<math>\$\$?)|(?P<open>\{)|(?P<close>\})|(?P<cell>&)|(?P<text>[^\\%${}&\n]++|\n)",
    re.DOTALL,
)
_KINDS = {
    "block": "part|chapter|section|subsection|subsubsection|paragraph|subparagraph|caption|title|subtitle|frametitle|"
    "framesubtitle",
    "inline": "emph|textbf|textit|textsl|textsc|textrm|textsf|textmd|textup|underline|uline|mbox|text|enquote|"
    "textsuperscript|textsubscript",
    "apart": "footnote|footnotetext|thanks|marginpar",
    "end": "par|item|newline|linebreak|newpage|clearpage|pagebreak|maketitle|tableofcontents|bigskip|medskip|smallskip|"
    "vspace|hline|toprule|midrule|bottomrule|appendix|centering|raggedright|noindent|newcommand|renewcommand|"
    "providecommand|newenvironment|renewenvironment|usepackage|documentclass|setlength|addtolength|input|include|"
    "bibliography|bibliographystyle|includegraphics|label|hrule|vskip|DeclareMathOperator|newtheorem|tabularnewline",
    "word": "cite|citep|citet|citeauthor|citeyear|autocite|parencite|textcite|nocite|ref|eqref|pageref|autoref|cref|"
    "Cref|nameref|url|path|texttt|verb|LaTeX|TeX|ldots|dots|textbackslash|today|num|SI|si|ce|gls|acs|ac",
}
_KIND = {name: kind for kind, names in _KINDS.items() for name in names.split("|")}
_DISPLAYS = (
    "equation|align|gather|multline|eqnarray|displaymath|math|flalign|alignat|verbatim|Verbatim|lstlisting|minted|"
    "comment|tikzpicture|picture|filecontents|array|alltt|thebibliography|asy|sagesilent"
)
_COPIED = frozenset(name + star for name in _DISPLAYS.split("|") for star in ("", "*"))
_LISTING = re.compile(r"verbatim|listing|code", re.IGNORECASE)
_ACCENTS = {
    "'": "\u0301", "`": "\u0300", "^": "\u0302", '"': "\u0308", "~": "\u0303", "=": "\u0304", ".": "\u0307",
    "c": "\u0327", "v": "\u030c", "u": "\u0306", "H": "\u030b", "k": "\u0328", "r": "\u030a", "d": "\u0323",
}  # fmt: skip
_ACCENT = re.compile(
    r"\\(?:(?P<sign>['`^\"~=.])\s*|(?P<letter>[cvuHkrd])(?=\s*\{|\s+\w)\s*)(?:\{\\?(?P<in>\w)\}|\\?(?P<bare>\w))"
)
_NAMED = {
    "ss": "ß", "ae": "æ", "AE": "Æ", "oe": "œ", "OE": "Œ", "o": "ø", "O": "Ø", "aa": "å", "AA": "Å", "l": "ł", "L": "Ł",
    "i": "ı",
}  # fmt: skip
_ESCAPED = frozenset("%&$#_{} ")
_SPELLED = (("``", "“"), ("''", "”"), ("---", "—"), ("--", "–"), ("~", "\u00a0"))
_WRITTEN = str.maketrans({
    "\\": "\\textbackslash{}", "~": "\\textasciitilde{}", "^": "\\textasciicircum{}", "“": "``", "”": "''",
    "—": "---", "–": "--", "\u00a0": "~", **{sign: "\\" + sign for sign in "%&$#_{}"},
})  # fmt: skip
_FONT = re.compile(r"\{\s*\\(?:em|bf|it|sl|sc|tt|rm|sf|small|large|Large|footnotesize|bfseries|itshape|scshape)\b\s*")
_LETTER = re.compile(r"\{\\([a-zA-Z]{1,2})\}")
_OPTION = re.compile(r"[ \t]*\[[^\[\]]{0,400}\]")
_DEFINED = re.compile(r"(?:\s*\\[A-Za-z@]+)?[^{}\n\\]{0,80}")
_MAX_NOTES = 8
"""Footnotes inside each other."""
LEFT = msg("unknown commands, whose texts are kept")


def read_latex(data: bytes, name: str, options: Options) -> TextDocument:
    """Read the prose of a file: of its document where it has one, and its title."""
    file = DecodedFile.decode(data, name, language=options.source_language)
    reader = _Reader(file)
    begin = file.text.find("\\begin{document}")
    if begin >= 0:
        begin += len("\\begin{document}")
        end = file.text.find("\\end{document}", begin)
        for title in re.finditer(r"\\title\s*(?=\{)", file.text[:begin]):
            reader.read(title.end() + 1, reader.pairs.get(title.end(), title.end()), 0)
        reader.read(begin, end if end >= 0 else len(file.text), 0)
    else:
        reader.read(0, len(file.text), 0)
    while reader.notes:
        reader.read(*reader.notes.popleft())
    return TextDocument(file, reader.segments, reader.remarks, markup=False)


class _Reader:
    def __init__(self, file: DecodedFile) -> None:
        self.segments: list[Segment] = []
        self.remarks: Counter[str] = Counter()
        self.notes: deque[tuple[int, int, int]] = deque()
        """Texts that stand inside others: where they begin and end, and how deep."""
        self._file, self._text = file, file.text
        self.pairs = _braces(file.text)
        self._closes = {close: opening for opening, close in self.pairs.items()}
        self._ending: set[int] = set()
        """The braces that end a text: those of headings and captions."""
        self._ends: dict[str, NextEnd] = {}
        self._items: list[Item] = []
        self._start = self._depth = 0

    def read(self, start: int, end: int, depth: int) -> None:
        self._start, self._depth, position = start, depth, start
        while position < end:
            token = _TOKEN.match(self._text, position, end)
            if token is None:
                break
            kind, stop = token.lastgroup or "", token.end()
            if kind in ("break", "cell"):
                self._end(position, stop)
            elif kind == "text":
                self._items.append(token[0])
            elif kind == "comment":
                self._items.append(Tag("void", token[0], position + 1))
            elif kind == "math":
                stop = self._copy(position, stop, token[0], is_block=len(token[0]) == 2)
            elif kind in ("open", "close"):
                stop = self._brace(position, stop, kind)
            elif kind == "symbol":
                stop = self._symbol(position, stop)
            else:
                stop = self._command(token["name"].rstrip("*"), position, stop)
            position = max(stop, position + 1)
        self._end(end, end)

    def _copy(self, start: int, position: int, closing: str, *, is_block: bool) -> int:
        """Copy what ends with `closing`: as a word, or between two texts; return where it ends."""
        ends = self._ends.setdefault(closing, NextEnd(self._text, closing))
        stop = ends.find(position)
        if stop < 0:
            self._items.append(Tag("void", self._text[start:position], start + 1))
            return position
        if is_block:
            self._end(start, stop)
        else:
            self._items.append(Tag("word", self._text[start:stop], start + 1))
        return stop

    def _brace(self, start: int, stop: int, kind: str) -> int:
        if start in self._ending:
            self._end(start, stop)
        elif kind == "close":
            opening = self._closes.get(start, start)
            self._items.append(Tag("close", "}", opening + 1))
        else:
            letter = _LETTER.match(self._text, start)
            if letter and letter[1] in _NAMED:
                self._items.append(_NAMED[letter[1]])
                return letter.end()
            font = _FONT.match(self._text, start)
            stop = font.end() if font else stop
            self._items.append(Tag("open", self._text[start:stop], start + 1))
        return stop

    def _symbol(self, start: int, stop: int) -> int:
        sign = self._text[start + 1 : stop]
        accent = _ACCENT.match(self._text, start)
        if sign in ("(", "["):
            return self._copy(start, stop, "\\)" if sign == "(" else "\\]", is_block=sign == "[")
        if accent and accent["sign"]:
            self._items.append(_accented(accent))
            return accent.end()
        if sign == "\\":
            option = _OPTION.match(self._text, stop)
            stop = option.end() if option else stop
            self._end(start, stop)
        elif sign in _ESCAPED and sign:
            self._items.append(sign)
        elif sign != "-":
            self._items.append(Tag("void", self._text[start:stop], start + 1))
        return stop

    def _command(self, name: str, start: int, stop: int) -> int:
        """Read a command with its arguments; return where it ends."""
        accent = _ACCENT.match(self._text, start)
        kind = _KIND.get(name, "")
        if name in ("begin", "end"):
            return self._environment(name, start, stop)
        if accent and accent["letter"] == name:
            self._items.append(_accented(accent))
            return accent.end()
        if name in _NAMED:
            self._items.append(_NAMED[name])
            return self._after(stop)
        if name == "verb":
            return self._copy(start, stop + 1, self._text[stop : stop + 1] or "\n", is_block=False)
        option = _OPTION.match(self._text, stop)
        argument = option.end() if option else stop
        close = self.pairs.get(argument, -1)
        if name == "href" and close > 0:
            argument, close = close + 1, self.pairs.get(close + 1, -1)
            kind = "inline"
        if kind == "block" and close > 0:
            self._end(start, argument + 1)
            self._ending.add(close)
            return argument + 1
        if kind == "inline" and close > 0:
            self._items.append(Tag("open", self._text[start : argument + 1], argument + 1))
            return argument + 1
        if kind == "apart" and close > 0:
            raw = self._text[start : close + 1]
            self._items.append(Tag("void", raw, start + 1, start=start))
            if self._depth < _MAX_NOTES:
                self.notes.append((argument + 1, close, self._depth + 1))
            return close + 1
        return self._unread(name, kind, start, stop)

    def _unread(self, name: str, kind: str, start: int, stop: int) -> int:
        """Copy a command with all its arguments."""
        if name in ("def", "gdef", "edef", "xdef", "let", "newcommand", "renewcommand", "providecommand"):
            defined = _DEFINED.match(self._text, stop)
            stop = defined.end() if defined else stop
        begin, stop = stop, self._after_arguments(stop)
        self.remarks[LEFT] += not kind and " " in self._text[begin:stop]
        stop = self._after(stop) if stop == begin else stop
        if kind == "end" or name in ("def", "gdef", "edef", "xdef", "let"):
            self._end(start, stop)
        else:
            self._items.append(Tag("word" if kind == "word" else "void", self._text[start:stop], start + 1))
        return stop

    def _after_arguments(self, position: int) -> int:
        """Return the position after the arguments of a command, those that it must have and others."""
        while True:
            option = _OPTION.match(self._text, position)
            following = option.end() if option else self.pairs.get(position, -1) + 1
            if following <= position:
                return position
            position = following

    def _after(self, position: int) -> int:
        """Return the position after the spaces, and one line break, that TeX skips after a command."""
        spaces = re.compile(r"[ \t]*(?:\n(?![ \t]*\n)[ \t]*)?").match(self._text, position)
        return spaces.end() if spaces else position

    def _environment(self, name: str, start: int, stop: int) -> int:
        close = self.pairs.get(stop, -1)
        if close < 0:
            return stop
        environment = self._text[stop + 1 : close]
        if name == "begin" and (environment in _COPIED or _LISTING.search(environment)):
            return self._copy(start, close, f"\\end{{{environment}}}", is_block=True)
        stop = close + 1
        if name == "begin" and environment != "frame":
            stop = self._after_arguments(stop)
        self._end(start, stop)
        return stop

    def _end(self, position: int, following: int) -> None:
        """End the text before `position`; the next one begins at `following`."""
        content, start = _paired(self._items), self._start
        self._items, self._start = [], following
        if has_words(plain(content)):
            self.segments.append(self._file.segment(start, position, content, _written))


def _braces(text: str) -> dict[int, int]:
    """Return for each brace that opens the one that closes it; those in comments and escaped ones are none."""
    pairs, opened = dict[int, int](), list[int]()
    for token in re.finditer(r"\\.|%[^\n]*|[{}]", text, re.DOTALL):
        if token[0] == "{":
            opened.append(token.start())
        elif token[0] == "}" and opened:
            pairs[opened.pop()] = token.start()
    return pairs


def _accented(accent: re.Match[str]) -> str:
    mark = _ACCENTS[accent["sign"] or accent["letter"]]
    return unicodedata.normalize("NFC", (accent["in"] or accent["bare"]).replace("ı", "i") + mark)


def _paired(items: list[Item]) -> Content:
    """Return text as it is read, and tags; a brace whose other half stands in another text stands alone."""
    pairs = Counter(item.pair for item in items if isinstance(item, Tag) and item.kind in ("open", "close"))
    content: list[Item] = []
    for item in items:
        if isinstance(item, Tag):
            is_alone = item.kind in ("open", "close") and pairs[item.pair] < 2
            content.append(Tag("void", item.markup, item.pair) if is_alone else item)
            continue
        for written, character in _SPELLED:
            item = item.replace(written, character)
        content.append(item)
    return tuple(joined(content))


def _written(content: Content) -> str:
    """Return content as LaTeX; a command that ends with a letter is parted from a letter after it."""
    parts: list[str] = []
    for item in content:
        text = render((item,), lambda shown: shown.translate(_WRITTEN))
        is_command = bool(parts) and re.search(r"\\[A-Za-z@]+\Z", parts[-1][-80:]) is not None
        parts.append("{}" + text if is_command and (text[:1].isalpha() or text[:1] == " ") else text)
    return "".join(parts)
