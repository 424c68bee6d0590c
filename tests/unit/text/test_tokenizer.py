"""Tokenizer: lossless and deterministic byte-level BPE, and whole words as the d2l text has them."""

from __future__ import annotations

import errno
import json
import os
import unicodedata
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dikkat.config import TokenizerConfig
from dikkat_runtime.errors import DataError, DiskError, MissingInputError
from dikkat_runtime.special_tokens import SPECIAL_TOKENS
from dikkat_runtime.text.tokenizer import Tokenizer

TEXTS = [
    "A dog runs over the green grass.",
    "Two dogs don't run; they're sleeping in 2024.",
    "Un chien court sur l'herbe verte, l'eau est froide.",
    "L'homme qu'il a vu n'a pas d'argent.",
    "İstanbul'da bir köpek koşuyor, Ankara'da iki kedi uyuyor.",
    "Ein Hund läuft über das grüne Gras und schläft.",
] * 3

BYTES = Tokenizer.train(TEXTS, TokenizerConfig(vocab_size=500))

# No halves of surrogate pairs, which are no text, and no characters that this Python's Unicode does not know yet.
ANY_TEXT = st.text(st.characters(exclude_categories=("Cs", "Cn")))


def words(texts: list[str], *, lowercase: bool = True, min_frequency: int = 1) -> Tokenizer:
    return Tokenizer.train(texts, TokenizerConfig(kind="words", lowercase=lowercase, min_frequency=min_frequency))


@given(ANY_TEXT)
@example("  leading,  inner and trailing   ")
@example("tab\tline\nline\r\nnul\0 end \n")
@example("<eos> <pad><bos></s> <unk> ▁ ▁dog Ġdog")
@example("👩‍🚒🇹🇷 ﷽ e\u0301 \u0301 가각")
@example("\u00a0\u202f\u2028\u200b\ufeff")
def test_bpe_gives_every_text_back(text: str) -> None:
    ids = BYTES.encode(text)
    assert BYTES.decode(ids) == unicodedata.normalize("NFC", text)
    assert min(ids, default=4) >= len(SPECIAL_TOKENS)


def test_every_byte_has_an_entry() -> None:
    # All of UTF-8's lead and continuation bytes, none of it seen in training.
    text = "".join(chr(code) for code in [*range(0x800), *range(0x800, 0x110000, 997)] if not 0xD800 <= code < 0xE000)
    assert BYTES.unk_id not in BYTES.encode(text)
    assert Tokenizer.train([], TokenizerConfig()).vocab_size == 256 + len(SPECIAL_TOKENS)


def test_special_ids_are_fixed() -> None:
    for tokenizer in (BYTES, words(TEXTS)):
        assert (tokenizer.pad_id, tokenizer.bos_id, tokenizer.eos_id, tokenizer.unk_id) == (0, 1, 2, 3)
        assert tokenizer.pieces([0, 1, 2, 3]) == ["<pad>", "<bos>", "<eos>", "<unk>"]


@pytest.mark.parametrize("kind", ["bpe", "unigram", "words"])
@pytest.mark.parametrize("special", SPECIAL_TOKENS)
def test_special_tokens_are_never_read_out_of_text(kind: Literal["bpe", "unigram", "words"], special: str) -> None:
    texts = [special, f"a {special} b", f"a{special}b", special * 2]
    # Seen often in training too: no merge and no word may take the place of the special token.
    tokenizer = Tokenizer.train(texts * 50, TokenizerConfig(kind=kind, vocab_size=600))
    assert min(map(min, tokenizer.encode_batch(texts))) >= len(SPECIAL_TOKENS)
    assert tokenizer.pieces(range(4)) == list(SPECIAL_TOKENS)
    assert max(map(max, tokenizer.encode_batch(texts))) < tokenizer.vocab_size


def test_decoding_drops_padding_and_marks() -> None:
    ids = BYTES.encode("A dog runs.")
    assert BYTES.decode([1, *ids, 2, 0, 0]) == "A dog runs."
    assert BYTES.decode_batch([[1, 2], [*ids, 2]]) == ["", "A dog runs."]
    tokenizer = words(["go ."])
    assert tokenizer.decode([1, *tokenizer.encode("go stop ."), 2, 0]) == "go <unk> ."


@pytest.mark.parametrize("kind", ["bpe", "unigram", "words"])
def test_training_twice_gives_the_same_ids(tmp_path: Path, kind: Literal["bpe", "unigram", "words"]) -> None:
    config = TokenizerConfig(kind=kind, vocab_size=400, min_frequency=1)
    for name, texts in (("first", TEXTS), ("again", TEXTS), ("reversed", TEXTS[::-1])):
        Tokenizer.train(texts, config).save(tmp_path / name)
    first = (tmp_path / "first").read_bytes()
    assert (tmp_path / "again").read_bytes() == first
    assert (tmp_path / "reversed").read_bytes() == first


