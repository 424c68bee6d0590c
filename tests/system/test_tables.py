"""Files as people have them: what they look like is told before anything is trained on them."""

from __future__ import annotations

import bz2
import json
import lzma
import random
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from tests.system.toy import Command, settings, toy_sentences

TRAIN = ("train", "translator")
SHORT = settings(training__max_updates=1)

ENGLISH = ["The weather was good today", "My sister has left her old bicycle at the river", "We ate bread and cheese"]
TURKISH = ["Bugün hava çok güzeldi", "Kız kardeşim eski bisikletini nehirde bıraktı", "Ekmek ve peynir yedik"]
WORDS = {
    "en": "and then the children went home because it was getting dark outside after dinner",
    "tr": "ve sonra çocuklar eve gitti çünkü akşam yemeğinden sonra dışarısı kararıyordu artık",
}


def sentences(count: int, seed: int = 3) -> list[tuple[str, str]]:
    """Distinct sentences of English and of Turkish, with which no translator would be content."""
    generator = random.Random(seed)
    pairs: dict[str, str] = {}
    while len(pairs) < count:
        which = generator.randrange(len(ENGLISH))
        some = [" ".join(generator.sample(WORDS[language].split(), 4)) for language in ("en", "tr")]
        pairs[f"{ENGLISH[which]}, {some[0]}."] = f"{TURKISH[which]}, {some[1]}."
    return list(pairs.items())


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "run"


def write(folder: Path, name: str, rows: Sequence[tuple[str, ...]], delimiter: str = "\t") -> Path:
    path = folder / name
    path.write_text("".join(delimiter.join(row) + "\n" for row in rows), encoding="utf-8")
    return path


def config_of(run: Path) -> dict[str, dict[str, object]]:
    settings: dict[str, dict[str, object]] = json.loads((run / "config.json").read_text())
    return settings


def train(dikkat: Command, *arguments: str | Path) -> str:
    """What training tells; it must succeed."""
    code, _, message = dikkat(*TRAIN, *arguments, *SHORT)
    assert code == 0, message
    return message


class TestTables:
    def test_a_csv_of_semicolons_with_a_mark_and_a_header(self, dikkat: Command, tmp_path: Path, out: Path) -> None:
        """Case 08: it was cut at the commas of its texts."""
        path = write(tmp_path, "plain.csv", [("\ufeffEnglish, source", "French, target"), *sentences(60)], ";")
        messages = train(dikkat, path, "--out", out)
        assert (
            f"{path}: columns separated by ';', a header row (“English, source”, “French, target”),"
            " source = column 1, target = column 2\n"
        ) in messages
        assert "read 60 pairs, kept 60\n" in messages
        assert "; " not in (out / "held_out" / "validation.source.txt").read_text()

    def test_columns_by_name(self, dikkat: Command, tmp_path: Path, out: Path) -> None:
        rows = [("id", "tr", "en"), *((str(n), tr, en) for n, (en, tr) in enumerate(sentences(60)))]
        path = write(tmp_path, "all.csv", rows, "|")
        messages = train(dikkat, path, "--out", out, "--source-column", "en", "--target-column", "tr")
        assert (
            f"{path}: columns separated by '|', a header row (“id”, “tr”, “en”), source = column 3, target" in messages
        )
        assert "(" not in (out / "held_out" / "validation.target.txt").read_text()

    @pytest.mark.parametrize(
        ("row", "message"),
        [
            (
                ("only one column",),
                ":1: 1 column: no tab, semicolon, comma or | separates columns; the first is “only one",
            ),
            (("A, b", "c"), ": no tab, semicolon, comma or | gives its rows the same number of columns: with ','"),
        ],
    )
    def test_what_cannot_be_cut_is_refused(
        self, dikkat: Command, tmp_path: Path, out: Path, row: tuple[str, ...], message: str
    ) -> None:
        path = write(tmp_path, "a.csv", [row, ("d", "e")] if len(row) > 1 else [row] * 3, ",")
        assert dikkat.fails(65, *TRAIN, path, "--out", out).startswith(f"{path}{message}")


