"""Find the languages of data by the names of its files."""

import math
import re
from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dikkat_runtime.errors import UsageError
from dikkat_runtime.text.packed import without_packing

if TYPE_CHECKING:
    from py3langid.langid import LanguageIdentifier


# Guess the language of texts from the texts themselves.

CONFIDENT = 0.9
"""Least probability of a guess that is reported."""
_CERTAIN = 0.99
"""Least probability of a guess that may contradict a name."""
_SAMPLE = 400
_SAMPLE_CHARACTERS = 20_000
_MIN_CHARACTERS = 200
"""Fewest characters for a guess."""
_ALIKE = (
    frozenset(("bs", "hr", "sr", "sl", "mk", "bg")),
    frozenset(("no", "nb", "nn", "da")),
    frozenset(("id", "ms", "jv")),
    frozenset(("zh", "yue", "wuu")),
    frozenset(("cs", "sk")),
    frozenset(("pt", "gl", "es")),
    frozenset(("az", "tr", "tk", "crh")),
    frozenset(("fa", "ps", "ur", "ku")),
    frozenset(("ru", "uk", "be")),
)
"""Languages that are mistaken for each other."""


def guess_language(texts: Sequence[str]) -> str:
    """Return the two-letter code of the language that `texts` are in, "" where that is not clear."""
    code, probability = _guess(texts)
    return code if probability >= CONFIDENT else ""


def contradicted_by(texts: Sequence[str], named: str) -> str:
    """Return the language that `texts` are in, when it is certainly not the one `named`; else ""."""
    own = named.lower().replace("-", "_").partition("_")[0]
    code, probability = _guess(texts)
    is_known = own in _identifier().nb_classes
    return code if is_known and probability >= _CERTAIN and code != own and not are_alike(code, own) else ""


def are_alike(one: str, other: str) -> bool:
    """Return whether two languages are mistaken for each other."""
    return any({one, other} <= group for group in _ALIKE)


def most_probable(text: str) -> tuple[str, float]:
    """Return the two-letter code of the most probable language of a single text, and the probability."""
    code, probability = _identifier().classify(text)
    return {"yue": "zh", "wuu": "zh"}.get(code, code), probability


def languages_known() -> list[str]:
    """Return the codes of the languages in `language_scores`, in its order."""
    return list(_identifier().labels)


def language_scores(text: str) -> NDArray[np.float64]:
    """Return the log-likelihoods of a text in each known language, up to a constant."""
    ranked = dict(_identifier().rank(text))
    probabilities = np.array([ranked.get(code, 0.0) for code in languages_known()])
    # the identifier divides logarithms by the root of the number of bytes
    scores: NDArray[np.float64] = np.log(np.maximum(probabilities, 1e-30)) * math.sqrt(len(text.encode()) or 1)
    return scores


