"""Messages of the analysis of heads in English and Turkish."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dikkat.explain.head_analysis.head_stats import AttentionTarget
from dikkat_runtime.errors import UsageError


@dataclass(frozen=True, slots=True)
class Caution:
    """Hold the line that says when a map is no alignment, and its reasons."""

    line: str
    special: str
    spread: str
    elsewhere: str
    unrelated: str


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

    title: str
    kinds: Mapping[str, KindWords]
    headings: tuple[str, ...]
    attentions: Mapping[tuple[str, str], str]
    head: str
    targets: Mapping[AttentionTarget | None, str]
    chosen: str
    by_gold: str
    by_occlusion: str
    correlations: str
    doubtful: str
    pruning: str
    pruned: str


@dataclass(frozen=True, slots=True)
class HeadMessages:
    """Hold all messages of the analysis in one language."""

    percent: str
    """Format of a percentage with a number of decimals."""
    caution: Caution
    table: HeadsTable


ENGLISH = HeadMessages(
    percent="{:.{}f}%",
    caution=Caution(
        line="Do not read this map as an alignment: {reasons}.",
        special="{share} of its attention lies on marks and punctuation",
        spread="a row is spread over {effective:.0f} of {keys} tokens",
        elsewhere="for {share} of the written tokens it looks most at another token than the one that is needed most "
        "(by occlusion)",
        unrelated="the order of its weights hardly follows what the output depends on "
        "(rank correlation with occlusion {correlation:.2f}; sharing the first token alone gives {chance:.2f})",
    ),
    table=HeadsTable(
        title="{path}: {sentences} {unit}; all heads on: loss {loss:.3f} nats a {per}{score}",
        kinds={
            "translator": KindWords("pairs", "token", "chrF"),
            "classifier": KindWords("texts", "text", "accuracy"),
            "multi_label": KindWords("texts", "text", "micro F1"),
            "lm": KindWords("windows", "token", ""),
        },
        headings=("head", "entropy", "of max", "distance", "drawn to", "", "loss lost", "{score} lost", "aligned"),
        attentions={
            ("encoder", "self"): "encoder self",
            ("decoder", "self"): "decoder self",
            ("decoder", "cross"): "cross",
        },
        head="{attention}, layer {layer}, head {head}",
        targets={
            "marks": "<bos>, <eos>",
            "punctuation": "punctuation",
            "before": "one position before",
            "same": "the same position",
            "after": "one position after",
            "first": "the first token",
            "elsewhere": "other words",
            None: "nowhere in particular",
        },
        chosen="Nearest to an alignment: {head}. {judge}",
        by_gold="AER {error} against {name}, the lowest of all (precision {precision}, recall {recall}).",
        by_occlusion="For {share} of the written tokens it looks most at the one whose occlusion costs most.",
        correlations="Mean rank correlation of its weights with occlusion {occlusion:.2f}, "
        "with gradient x input {gradient:.2f}.",
        doubtful="Do not read even this head as an alignment: for most tokens it looks elsewhere.",
        pruning="The least useful heads switched off together, measured on {sentences} other {unit}:",
        pruned="{count} off ({head} last): loss {loss:+.3f}{score}",
    ),
)

TURKISH = HeadMessages(
    percent="%{:.{}f}",
    caution=Caution(
        line="Bu haritayı sözcük eşleştirmesi olarak okumayın: {reasons}.",
        special="dikkatin işaret ve noktalama belirteçlerine düşen payı {share}",
        spread="bir satır {keys} belirteçten {effective:.0f} tanesine yayılıyor",
        elsewhere="yazılan belirteçlerin {share} kadarında, en çok gerek duyulandan (kapatma ile) başka bir belirtece "
        "bakıyor",
        unrelated="ağırlıkların sırası, çıktının neye bağlı olduğunu pek izlemiyor "
        "(kapatma ile sıra korelasyonu {correlation:.2f}; yalnız ilk belirtecin aynı olması {chance:.2f} verir)",
    ),
    table=HeadsTable(
        title="{path}: {sentences} {unit}; bütün kafalar açıkken kayıp {per} başına {loss:.3f} nat{score}",
        kinds={
            "translator": KindWords("çift", "belirteç", "chrF"),
            "classifier": KindWords("metin", "metin", "doğruluk"),
            "multi_label": KindWords("metin", "metin", "mikro F1"),
            "lm": KindWords("pencere", "belirteç", ""),
        },
        headings=(
            "kafa", "entropi", "en çoğa oran", "uzaklık", "çekildiği yer", "", "kayıp artışı", "{score} düşüşü",
            "eşleşme",
        ),
        attentions={
            ("encoder", "self"): "kodlayıcı öz",
            ("decoder", "self"): "kodçözücü öz",
            ("decoder", "cross"): "çapraz",
        },
        head="{attention}, katman {layer}, kafa {head}",
        targets={
            "marks": "<bos>, <eos>",
            "punctuation": "noktalama",
            "before": "bir önceki konum",
            "same": "aynı konum",
            "after": "bir sonraki konum",
            "first": "ilk belirteç",
            "elsewhere": "öteki sözcükler",
            None: "belirli bir yere değil",
        },
        chosen="Sözcük eşleştirmesine en yakın kafa: {head}. {judge}",
        by_gold="{name} dosyasına göre AER {error}, en düşüğü (kesinlik {precision}, duyarlılık {recall}).",
        by_occlusion="Yazılan belirteçlerin {share} kadarında, gizlenmesi en çok zarar veren belirtece en çok bakıyor.",
        correlations="Ağırlıklarının ortalama sıra korelasyonu: kapatma ile {occlusion:.2f}, "
        "gradyan x girdi ile {gradient:.2f}.",
        doubtful="Bu kafayı bile sözcük eşleştirmesi olarak okumayın: belirteçlerin çoğunda başka yere bakıyor.",
        pruning="En az işe yarayan kafalar birlikte kapatılınca, başka {sentences} {unit} üzerinde ölçüldü:",
        pruned="{count} kapalı (son kapatılan: {head}): kayıp {loss:+.3f}{score}",
    ),
)  # fmt: skip

_WORDINGS = {"en": ENGLISH, "tr": TURKISH}


def written_share(share: float, words: HeadMessages, decimals: int = 0) -> str:
    """Return 0.5 as "50%" or "%50"."""
    return words.percent.format(100.0 * share, decimals)


def head_messages(language: str) -> HeadMessages:
    """Return the messages in English (`en`) or Turkish (`tr`). Raises `UsageError` for another language."""
    if language not in _WORDINGS:
        raise UsageError(f'there is no table in "{language}"; choose from {", ".join(_WORDINGS)}')
    return _WORDINGS[language]
