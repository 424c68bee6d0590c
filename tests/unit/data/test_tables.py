"""What separates the columns of a table, whether its quotation marks count, and whether its first row is a header."""

from __future__ import annotations

from pathlib import Path

import pytest

from dikkat.data.readers import read_pairs
from dikkat_runtime.errors import DataError
from dikkat_runtime.rows.dialect import Dialect, read_table

SENTENCES = [
    ("Tell, us all about it.", "Parle-nous-en, !"),
    ("Go; now.", "Va-t'en."),
    ("I have 1,5 litres.", "J'ai 1,5 litre."),
    ("Stop | wait.", "Arrête, attends."),
    ("A dog.", "Un chien."),
]


def _write(folder: Path, text: str, name: str = "plain.csv") -> Path:
    path = folder / name
    path.write_bytes(text.encode())
    return path


def _pairs(path: Path, *columns: str | int) -> list[tuple[str, str]]:
    return [(pair.source, pair.target) for pair in read_pairs([str(path)], *columns)]


def _quote(text: str, delimiter: str) -> str:
    return '"' + text.replace('"', '""') + '"' if delimiter in text or '"' in text or "\n" in text else text


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize("header", [(), ("English, source", "French, target"), ("en", "fr")])
@pytest.mark.parametrize("name", ["plain.csv", "plain.tsv"])
def test_every_dialect_gives_the_same_pairs(
    tmp_path: Path, delimiter: str, end: str, mark: str, header: tuple[str, ...], name: str
) -> None:
    rows = [*([header] if header else []), *SENTENCES * 3]
    text = "".join(delimiter.join(_quote(cell, delimiter) for cell in row) + end for row in rows)
    path = _write(tmp_path, mark + text, name)
    assert read_table(path)[0] == Dialect(delimiter, delimiter != "\t", 2, header)
    assert _pairs(path) == SENTENCES * 3


@pytest.mark.parametrize("delimiter", [",", ";", "|", "\t"])
def test_line_breaks_in_quotation_marks_are_inside_of_a_row(tmp_path: Path, delimiter: str) -> None:
    rows = [("one\ntwo", "un\n\ndeux"), ("a", "b"), ('He said "hi"\nand went.', "x"), ("c", "d")]
    text = "".join(delimiter.join(_quote(cell, delimiter) for cell in row) + "\n" for row in rows)
    path = _write(tmp_path, text, "table.tsv")
    assert [row for _, row in read_table(path)[1]] == [list(row) for row in rows]
    assert [line for line, _ in read_table(path)[1]] == [1, 5, 6, 8]


def test_decimal_commas_are_no_separators(tmp_path: Path) -> None:
    path = _write(tmp_path, "1,5;Ein Hund;2,5\n2,5;Zwei Hunde;3,5\n3,5;Drei Hunde;4,5\n")
    assert read_table(path)[0] == Dialect(";", True, 3)


def test_a_table_of_texts_with_commas_is_not_cut_at_them(tmp_path: Path) -> None:
    """Commas without quotation marks: which part belongs to which side cannot be known."""
    path = _write(tmp_path, "Tell, us.,Parle !\nGo.,Va.\nWell, yes, now.,Oui.\nA,B\n")
    with pytest.raises(
        DataError, match=r"plain\.csv: no tab, semicolon, comma or \| gives its rows the same number of"
    ):
        read_table(path)[0]


def test_a_row_with_a_separator_too_many_is_named(tmp_path: Path) -> None:
    path = _write(tmp_path, "Go.;Va.\n" * 30 + "Go; now.;Va.\n")
    with pytest.raises(DataError) as caught:
        _pairs(path)
    assert str(caught.value) == (
        f"{path}:31: 3 columns, but the rows before have 2 (separated by ';');"
        " put texts that contain ';' in quotation marks"
    )


def test_empty_cells_at_the_end_of_a_row_are_no_columns(tmp_path: Path) -> None:
    assert _pairs(_write(tmp_path, "Go.;Va.\n" * 30 + "Run.;Cours.;;\n"))[-1] == ("Run.", "Cours.")


@pytest.mark.parametrize("name", ["one.csv", "one.tsv"])
def test_a_table_of_one_column_says_what_was_seen(tmp_path: Path, name: str) -> None:
    path = _write(tmp_path, "A dog runs\nA cat sleeps\n", name)
    with pytest.raises(DataError) as caught:
        _pairs(path)
    assert str(caught.value) == (
        f"{path}:1: 1 column: no tab, semicolon, comma or | separates columns; the first is “A dog runs”"
    )


def test_marks_around_all_cells_of_a_tsv_are_taken_off(tmp_path: Path) -> None:
    assert _pairs(_write(tmp_path, '"A ""big"" dog"\t"Un chien"\n"Go"\t"Va"\n', "a.tsv")) == [
        ('A "big" dog', "Un chien"),
        ("Go", "Va"),
    ]


