"""French word forms against the conjugations of the Bescherelle and the rules of elision and agreement."""

from __future__ import annotations

import pytest
from tools.phrasebook import french_forms as forms
from tools.phrasebook.lexicon import MODALS, VERBS


@pytest.mark.parametrize(
    ("infinitive", "expected"),
    [
        ("manger", "mange manges mange mangeons mangez mangent"),
        ("commencer", "commence commences commence commençons commencez commencent"),
        ("acheter", "achète achètes achète achetons achetez achètent"),
        ("préférer", "préfère préfères préfère préférons préférez préfèrent"),
        ("appeler", "appelle appelles appelle appelons appelez appellent"),
        ("nettoyer", "nettoie nettoies nettoie nettoyons nettoyez nettoient"),
        ("essayer", "essaie essaies essaie essayons essayez essaient"),
        ("chercher", "cherche cherches cherche cherchons cherchez cherchent"),
        ("choisir", "choisis choisis choisit choisissons choisissez choisissent"),
        ("attendre", "attends attends attend attendons attendez attendent"),
        ("aller", "vais vas va allons allez vont"),
        ("boire", "bois bois boit buvons buvez boivent"),
        ("peindre", "peins peins peint peignons peignez peignent"),
    ],
)
def test_present(infinitive: str, expected: str) -> None:
    assert " ".join(forms.present(infinitive)) == expected


@pytest.mark.parametrize(
    ("infinitive", "expected"),
    [
        ("être", "étais étais était étions étiez étaient"),
        ("avoir", "avais avais avait avions aviez avaient"),
        ("vouloir", "voulais voulais voulait voulions vouliez voulaient"),
        ("manger", "mangeais mangeais mangeait mangions mangiez mangeaient"),
        ("commencer", "commençais commençais commençait commencions commenciez commençaient"),
        ("connaître", "connaissais connaissais connaissait connaissions connaissiez connaissaient"),
    ],
)
def test_imperfect(infinitive: str, expected: str) -> None:
    assert " ".join(forms.imperfect(infinitive)) == expected


@pytest.mark.parametrize(
    ("infinitive", "je"),
    [
        ("être", "serai"),
        ("avoir", "aurai"),
        ("aller", "irai"),
        ("venir", "viendrai"),
        ("voir", "verrai"),
        ("envoyer", "enverrai"),
        ("courir", "courrai"),
        ("vouloir", "voudrai"),
        ("acheter", "achèterai"),
        ("appeler", "appellerai"),
        ("nettoyer", "nettoierai"),
        ("préférer", "préférerai"),
        ("manger", "mangerai"),
        ("finir", "finirai"),
        ("vendre", "vendrai"),
        ("écrire", "écrirai"),
        ("jouer", "jouerai"),
    ],
)
def test_future(infinitive: str, je: str) -> None:
    stem = je[:-2]
    assert forms.future(infinitive) == tuple(stem + ending for ending in ("ai", "as", "a", "ons", "ez", "ont"))


@pytest.mark.parametrize(
    ("infinitive", "expected"),
    [
        ("manger", "mangé"),
        ("finir", "fini"),
        ("vendre", "vendu"),
        ("voir", "vu"),
        ("boire", "bu"),
        ("lire", "lu"),
        ("écrire", "écrit"),
        ("ouvrir", "ouvert"),
        ("dormir", "dormi"),
        ("courir", "couru"),
        ("rire", "ri"),
        ("suivre", "suivi"),
        ("peindre", "peint"),
        ("venir", "venu"),
        ("partir", "parti"),
        ("connaître", "connu"),
        ("perdre", "perdu"),
        ("répondre", "répondu"),
        ("nourrir", "nourri"),
    ],
)
def test_participle(infinitive: str, expected: str) -> None:
    assert forms.participle(infinitive) == expected


def test_auxiliary_of_motion_and_change_is_etre() -> None:
    assert [forms.auxiliary(verb) for verb in ("aller", "rester", "tomber", "marcher", "manger")] == [
        "être",
        "être",
        "être",
        "avoir",
        "avoir",
    ]


