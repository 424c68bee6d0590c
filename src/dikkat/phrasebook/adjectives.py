"""The adjectives, adverbs, pronouns and time expressions of the phrasebook."""

from __future__ import annotations

from dikkat.phrasebook.entries import Adjective, Adverb, Pronoun, Tense, Time
from dikkat.phrasebook.nouns import NUMBERS

PRESENT, PAST, FUTURE = Tense


def _adjective(
    english: str,
    french: str,
    turkish: str,
    kinds: str,
    *,
    before: bool = False,
    gradable: bool = True,
    state: bool = False,
    animate: str = "",
) -> Adjective:
    return Adjective(
        english, french, turkish, frozenset(kinds.split()), before, gradable, state, animate_turkish=animate
    )


def _colour(english: str, french: str, turkish: str, kinds: str) -> Adjective:
    return Adjective(english, french, turkish, frozenset(kinds.split()), gradable=False, colour=True)


ADJECTIVES = (
    _adjective("big", "grand", "büyük", "animal thing place", before=True),
    _adjective("small", "petit", "küçük", "animal child thing place fruit", before=True),
    _adjective("old", "vieux", "eski", "person animal thing place", before=True, animate="yaşlı"),
    _adjective("new", "nouveau", "yeni", "thing landmark", before=True, gradable=False),
    _adjective("young", "jeune", "genç", "person", before=True),
    _adjective("beautiful", "beau", "güzel", "gift place bird", before=True),
    _adjective("good", "bon", "iyi", "food drink readable kin", before=True),
    _adjective("bad", "mauvais", "kötü", "food drink readable", before=True),
    _adjective("serious", "sérieux", "ciddi", "person"),
    _adjective("long", "long", "uzun", "written", before=True),
    _adjective("heavy", "lourd", "ağır", "furniture container repairable"),
    _adjective("expensive", "cher", "pahalı", "gift repairable furniture drink"),
    _adjective("wide", "large", "geniş", "crossed"),
    _adjective("narrow", "étroit", "dar", "crossed container"),
    _adjective("warm", "chaud", "sıcak", "warm"),
    _adjective("cold", "froid", "soğuk", "warm indoors"),
    _adjective("clean", "propre", "temiz", "washable indoors"),
    _adjective("dirty", "sale", "kirli", "washable cleanable"),
    _adjective("empty", "vide", "boş", "container indoors", gradable=False),
    _adjective("fresh", "frais", "taze", "fruit"),
    _adjective("delicious", "délicieux", "lezzetli", "food"),
    _adjective("interesting", "intéressant", "ilginç", "readable sights sight"),
    _adjective("famous", "célèbre", "ünlü", "person sights"),
    _adjective("rich", "riche", "zengin", "person"),
    _adjective("poor", "pauvre", "fakir", "person"),
    _adjective("intelligent", "intelligent", "akıllı", "person animal"),
    _adjective("kind", "gentil", "nazik", "person"),
    _adjective("lazy", "paresseux", "tembel", "person animal"),
    _adjective("brave", "courageux", "cesur", "person animal"),
    _adjective("strong", "fort", "güçlü", "person animal"),
    _adjective("dangerous", "dangereux", "tehlikeli", "animal"),
    _adjective("fast", "rapide", "hızlı", "animal awaited"),
    _adjective("quiet", "calme", "sakin", "person animal place"),
    _adjective("happy", "heureux", "mutlu", "person", state=True),
    _adjective("sad", "triste", "üzgün", "person", state=True),
    _adjective("tired", "fatigué", "yorgun", "person animal", state=True),
    _adjective("sick", "malade", "hasta", "person animal", state=True, gradable=False),
    _adjective("busy", "occupé", "meşgul", "person", state=True),
    _colour("red", "rouge", "kırmızı", "coloured ripe"),
    _colour("white", "blanc", "beyaz", "coloured furred"),
    _colour("black", "noir", "siyah", "coloured furred"),
    _colour("green", "vert", "yeşil", "coloured ripe"),
    _colour("blue", "bleu", "mavi", "coloured"),
    _colour("yellow", "jaune", "sarı", "coloured ripe"),
    _colour("gray", "gris", "gri", "coloured furred"),
)

FREQUENCY = (
    Adverb("often", "souvent", "sık sık", frequency=True),
    Adverb("always", "toujours", "her zaman", frequency=True),
    Adverb("never", "jamais", "hiç", frequency=True, never=True),
)
MANNER = (
    Adverb("slowly", "lentement", "yavaş yavaş"),
    Adverb("quickly", "rapidement", "hızlı hızlı"),
    Adverb("quietly", "tranquillement", "sessizce"),
)