def test_marks_of_speech_in_a_tsv_stay(tmp_path: Path) -> None:
    rows = [('"Go!" he said.', '"Va !" dit-il.'), ('"Now?"', "« Là ? »"), ("Yes.", "Oui."), ('"Open', "Ouvert")]
    assert _pairs(_write(tmp_path, "".join(f"{a}\t{b}\n" for a, b in rows), "a.tsv")) == rows


@pytest.mark.parametrize(
    ("header", "row"),
    [
        ("sentiment,review", "{label},This film was in every way a {label} one number {n}"),
        ("Bewertung,Rezension", "{label},This film was in every way a {label} one number {n}"),
        ("id,mot", "{n},Le film numero {n}"),
        ("kaynak,hedef", "Cumle {n},Sentence {n}"),
        ("source_text,target_text", "Sentence {n},Satz {n}"),
    ],
)
def test_a_header_is_found_by_its_words_or_by_contrast(tmp_path: Path, header: str, row: str) -> None:
    rows = [row.format(n=n, label="good" if n % 2 else "bad") for n in range(40)]
    assert read_table(_write(tmp_path, "\n".join([header, *rows])))[0].header == tuple(header.split(","))


@pytest.mark.parametrize(
    ("header", "row"),
    [
        ("angielski,polski", "The dog number {n} sleeps.,Pies numer {n} śpi."),
        ("الإنجليزية,العربية", "The dog number {n} sleeps,الكلب رقم {n} نائم الآن في البيت"),
        ("영어,한국어", "The dog number {n} sleeps,개 번호 {n} 번은 지금 자고 있습니다"),
        ("अंग्रेज़ी,हिन्दी", "The dog number {n} sleeps on the sofa,कुत्ता नंबर {n} अब घर में बहुत देर से सो रहा है"),
        (
            "ingilizce cümle,türkçe çeviri",
            "Dog {n} sleeps on the old red sofa again.,Köpek {n} yine o eski kanepede uyuyor.",
        ),
        ("英語,日本語", "The dog number {n} sleeps,犬の{n}番は今ソファの上で眠っています"),
        # a name that stands twice is still one
        ("id,text,text", "{n},The dog number {n} sleeps.,Le chien numéro {n} dort."),
        ("label,text,label", "good,The dog number {n} sleeps.,x"),
    ],
)
def test_a_header_in_any_language_is_what_does_not_look_like_the_rows_below(
    tmp_path: Path, header: str, row: str
) -> None:
    rows = [row.format(n=n) for n in range(40)]
    assert read_table(_write(tmp_path, "\n".join([header, *rows])))[0].header == tuple(header.split(","))


@pytest.mark.parametrize(
    ("first", "row"),
    [
        # short ones stand first in many collections, and are not the only ones
        ("Yo,Salut", "The dog number {n} sleeps on the sofa,Le chien numéro {n} dort sur le canapé"),
        ("OK,OK", "The dog number {n} sleeps.,Le chien numéro {n} dort."),
        ("Paris,Париж", "The dog number {n} sleeps,Собака номер {n} спит"),
        ("Hi!,Cześć!", "The dog number {n} sleeps.,Pies numer {n} śpi."),
    ],
)
def test_a_short_first_row_is_no_header(tmp_path: Path, first: str, row: str) -> None:
    rows = [row.format(n=n) if n % 5 else "Run,Cours" for n in range(40)]
    assert read_table(_write(tmp_path, "\n".join([first, *rows])))[0].header == ()


@pytest.mark.parametrize(
    "first",
    [
        "Go.,Va !",
        "pos,A film",
        "Hello,Bonjour",
        "1,2",
        "English,English",
        "The English left,Les Anglais partirent",
        ",",
    ],
)
def test_a_first_row_of_text_is_no_header(tmp_path: Path, first: str) -> None:
    rows = [f"Hello {n},Bonjour {n}" for n in range(30)]
    assert read_table(_write(tmp_path, "\n".join([first, *rows])))[0].header == ()


def test_columns_called_source_and_target_are_taken_wherever_they_stand(tmp_path: Path) -> None:
    path = _write(tmp_path, "id;Target;Source\n1;Va !;Go.\n")
    messages: list[str] = []
    assert [pair[:2] for pair in read_pairs([str(path)], note=messages.append)] == [("Go.", "Va !")]
    assert messages == [
        f"{path}: columns separated by ';', a header row (“id”, “Target”, “Source”), source = column 3,"
        " target = column 2"
    ]


def test_nothing_is_told_of_a_plain_tsv(tmp_path: Path) -> None:
    messages: list[str] = []
    list(read_pairs([str(_write(tmp_path, "Go.\tVa !\n", "a.tsv"))], note=messages.append))
    assert messages == []


def test_rows_with_ends_of_old_macs_are_not_taken_for_one(tmp_path: Path) -> None:
    table = tmp_path / "half.tsv"
    table.write_bytes(b"one\tun\ntwo\tdeux\rthree\ttrois\n")
    with pytest.raises(DataError, match=r"half\.tsv:2: several rows in one line, with carriage returns"):
        list(read_table(table)[1])
    # within quotation marks it is a part of a cell
    table.write_bytes(b'one\t"un,\run"\ntwo\tdeux\n')
    assert len(list(read_table(table)[1])) == 2