def test_saved_and_loaded_encodes_the_same(tmp_path: Path) -> None:
    for tokenizer in (BYTES, words(TEXTS)):
        tokenizer.save(tmp_path / "tokenizer.json")
        loaded = Tokenizer.load(tmp_path / "tokenizer.json")
        texts = [*TEXTS, "<eos> Unseen, İzmir!", ""]
        assert loaded.encode_batch(texts) == tokenizer.encode_batch(texts)
        assert loaded.decode_batch(loaded.encode_batch(texts)) == tokenizer.decode_batch(tokenizer.encode_batch(texts))
        assert loaded.vocab_size == tokenizer.vocab_size
    assert os.listdir(tmp_path) == ["tokenizer.json"]


def test_batch_equals_one_by_one() -> None:
    assert BYTES.encode_batch(TEXTS) == [BYTES.encode(text) for text in TEXTS]
    assert BYTES.encode_batch([]) == []


def test_a_word_has_the_same_ids_at_the_start_and_within() -> None:
    dog = BYTES.encode("dog")
    assert BYTES.encode("the dog")[-len(dog) :] == dog


def test_pieces_show_where_words_start_and_never_lose_a_byte() -> None:
    pieces = BYTES.pieces(BYTES.encode("A dog"))
    assert "".join(pieces) == "▁A▁dog"
    assert pieces[0].startswith("▁")
    assert BYTES.pieces(BYTES.encode("\n\t")) == ["▁", "\\n", "\\t"]
    assert "".join(BYTES.pieces(BYTES.encode("语"))) == "▁\\xe8\\xaf\\xad"
    with pytest.raises(IndexError, match=f"no id {BYTES.vocab_size} in a vocabulary of {BYTES.vocab_size}"):
        BYTES.pieces([BYTES.vocab_size])


def test_digits_stand_alone() -> None:
    tokenizer = Tokenizer.train(["in 2024 and 2024 or 2024"] * 99, TokenizerConfig())
    assert tokenizer.pieces(tokenizer.encode("2024")) == ["▁2", "0", "2", "4"]


def test_the_data_decides_on_which_side_an_apostrophe_stays() -> None:
    french = Tokenizer.train(
        [f"l'{noun}" for noun in ("eau", "ami", "oie", "ours", "île")] * 9, TokenizerConfig(vocab_size=301)
    )
    assert french.pieces(french.encode("l'air"))[0] == "▁l'"
    turkish = Tokenizer.train(
        [f"{city}'da" for city in ("Van", "Muş", "Kars", "Ordu")] * 9, TokenizerConfig(vocab_size=301)
    )
    assert turkish.pieces(turkish.encode("Rize'da"))[-1] == "'da"


def test_vocabulary_stays_within_its_limit_and_rare_pairs_get_no_entry() -> None:
    assert Tokenizer.train(TEXTS, TokenizerConfig(vocab_size=301)).vocab_size == 301
    assert Tokenizer.train(["dog"], TokenizerConfig(min_frequency=2)).vocab_size == 260
    assert Tokenizer.train(["dog"], TokenizerConfig(min_frequency=1)).vocab_size == 263  # " d", " do", " dog"


def test_bpe_lower_cases_when_asked() -> None:
    tokenizer = Tokenizer.train(TEXTS, TokenizerConfig(lowercase=True))
    assert tokenizer.decode(tokenizer.encode("A DOG in Ankara")) == "a dog in ankara"


@pytest.mark.seed("E11")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Go.", ["go", "."]),
        ("J'ai perdu.", ["j'ai", "perdu", "."]),
        ("He's calm.", ["he's", "calm", "."]),
        ("Va\u202f!", ["va", "!"]),
        ("Je\u00a0suis chez moi.", ["je", "suis", "chez", "moi", "."]),
        ("Well, go!  Now?", ["well", ",", "go", "!", "now", "?"]),
    ],
)
def test_words_are_split_as_in_the_d2l_text(text: str, expected: list[str]) -> None:
    tokenizer = words([text])
    ids = tokenizer.encode(text)
    assert tokenizer.pieces(ids) == expected
    assert tokenizer.decode(ids) == " ".join(expected)


def test_rare_and_unseen_words_are_unknown() -> None:
    tokenizer = words(["go go stop"], min_frequency=2)
    assert tokenizer.pieces(tokenizer.encode("go stop jump")) == ["go", "<unk>", "<unk>"]
    assert tokenizer.vocab_size == 5


