"""Languages guessed from text, and names that the text contradicts."""

from __future__ import annotations

import pytest

from dikkat.data.languages import contradicted_by, guess_language

TEXTS = {
    "en": "The weather was good and we all went to the river, where my sister had left her old bicycle. ",
    "tr": "Hava güzeldi ve hepimiz nehre gittik, kız kardeşim eski bisikletini orada bırakmıştı. ",
    "fr": "Il faisait beau et nous sommes tous allés à la rivière, où ma sœur avait laissé son vieux vélo. ",
    "de": "Das Wetter war schön und wir gingen alle zum Fluss, wo meine Schwester ihr altes Fahrrad ließ. ",
    "zh": "天气很好，我们都去了河边，我姐姐把她的旧自行车留在那里。我们在那里待了一个下午，然后回家吃饭。",
    "ja": "天気がよかったので、みんなで川へ行きました。姉は古い自転車をそこに置いてきました。",
    "ar": "كان الطقس جميلا وذهبنا جميعا إلى النهر حيث تركت أختي دراجتها القديمة. ",
    "ru": "Погода была хорошая, и мы все пошли к реке, где моя сестра оставила свой старый велосипед. ",
}


@pytest.mark.parametrize("language", TEXTS)
def test_a_language_is_told_by_its_text(language: str) -> None:
    assert guess_language([TEXTS[language]] * 6) == language


@pytest.mark.parametrize("text", ["", "OK", "x1 y2 z3", "qx zk vw jq xz kw " * 20, "12 34"])
def test_nothing_is_guessed_of_too_little(text: str) -> None:
    assert guess_language([text]) == ""


def test_text_contradicts_a_name() -> None:
    assert contradicted_by([TEXTS["tr"]] * 6, "en") == "tr"
    assert contradicted_by([TEXTS["tr"]] * 6, "tr_TR") == ""
    assert contradicted_by([TEXTS["en"]] * 6, "tlh") == "", "nothing is known of how Klingon reads"
    assert contradicted_by([TEXTS["zh"]] * 6, "yue") == ""
    assert contradicted_by(["short"], "tr") == ""
