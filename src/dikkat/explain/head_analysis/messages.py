"""Messages of the analysis of heads in English, of which a catalog has the other languages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from dikkat.explain.head_analysis.head_stats import AttentionTarget
from dikkat.explain.languages import spoken
from dikkat_runtime.errors import UsageError
from dikkat_runtime.localization import LANGUAGES


@dataclass(frozen=True, slots=True)
class Caution:
    """Hold the line that says when a map is no alignment, and its reasons."""

    line: str = "Do not read this map as an alignment: {reasons}."
    special: str = "{share} of its attention lies on marks and punctuation"
    spread: str = "a row is spread over {effective:.0f} of {keys} tokens"
    elsewhere: str = (
        "for {share} of the written tokens it looks most at another token than the one that is needed most "
        "(by occlusion)"
    )
    unrelated: str = (
        "the order of its weights hardly follows what the output depends on "
        "(rank correlation with occlusion {correlation:.2f}; sharing the first token alone gives {chance:.2f})"
    )


@dataclass(frozen=True, slots=True)
class KindWords:
    """Hold the names of what is measured of a kind of model."""

    unit: str
    """What its heads are examined on."""
    per: str
    """Unit of the loss."""
    score: str
    """Name of the other measure; empty where there is none."""


@dataclass(frozen=True, slots=True)
class HeadsTable:
    """Hold title, headings and closing lines of the table of all heads."""

    title: str = "{path}: {sentences} {unit}; all heads on: loss {loss:.3f} nats a {per}{score}"
    kinds: Mapping[str, KindWords] = field(
        default_factory=lambda: {
            "translator": KindWords("pairs", "token", "chrF"),
            "classifier": KindWords("texts", "text", "accuracy"),
            "multi_label": KindWords("texts", "text", "micro F1"),
            "lm": KindWords("windows", "token", ""),
        }
    )
    headings: tuple[str, ...] = (
        "head",
        "entropy",
        "of max",
        "distance",
        "drawn to",
        "",
        "loss lost",
        "{score} lost",
        "aligned",
    )
    attentions: Mapping[tuple[str, str], str] = field(
        default_factory=lambda: {
            ("encoder", "self"): "encoder self",
            ("decoder", "self"): "decoder self",
            ("decoder", "cross"): "cross",
        }
    )
    head: str = "{attention}, layer {layer}, head {head}"
    targets: Mapping[AttentionTarget | None, str] = field(
        default_factory=lambda: {
            "marks": "<bos>, <eos>",
            "punctuation": "punctuation",
            "before": "one position before",
            "same": "the same position",
            "after": "one position after",
            "first": "the first token",
            "elsewhere": "other words",
            None: "nowhere in particular",
        }
    )
    chosen: str = "Nearest to an alignment: {head}. {judge}"
    by_gold: str = "AER {error} against {name}, the lowest of all (precision {precision}, recall {recall})."
    by_occlusion: str = "For {share} of the written tokens it looks most at the one whose occlusion costs most."
    correlations: str = (
        "Mean rank correlation of its weights with occlusion {occlusion:.2f}, with gradient x input {gradient:.2f}."
    )
    doubtful: str = "Do not read even this head as an alignment: for most tokens it looks elsewhere."
    pruning: str = "The least useful heads switched off together, measured on {sentences} other {unit}:"
    pruned: str = "{count} off ({head} last): loss {loss:+.3f}{score}"


@dataclass(frozen=True, slots=True)
class HeadMessages:
    """Hold all messages of the analysis in one language."""

    percent: str = "{:.{}f}%"
    """Format of a percentage with a number of decimals."""
    caution: Caution = Caution()
    table: HeadsTable = HeadsTable()


def written_share(share: float, words: HeadMessages, decimals: int = 0) -> str:
    """Return 0.5 as "50%" or "%50"."""
    return words.percent.format(100.0 * share, decimals)


def head_messages(language: str) -> HeadMessages:
    """Return the messages in English (`en`) or Turkish (`tr`). Raises `UsageError` for another language."""
    if language not in LANGUAGES:
        raise UsageError(f'there is no table in "{language}"; choose from {", ".join(LANGUAGES)}')
    return spoken(HeadMessages(), language)
