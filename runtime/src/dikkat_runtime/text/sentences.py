"""Find the ends of sentences in a line of text by rules without a model; unsure ends are not ends."""

import re
from collections.abc import Iterator

SYMBOL_MARKS = "\uf400-\uf8ff"
"""What stands for a symbol, a bracket or a quotation mark that a model reads a text without."""
_CLOSERS = "\"'”’»›)\\]}）」』】》〉" + SYMBOL_MARKS
QUOTES = "\"'”’」』）》〉"
_OPENERS = "\"'“‘„«‹(\\[{（「『【《〈¿¡–—\\-"
END = re.compile(
    # scripts without spaces, and others whose full stop is no other sign: each one is an end
    rf"(?P<sure>[。！？｡।॥።։]++[{_CLOSERS}]*+)"
    # a full stop must be followed by a space, else it is inside a number, a name or an address
    rf"|(?<![.!?…؟۔])(?P<unsure>[.!?…؟۔]++[{_CLOSERS}]*+)(?=\s)"
    # or it stands between two words of letters alone: "sleeps.The dog"
    r"|(?<=[^\W\d_][^\W\d_])(?P<joined>[.!?…]++)(?=[^\W\d_][^\W\d_])"
)
BREAK = re.compile(r"[\r\n\x0b\x0c\x1c-\x1e\x85\u2028\u2029]+")
MAY_END = re.compile(rf"[.!?…؟۔][{_CLOSERS}]*+\s|[.!?…][^\W\d_]|[。！？｡।॥።։\r\n\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
"""Pattern that matches in every text with an end of a sentence inside; most lines have none."""
NEXT = re.compile(rf"\s+[{_OPENERS}\s]*")
JOINED_BEFORE = re.compile(rf"(?<![^\s{_OPENERS}])[^\W\d_]+$")
JOINED_AFTER = re.compile(r"([^\W\d_]+),?\s")
LAST_WORD = re.compile(r"[\w.&’'-]*$")
LOOK_BACK, LOOK_AHEAD = 32, 16
INITIALS = re.compile(r"(?:\w\.)*\w")

_TITLES_AND_SHORT_WORDS = """
    mr mrs ms mx dr prof rev hon st messrs gen col capt lt sgt maj adm gov sen rep pres
    m mm mme mmes mlle mlles me mgr vve hr fr frl dipl ing sr sra srta sres dña dn ud uds sig dott avv
    sn dç doç yrd av alb bnb yzb muh no nr núm num nº art abs fig figs abb vol bd ch chap sec sect p pp s ss eq ed eds
    cf ca c approx vs viz e.g i.e z.b d.h u.a o.ä bzw bkz örn p.ex ör mah cad sok apt tel
    jan feb mar apr jun jul aug sep sept oct nov dec
"""
NEVER_LAST = frozenset(_TITLES_AND_SHORT_WORDS.split())
"""Abbreviations that a name, a number or more of the sentence follows."""
_ENDINGS = "com org net edu gov io app dev js ts py php html xml css json txt pdf doc exe zip png jpg md csv alpha beta"
NEVER_JOINED = frozenset(_ENDINGS.split())
"""Ends of names and addresses, which begin no sentence where no space is before them: "Example.Com"."""
_ORDINALS = "tr az de da no nb nn fi cs sk pl hu hr sl bs sr et lv is fo lb"
_ORDINAL_LANGUAGES = frozenset(_ORDINALS.split())
"""Languages that write "3." for "third"."""


def split_sentences(text: str, language: str = "") -> list[str]:
    """Return the sentences of `text`, without the white space around them; a line break inside it ends one as well.

    A full stop ends no sentence after an initial, a known abbreviation or (in the languages that write ordinal numbers
    so, and where the `language` is not known) a number of one or two digits, nor before a small letter, unless the text
    has no capital letters. A mark with no space behind it ends one between a word in small letters and a word with a
    capital that a space follows: "sleeps.The dog". The time is linear in the length of the text.
    """
    text = text.strip()
    if not MAY_END.search(text):
        return [text] if text else []
    small, ordinals = _is_small(text), writes_ordinals(language)
    sentences = (part.strip() for line in BREAK.split(text) for part in _cut(line, small, ordinals))
    return [sentence for sentence in sentences if sentence]


def cut_at_sentences(line: str, language: str = "") -> list[str]:
    """Return the sentences of one line with all white space between them: joined they are the line again.

    They end where those of `split_sentences` end.
    """
    if not MAY_END.search(line):
        return [line]
    return list(_cut(line, _is_small(line), writes_ordinals(language)))


def _is_small(text: str) -> bool:
    return not any(character.isupper() for character in text)


def writes_ordinals(language: str) -> bool:
    code = re.split("[-_.@]", language.lower(), maxsplit=1)[0]
    return not code or code in _ORDINAL_LANGUAGES


def _cut(line: str, small: bool, ordinals: bool) -> Iterator[str]:
    start = 0
    for end in _ends(line, small, ordinals):
        yield line[start:end]
        start = end
    yield line[start:]


def _ends(line: str, small: bool, ordinals: bool) -> Iterator[int]:
    start = 0
    for mark in END.finditer(line):
        if mark["joined"] is not None:
            ends = _are_joined(line, start, mark)
        elif mark["sure"] is not None:
            # a quotation goes on in its sentence: 「行こう！」と言った
            ends = mark[0][-1] not in QUOTES or not line[mark.end() : mark.end() + 1].isalpha()
        else:
            ends = _is_end(line, start, mark, small, ordinals)
        if not ends:
            continue
        start = mark.end()
        yield start


def _is_end(line: str, start: int, mark: re.Match[str], small: bool, ordinals: bool) -> bool:
    """Return whether a mark with a space after it ends the sentence that began at `start`."""
    following = NEXT.match(line, mark.end(), mark.end() + LOOK_AHEAD)
    after = line[following.end() : following.end() + 1] if following else ""
    if not after or (after.islower() and not small):
        return False
    if not mark["unsure"].startswith(".") or mark["unsure"].startswith(".."):
        return True
    before = LAST_WORD.search(line[max(start, mark.start() - LOOK_BACK) : mark.start()])
    word = before[0] if before else ""
    if word.isdecimal() and len(word) <= 2:
        return not ordinals and line[start : mark.start()].strip() != word
    is_initial = INITIALS.fullmatch(word) is not None and not word.isdecimal() and (word.isupper() or "." in word)
    return not is_initial and word.lower() not in NEVER_LAST


def _are_joined(line: str, start: int, mark: re.Match[str]) -> bool:
    """Return whether a mark without a space after it ends the sentence that began at `start`, and is in no name."""
    before = JOINED_BEFORE.search(line[max(start, mark.start() - LOOK_BACK) : mark.start()])
    after = JOINED_AFTER.match(line, mark.end(), mark.end() + LOOK_BACK)
    if before is None or after is None or not before[0].islower() or before[0] in NEVER_LAST:
        return False
    return after[1][0].isupper() and after[1][1:].islower() and after[1].lower() not in NEVER_JOINED