I = Pronoun(  # noqa: E741 (the English pronoun)
    "I", "me", "my", 1, False, "m", "je", "me", "me", "moi",
    ("ben", "beni", "bana", "bende", "benden", "benim", "benimle"),
)  # fmt: skip
YOU = Pronoun(
    "you", "you", "your", 2, False, "m", "tu", "te", "te", "toi",
    ("sen", "seni", "sana", "sende", "senden", "senin", "seninle"),
)  # fmt: skip
HE = Pronoun(
    "he", "him", "his", 3, False, "m", "il", "le", "lui", "lui",
    ("o", "onu", "ona", "onda", "ondan", "onun", "onunla"),
)  # fmt: skip
SHE = Pronoun(
    "she", "her", "her", 3, False, "f", "elle", "la", "lui", "elle",
    ("o", "onu", "ona", "onda", "ondan", "onun", "onunla"),
)  # fmt: skip
WE = Pronoun(
    "we", "us", "our", 1, True, "m", "nous", "nous", "nous", "nous",
    ("biz", "bizi", "bize", "bizde", "bizden", "bizim", "bizimle"),
)  # fmt: skip
THEY = Pronoun(
    "they", "them", "their", 3, True, "m", "ils", "les", "leur", "eux",
    ("onlar", "onları", "onlara", "onlarda", "onlardan", "onların", "onlarla"),
)  # fmt: skip
WHO = Pronoun(
    "who", "whom", "whose", 3, False, "m", "qui", "qui", "qui", "qui",
    ("kim", "kimi", "kime", "kimde", "kimden", "kimin", "kiminle"),
)  # fmt: skip
PRONOUNS = (I, YOU, HE, SHE, WE, THEY)

_DAYS = (
    ("Monday", "lundi", "pazartesi"),
    ("Tuesday", "mardi", "salı"),
    ("Wednesday", "mercredi", "çarşamba"),
    ("Thursday", "jeudi", "perşembe"),
    ("Friday", "vendredi", "cuma"),
    ("Saturday", "samedi", "cumartesi"),
    ("Sunday", "dimanche", "pazar"),
)
_UNITS = (("days", "jours", "gün"), ("weeks", "semaines", "hafta"), ("months", "mois", "ay"))
_HOURS = ("ikide", "üçte", "dörtte", "beşte", "altıda", "yedide", "sekizde", "dokuzda", "onda", "on birde")

TIMES = (
    Time("yesterday", "hier", "dün", (PAST,)),
    Time("yesterday evening", "hier soir", "dün akşam", (PAST,)),
    Time("last week", "la semaine dernière", "geçen hafta", (PAST,)),
    Time("last year", "l'année dernière", "geçen yıl", (PAST,)),
    Time("this morning", "ce matin", "bu sabah", (PRESENT, PAST)),
    Time("today", "aujourd'hui", "bugün", (PRESENT, PAST, FUTURE)),
    Time("now", "maintenant", "şimdi", (PRESENT,)),
    Time("this evening", "ce soir", "bu akşam", (PRESENT, FUTURE)),
    Time("tomorrow", "demain", "yarın", (FUTURE,)),
    Time("tomorrow morning", "demain matin", "yarın sabah", (FUTURE,)),
    Time("next week", "la semaine prochaine", "gelecek hafta", (FUTURE,)),
    Time("next year", "l'année prochaine", "gelecek yıl", (FUTURE,)),
    *(Time(f"on {en}", fr, f"{tr} günü", (PAST, FUTURE)) for en, fr, tr in _DAYS),
)
COUNTED_TIMES = (
    *(
        Time(f"{n.english} {en} ago", f"il y a {n.french} {fr}", f"{n.turkish} {tr} önce", (PAST,))
        for n in NUMBERS
        for en, fr, tr in _UNITS
    ),
    *(
        Time(f"in {n.english} {en}", f"dans {n.french} {fr}", f"{n.turkish} {tr} sonra", (FUTURE,))
        for n in NUMBERS
        for en, fr, tr in _UNITS
    ),
    *(
        Time(f"at {n.english} o'clock", f"à {n.french} heures", f"saat {hour}", (PAST, FUTURE))
        for n, hour in zip(NUMBERS, _HOURS, strict=False)
    ),
)
SEASONS = (
    Time("in summer", "en été", "yazın", (PRESENT,)),
    Time("in winter", "en hiver", "kışın", (PRESENT,)),
)
HABITS = (
    Time("every day", "tous les jours", "her gün", (PRESENT,)),
    Time("every evening", "tous les soirs", "her akşam", (PRESENT,)),
    *(Time(f"every {en}", f"tous les {fr}s", f"her {tr}", (PRESENT,)) for en, fr, tr in _DAYS),
)