def _guess(texts: Sequence[str]) -> tuple[str, float]:
    text = " ".join(texts[:: max(1, len(texts) // _SAMPLE)])[:_SAMPLE_CHARACTERS]
    return most_probable(text) if len(text.encode()) >= _MIN_CHARACTERS else ("", 0.0)


@cache
def _identifier() -> "LanguageIdentifier":
    from py3langid.langid import MODEL_FILE, LanguageIdentifier  # takes a second

    identifier = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
    codes = set(identifier.labels)
    identifier.set_languages({code for code in codes if len(code) == 2} | codes & {"yue", "wuu"})
    return identifier


GETTEXT = "gettext:"
"""Prefix of data that is collected from the catalogs installed on this computer: `gettext:fr`."""

_ISO_639_1 = """
    aa ab ae af ak am an ar as av ay az ba be bg bh bi bm bn bo br bs ca ce ch co cr cs cu cv cy da de dv dz ee
    el en eo es et eu fa ff fi fj fo fr fy ga gd gl gn gu gv ha he hi ho hr ht hu hy hz ia id ie ig ii ik io is
    it iu ja jv ka kg ki kj kk kl km kn ko kr ks ku kv kw ky la lb lg li ln lo lt lu lv mg mh mi mk ml mn mr ms
    mt my na nb nd ne ng nl nn no nr nv ny oc oj om or os pa pi pl ps pt qu rm rn ro ru rw sa sc sd se sg si sk
    sl sm sn so sq sr ss st su sv sw ta te tg th ti tk tl tn to tr ts tt tw ty ug uk ur uz ve vi vo wa wo xh yi
    yo za zh zu
"""
_TWO_LETTERS = frozenset(_ISO_639_1.split())

_ISO_639_3 = """afr=af ara=ar aze=az bel=be ben=bn bul=bg cat=ca ces=cs cze=cs cmn=zh cym=cy dan=da deu=de dut=nl
    ell=el eng=en epo=eo est=et eus=eu fas=fa fin=fi fra=fr fre=fr ger=de gle=ga glg=gl gre=el heb=he hin=hi hrv=hr
    hun=hu hye=hy ind=id isl=is ita=it jpn=ja kat=ka kaz=kk kor=ko kur=ku lat=la lav=lv lit=lt mkd=mk msa=ms nld=nl
    nno=nn nob=nb nor=no pes=fa pol=pl por=pt ron=ro rum=ro rus=ru slk=sk slv=sl spa=es sqi=sq srp=sr swa=sw swe=sv
    tam=ta tel=te tgl=tl tha=th tur=tr uig=ug ukr=uk urd=ur uzb=uz vie=vi zho=zh"""
_THREE_LETTERS = dict(pair.split("=") for pair in _ISO_639_3.split())
"""ISO 639-2 and -3 codes seen in corpora, as two letters: casing asks for `tr`, not `tur`."""

_WHOLE = re.compile(r"\.(tsv|csv|jsonl|pot?|g?mo|tmx|(?:sdl|m|mq)?xliff|xlf)$", re.IGNORECASE)
"""Endings of files that hold both languages."""
_FORMATS = re.compile(rf"{_WHOLE.pattern}|\.(txt|text|md|html?|docx|srt|vtt)$", re.IGNORECASE)
_CODE = re.compile(r"[A-Za-z]{2,3}(?:[_-][A-Za-z0-9]+)*")


def languages_of(data: Sequence[str]) -> tuple[str, str]:
    """Source and target language as two-letter codes, "" where the names do not tell.

    `train.en train.de`, `train.en.gz`, `eng-fra.tsv`; `gettext:fr` is English and French.
    """
    if len(data) == 2 and not any(_WHOLE.search(without_packing(Path(name))) for name in data):
        return _last_language(data[0]), _last_language(data[1])
    if not data:
        return "", ""
    if data[0].startswith(GETTEXT):
        return "en", data[0].removeprefix(GETTEXT)
    couples = [(source, target) for source, target in pairwise(_codes(data[0])) if source and target]
    return couples[-1] if couples else ("", "")


def language_code(text: str) -> str:
    """A language code as it is kept, with two letters where there are two; raises `UsageError` for what is none."""
    if not _CODE.fullmatch(text):
        raise UsageError('"{language}" is not a language code; write it like fr, tr or pt_BR', text)
    return _THREE_LETTERS.get(text.lower(), text)


def primary_language(tag: str) -> str:
    """The language of a tag without its region, with two letters where there are two: `en` of `en-US`."""
    code = re.split(r"[-_@]", tag)[0].lower()
    return _THREE_LETTERS.get(code, code)


def _last_language(name: str) -> str:
    codes = _codes(name)
    return codes[-1] if codes else ""


def _codes(name: str) -> list[str]:
    """Language code of each part of a file name, "" for a part that is none: `train.eng-fra.tsv.gz` -> "", en, fr."""
    parts = re.split(r"[._-]", _FORMATS.sub("", without_packing(Path(name))).lower())
    return [part if part in _TWO_LETTERS else _THREE_LETTERS.get(part, "") for part in parts]