class TestReasons:
    """Case 10: "give more pairs" was the answer to all of these."""

    def test_copies(self, dikkat: Command, tmp_path: Path, out: Path) -> None:
        path = write(tmp_path, "copies.tsv", [("Good morning.", "Bonjour.")] * 500)
        assert dikkat.fails(65, *TRAIN, path, "--out", out) == (
            f"{path}: 1 pair to train on and 0 to validate on are left after cleaning: of 500 pairs were left out"
            " 499 duplicate (line 2: “Good morning.” → “Bonjour.”); it repeats itself: 1 different pair in its first"
            " 500 pairs"
        )

    def test_ids(self, dikkat: Command, tmp_path: Path, out: Path) -> None:
        rows = [(str(n), en, str(9000 + n), tr) for n, (en, tr) in enumerate(sentences(60))]
        path = write(tmp_path, "ids.tsv", rows)
        message = dikkat.fails(65, *TRAIN, path, "--out", out)
        assert "of 60 pairs were left out 60 not text (line 1: “0” → “" in message
        assert message.endswith(
            "; the source is only numbers; its texts seem to be in columns 2 and 4: add --source-column 2"
            " --target-column 4"
        )
        assert "read 60 pairs, kept 60" in train(
            dikkat, path, "--out", out, "--source-column", "2", "--target-column", "4"
        )

    def test_one_group_of_near_duplicates(self, dikkat: Command, tmp_path: Path, out: Path) -> None:
        path = write(tmp_path, "pages.tsv", [(f"Page {n}", f"Seite {n}") for n in range(300)])
        assert dikkat.fails(65, *TRAIN, path, "--out", out).startswith(
            f"{path}: 300 pairs in only 1 group of near-duplicates (differing in numbers, case or punctuation alone, or"
            " sharing a side, such as “Page 0” and “Page 1”): too few to hold out whole groups; add more varied pairs"
        )

    def test_labels(self, dikkat: Command, tmp_path: Path, out: Path) -> None:
        path = write(
            tmp_path, "labels.tsv", [(en, "pos" if n % 2 else "neg") for n, (en, _) in enumerate(sentences(60))]
        )
        message = dikkat.fails(65, *TRAIN, path, "--out", out)
        assert "the target is one of only 2 texts (“neg”, “pos”), like labels" in message


class TestFiles:
    """Case 13."""

    @pytest.mark.parametrize(("suffix", "pack"), [(".bz2", bz2.compress), (".xz", lzma.compress)])
    def test_packed_files_are_read(
        self, dikkat: Command, tmp_path: Path, out: Path, suffix: str, pack: Callable[[bytes], bytes]
    ) -> None:
        paths = [tmp_path / f"t.{language}{suffix}" for language in ("en", "tr")]
        for side, path in enumerate(paths):
            path.write_bytes(pack("".join(f"{pair[side]}\n" for pair in sentences(60)).encode()))
        assert "read 60 pairs, kept 60" in train(dikkat, *paths, "--out", out)
        data = config_of(out)["data"]
        assert (data["source_language"], data["target_language"]) == ("en", "tr")

    def test_catalogs_are_pairs_and_no_lines(self, dikkat: Command, tmp_path: Path, out: Path) -> None:
        path = tmp_path / "tr.po"
        path.write_text("".join(f'msgid "{en}"\nmsgstr "{tr}"\n\n' for en, tr in sentences(60)), encoding="utf-8")
        lines = tmp_path / "lines.tr"
        lines.write_text(path.read_text(encoding="utf-8"), encoding="utf-8")
        message = dikkat.fails(65, *TRAIN, lines, lines, "--out", out)
        assert message.startswith(f"{lines}: is a gettext catalog (.po), not lines of text; give it alone")
        messages = train(dikkat, path, "--out", out)
        assert "read 60 pairs, kept 60" in messages
        assert f"{path}: 60 pairs" in messages
        assert "msgstr" not in (out / "held_out" / "validation.target.txt").read_text()

    def test_a_document_is_named(self, dikkat: Command, tmp_path: Path, out: Path) -> None:
        path = tmp_path / "book.tsv"
        path.write_bytes(b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n")
        message = dikkat.fails(65, *TRAIN, path, "--out", out)
        assert message == f"{path}: is a PDF document, not text; save its text as UTF-8 (.txt)"


class TestLanguages:
    def test_they_are_guessed_from_the_text_and_kept(self, dikkat: Command, tmp_path: Path, out: Path) -> None:
        """Without them `İstanbul` is lower-cased to `i̇stanbul`, with one point too many."""
        path = write(tmp_path, "pairs.tsv", sentences(60))
        messages = train(dikkat, path, "--out", out, "--set", "tokenizer.lowercase=true")
        assert "languages: the source reads like en, the target reads like tr; if they are not, give" in messages
        data = config_of(out)["data"]
        assert (data["source_language"], data["target_language"]) == ("en", "tr")

    def test_options_win(self, dikkat: Command, tmp_path: Path, out: Path) -> None:
        path = write(tmp_path, "pairs.en-fr.tsv", sentences(60))
        messages = train(dikkat, path, "--out", out, "--source-language", "eng", "--target-language", "az")
        assert "languages:" not in messages
        data = config_of(out)["data"]
        assert (data["source_language"], data["target_language"]) == ("en", "az")

    def test_a_word_is_no_code(self, dikkat: Command, tmp_path: Path, out: Path) -> None:
        path = write(tmp_path, "pairs.tsv", sentences(60))
        message = dikkat.fails(2, *TRAIN, path, "--out", out, "--source-language", "turkish")
        assert message == '"turkish" is not a language code; write it like fr, tr or pt_BR'


class TestValidation:
    def test_the_training_file_as_validation_is_said(self, dikkat: Command, tmp_path: Path, out: Path) -> None:
        path = write(tmp_path, "a.en-tr.tsv", toy_sentences(60))
        messages = train(dikkat, path, "--valid", path, "--out", out)
        assert (
            f"{path}: 60 of its 60 pairs are in the training data too, so scores on it say little about new text\n"
        ) in messages
        card = (out / "card.md").read_text()
        assert "on text of which 60 of 60 pairs were trained on too:" in card
        assert "never saw" not in card