@pytest.mark.parametrize(
    ("infinitive", "expected"),
    [
        ("manger", "mange"),
        ("aller", "va"),
        ("ouvrir", "ouvre"),
        ("finir", "finis"),
        ("venir", "viens"),
        ("attendre", "attends"),
        ("lire", "lis"),
    ],
)
def test_imperative_drops_s_after_e_and_a(infinitive: str, expected: str) -> None:
    assert forms.imperative(infinitive) == expected


@pytest.mark.parametrize(
    ("masculine", "feminine", "plurals"),
    [
        ("petit", "petite", ("petits", "petites")),
        ("rouge", "rouge", ("rouges", "rouges")),
        ("blanc", "blanche", ("blancs", "blanches")),
        ("beau", "belle", ("beaux", "belles")),
        ("nouveau", "nouvelle", ("nouveaux", "nouvelles")),
        ("vieux", "vieille", ("vieux", "vieilles")),
        ("heureux", "heureuse", ("heureux", "heureuses")),
        ("cher", "chère", ("chers", "chères")),
        ("neuf", "neuve", ("neufs", "neuves")),
        ("bon", "bonne", ("bons", "bonnes")),
        ("long", "longue", ("longs", "longues")),
        ("gentil", "gentille", ("gentils", "gentilles")),
        ("frais", "fraîche", ("frais", "fraîches")),
        ("gris", "grise", ("gris", "grises")),
        ("fatigué", "fatiguée", ("fatigués", "fatiguées")),
    ],
)
def test_agreement_of_adjectives(masculine: str, feminine: str, plurals: tuple[str, str]) -> None:
    assert forms.agree(masculine, "f", False) == feminine
    assert (forms.agree(masculine, "m", True), forms.agree(masculine, "f", True)) == plurals


def test_masculine_before_a_vowel() -> None:
    assert [forms.before_vowel(word) for word in ("beau", "nouveau", "vieux", "petit")] == [
        "bel",
        "nouvel",
        "vieil",
        "petit",
    ]


@pytest.mark.parametrize(
    ("noun", "expected"),
    [("cheval", "chevaux"), ("journal", "journaux"), ("gâteau", "gâteaux"), ("souris", "souris"), ("roi", "rois")],
)
def test_plural_of_nouns(noun: str, expected: str) -> None:
    assert forms.plural(noun) == expected


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["je", "aime", "le", "ami"], "j'aime l'ami"),
        (["je", "ne", "ai", "pas", "de", "eau"], "je n'ai pas d'eau"),
        (["le", "homme"], "l'homme"),
        (["est-ce que", "elle", "dort"], "est-ce qu'elle dort"),
        (["que", "onze", "rois"], "que onze rois"),
        (["le", "héros"], "le héros"),
        (["la", "huit"], "la huit"),
        (["tu", "aimes"], "tu aimes"),
    ],
)
def test_elision(words: list[str], expected: str) -> None:
    assert forms.join(words) == expected


@pytest.mark.parametrize(
    ("finite", "pronoun", "expected"),
    [
        ("aime", "il", "aime-t-il"),
        ("a", "elle", "a-t-elle"),
        ("vois", "tu", "vois-tu"),
        ("attend", "il", "attend-il"),
        ("va", "elle", "va-t-elle"),
        ("aime", "nous", "aime-nous"),
        ("mangent", "ils", "mangent-ils"),
        ("ira", "il", "ira-t-il"),
    ],
)
def test_inversion_inserts_t_between_vowels(finite: str, pronoun: str, expected: str) -> None:
    assert forms.invert(finite, pronoun) == expected


def test_every_verb_of_the_lexicon_belongs_to_a_known_conjugation() -> None:
    irregular_endings = ("oir", "ire", "ivre", "indre", "aître", "mir", "tir", "nir", "ouvrir", "courir")
    for infinitive in {verb.french for verb in (*VERBS, *(modal.verb for modal in MODALS))}:
        regular = not infinitive.endswith(irregular_endings)
        nous = forms.present(infinitive)[3]
        assert nous.endswith("ons"), infinitive
        if regular and infinitive.endswith("ir"):
            assert nous.endswith("issons"), infinitive
