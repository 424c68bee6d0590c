"""Copies of training pairs with a mark of how they address somebody, so that a translator learns to be asked for it."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator

from dikkat.data.cleaning import CleaningReport
from dikkat.data.languages import primary_language
from dikkat.data.pairs import Pair
from dikkat.tasks.common.settings import Request
from dikkat_runtime.errors import DataError, UsageError, msg
from dikkat_runtime.tasks.reading import FORMALITY_MARKS

_FAMILIAR = {
    "fr": r"\b(?:t'|(?:tu|toi|ton|ta|tes|te|tien(?:ne)?s?)\b)",
    "de": r"\b(?:du|dich|dir|dein(?:e[mnrs]?)?)\b",
    "tr": r"\b(?:sen|seni|sana|senin|senden|sende|seninle)\b",
}
_POLITE = {
    "fr": r"\b(?:vous|votre|vos|vôtres?)\b",
    # at the beginning of a sentence these are she, they, and her and their
    "de": r"(?<=[\w,;:] )(?:Sie|Ihnen|Ihr(?:e[mnrs]?)?)\b",
    "tr": r"\b(?:siz|siz[ie]|sizin|sizden|sizde|sizinle)\b",
}
FORMALITY_LANGUAGES = tuple(_FAMILIAR)


def addressed(pairs: Iterable[Pair], language: str) -> Iterator[tuple[str, Pair]]:
    """Yield the pairs whose target addresses somebody, with "less" where it says "tu" and "more" where "vous".

    The mark of that formality stands before their sources. `language`, that of the target, is one of
    `FORMALITY_LANGUAGES`; pairs with both words are left out.
    """
    usual = re.IGNORECASE if language != "de" else re.NOFLAG
    kinds = {"less": re.compile(_FAMILIAR[language], re.IGNORECASE), "more": re.compile(_POLITE[language], usual)}
    for pair in pairs:
        said = [kind for kind, words in kinds.items() if words.search(pair.target.replace("’", "'"))]
        if len(said) == 1:
            yield said[0], Pair(FORMALITY_MARKS[said[0]] + pair.source, pair.target, pair.line)


def note_formality(request: Request, pairs: Iterable[Pair], report: CleaningReport, language: str) -> None:
    """Note how many pairs are formal and familiar. Raises `UsageError` for another language, `DataError` for none."""
    if (own := primary_language(language)) not in FORMALITY_LANGUAGES:
        raise UsageError(
            "{where}: data.formality is learned by the pronouns of {known}, not of {language}; leave it out"
        ).fill(request.where, ", ".join(FORMALITY_LANGUAGES), own or msg("an unknown language"))
    kinds = Counter(kind for kind, _ in addressed(pairs, own))
    # a base that has learned it goes on without
    if request.start is None and not (kinds["more"] and kinds["less"]):
        raise DataError(
            "{data}: {more:,} pairs address somebody formally and {less:,} familiarly, and data.formality needs both; "
            "give more pairs, or leave it out"
        ).fill(" ".join(request.data), kinds["more"], kinds["less"])
    report.notes.append(
        msg("formality: {more:,} pairs address somebody formally, {less:,} familiarly").fill(
            kinds["more"], kinds["less"]
        )
    )