def test_words_keep_their_case_unless_asked() -> None:
    tokenizer = words(["Go home"], lowercase=False)
    assert tokenizer.pieces(tokenizer.encode("Go go")) == ["Go", "<unk>"]


@pytest.mark.seed("F40")
def test_each_language_is_lowered_by_its_own_rules(tmp_path: Path) -> None:
    config = TokenizerConfig(kind="words", lowercase=True, min_frequency=1)
    Tokenizer.train(["I SIT"], config, ("en", "tr"), ["ISI İYİ", "I\u0302\u015f"]).save(tmp_path / "t.json")
    tokenizer = Tokenizer.load(tmp_path / "t.json")
    assert tokenizer.pieces(tokenizer.encode("I SIT", "en")) == ["i", "sit"]
    assert tokenizer.pieces(tokenizer.encode("ISI İYİ Îş", "tr")) == ["ısı", "iyi", "îş"]
    assert tokenizer.pieces(tokenizer.encode("ISI İYİ")) == ["<unk>", "<unk>"]  # without its language: the fault


def test_the_language_changes_nothing_where_case_is_kept() -> None:
    assert BYTES.decode(BYTES.encode("ISI İYİ", "tr")) == "ISI İYİ"


def test_half_a_surrogate_pair_is_no_text() -> None:
    with pytest.raises(DataError, match=r"'a\\ud800': not text: it holds half of a surrogate pair"):
        BYTES.encode_batch(["fine", "a\ud800"])


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(MissingInputError, match=r"none\.json: cannot read the tokenizer: No such file"):
        Tokenizer.load(tmp_path / "none.json")


def test_damaged_file(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    BYTES.save(path)
    whole = path.read_bytes()
    for damaged in (b"", b"{}", whole[: len(whole) // 2], b"\xff\xfe" + whole):
        path.write_bytes(damaged)
        with pytest.raises(DataError, match=r"tokenizer\.json: not a readable tokenizer"):
            Tokenizer.load(path)


def test_foreign_tokenizer(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    BYTES.save(path)
    settings = json.loads(path.read_text(encoding="utf-8"))
    settings["added_tokens"] = []
    settings["model"]["vocab"] = {f"x{token}": i for token, i in settings["model"]["vocab"].items()}
    settings["model"]["merges"] = []
    path.write_text(json.dumps(settings), encoding="utf-8")
    with pytest.raises(DataError, match=r"not a tokenizer of dikkat: ids 0 to 3 must be <pad>, <bos>, <eos>, <unk>"):
        Tokenizer.load(path)


def test_a_full_disk_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_text("old")

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(DiskError, match=r"tokenizer\.json: writing failed: No space left on device"):
        BYTES.save(path)
    assert path.read_text() == "old"


@given(ANY_TEXT)
@example("<eos> \r\n\x00 e\u0301 \ufffd 😀")
def test_bytes_are_lossless_and_know_everything(text: str) -> None:
    tokenizer = Tokenizer.train([], TokenizerConfig(kind="bytes"))
    assert tokenizer.vocab_size == len(SPECIAL_TOKENS) + 256
    ids = tokenizer.encode(text)
    assert len(ids) == len(text.encode())
    assert tokenizer.decode(ids) == text
    assert tokenizer.unknown(text) == []


@given(ANY_TEXT)
@example("<eos>\n\n \r\te\u0301")
def test_characters_are_lossless_on_what_was_seen(text: str) -> None:
    tokenizer = Tokenizer.train([text[::-1], text], TokenizerConfig(kind="characters"))
    ids = tokenizer.encode(text)
    assert len(ids) == len(text)
    assert tokenizer.decode(ids) == text
    assert tokenizer.unknown(text) == []


def test_an_unseen_character_is_unknown_and_named(tmp_path: Path) -> None:
    tokenizer = Tokenizer.train(["abba\n"], TokenizerConfig(kind="characters"))
    assert tokenizer.vocab_size == len(SPECIAL_TOKENS) + 3
    tokenizer.save(tmp_path / "tokenizer.json")
    again = Tokenizer.load(tmp_path / "tokenizer.json")
    for item in (tokenizer, again):
        assert item.encode("aßb") == [*item.encode("a"), item.unk_id, *item.encode("b")]
        assert item.unknown("aßbß😀") == ["ß", "😀"]
    lower = Tokenizer.train(["ABBA"], TokenizerConfig(kind="characters", lowercase=True))
    assert lower.decode(lower.encode("AbB")) == "abb"
