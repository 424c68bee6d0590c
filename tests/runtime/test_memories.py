"""Translation memories at the desk: what they hold comes back through every door, and what is like it is steered."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from tests.runtime.runs import translator_run
from tests.runtime.server.asking import served

from dikkat_runtime.cli.main import run as run_dikkat
from dikkat_runtime.documents.memories import read_memory
from dikkat_runtime.errors import DataError, UsageError
from dikkat_runtime.server.models import Catalog
from dikkat_runtime.tasks.corrections import Corrections, NearIndex
from dikkat_runtime.tasks.translator import Translator

EXACT, NEAR = "The small cat is sleeping.", "The small cat is sleeping now."
KNOWN = "Küçük kedi  < uyuyor >."
UNIT = '<tu><tuv xml:lang="{}"><seg>{}</seg></tuv><tuv xml:lang="{}"><seg>{}</seg></tuv></tu>'


def tmx(path: Path, *units: tuple[str, str, str, str]) -> Path:
    body = "".join(UNIT.format(*unit) for unit in units)
    path.write_text(f'<?xml version="1.0"?><tmx version="1.4"><header srclang="en"/><body>{body}</body></tmx>', "utf-8")
    return path


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return translator_run(tmp_path / "run", languages=("en", "tr"))


@pytest.fixture
def memory(tmp_path: Path) -> Path:
    shown = "Küçük kedi <bpt i='1'>&lt;b&gt;</bpt> &lt; uyuyor &gt;.<ept i='1'>&lt;/b&gt;</ept>"
    return tmx(tmp_path / "cats.tmx", ("en-US", EXACT, "tr", shown))


def test_all_doors_take_what_the_memory_holds_and_agree_on_what_is_near(
    run: Path, memory: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = tmp_path / "lines.txt"
    lines.write_text(f"{EXACT}\n{NEAR}\n", encoding="utf-8")
    translator = Translator.load(run)
    plain = [line.text for line in translator.translate([EXACT, NEAR])]
    translator.memories = [read_memory(memory, ("en", "tr"))]
    library = [line.text for line in translator.translate([EXACT, NEAR])]
    assert library[0] == "Küçük kedi < uyuyor >."
    assert library[1] != plain[1], "what is near is written otherwise"
    assert [line.text for line in translator.translate([EXACT, NEAR], memories=())] == plain

    assert run_dikkat(["translate", str(run), str(lines), "--memory", str(memory), "--precision", "float32"]) == 0
    output = capsys.readouterr()
    assert output.out.splitlines() == library
    assert f"memory {memory}: 1 pair" in output.err

    with served(Catalog([f"en-tr={run}"], "float32", memories=[memory]), beam_size=5) as server:
        body: dict[str, Any] = {"text": [EXACT, NEAR], "source_lang": "EN", "target_lang": "TR"}
        for more in (dict[str, str](), {"translation_memory_id": "cats"}):
            answer = server.post("/v2/translate", **{**body, **more})
            assert [row["text"] for row in answer["translations"]] == library
        assert server.post("/translate", q=EXACT, source="en", target="tr")["translatedText"] == library[0]
        missing = server.post("/v2/translate", 404, **body, translation_memory_id="dogs")
        assert "there are: cats" in missing["message"]


def test_a_correction_of_the_run_comes_before_the_memory(run: Path, memory: Path) -> None:
    Corrections(run).add(EXACT, "Kedicik uyuyor.")
    translator = Translator.load(run)
    translator.memories = [read_memory(memory, ("en", "tr"))]
    assert translator.translate([f"  {EXACT} "])[0].text == "Kedicik uyuyor."
    assert translator.translate([EXACT], memories=())[0].text == "Kedicik uyuyor."
    translator.corrections = None
    assert translator.translate([EXACT])[0].text == "Küçük kedi < uyuyor >."


def test_what_a_memory_does_not_say_is_told_with_the_count(tmp_path: Path) -> None:
    notes: list[str] = []
    path = tmx(
        tmp_path / "some.tmx",
        ("en", "one small thing", "tr", "küçük bir şey"),
        ("en", "one small thing", "tr", "tek küçük şey"),
        ("en", "left as it is", "tr", "left as it is"),
        ("en", "OK", "tr", "OK"),
        ("en", "empty", "tr", " "),
        ("en", "in French", "fr", "en français"),
        ("en", "Open {file} now.", "tr", "Dosyayı şimdi açın."),
        ("en", "Press OK.", "tr", "&lt;b&gt;Tamam&lt;/b&gt; düğmesine basın."),
        ("en", "It rains.", "tr", "Yağmur yağıyor. Kedi evde kaldı. Köpek ise bütün gün bahçede koştu."),
        ("en", "Saved %d files.", "tr", "%d dosya kaydedildi."),
        ("en", "Open &lt;file&gt;.", "tr", "&lt;dosya&gt; aç."),
        ("en", "%s of %d", "tr", "%2$d içinde %1$s"),
    )
    memory = read_memory(path, ("en", "tr"), notes.append)
    kept = [("one small thing", "tek küçük şey"), ("OK", "OK"), ("Saved %d files.", "%d dosya kaydedildi.")]
    kept += [("Open <file>.", "<dosya> aç."), ("%s of %d", "%2$d içinde %1$s")]
    assert memory.kept == kept
    (note,) = notes
    assert note.startswith(f"memory {path}: 5 pairs")
    for reason in (
        "1 not translated",
        "1 with nothing on a side",
        "1 without a text in tr",
        "2 with other placeholders or tags in the translation",
        "1 with more sentences or far more text on one side",
    ):
        assert reason in note


@pytest.mark.parametrize(
    ("write", "error", "message"),
    [
        (lambda path: tmx(path / "m.tmx", ("de", "eins", "fr", "un")), UsageError,
         "holds no unit from en to tr, but texts in de, fr"),
        (lambda path: tmx(path / "m.tmx", ("en", "just the same", "tr", "just the same")), DataError,
         "holds nothing that is translated from en to tr"),
        (lambda path: table(path, "source\ttarget\none\tbir\ntwo"), DataError, "m.tsv, line 3: has no tab"),
        (lambda path: table(path, "source\ttarget\n"), DataError, "holds nothing that is translated"),
    ],
)  # fmt: skip
def test_a_memory_that_says_nothing_is_refused(
    write: Callable[[Path], Path], error: type[Exception], message: str, tmp_path: Path
) -> None:
    with pytest.raises(error, match=message):
        read_memory(write(tmp_path), ("en", "tr"))


def table(folder: Path, text: str) -> Path:
    path = folder / "m.tsv"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_table_may_have_a_header_and_more_columns(tmp_path: Path) -> None:
    path = table(tmp_path, "Source\ttarget\torigin\none\tbir\tme\n\ttwo\n")
    assert read_memory(path, ("en", "tr")).kept == [("one", "bir")]


def test_the_server_refuses_memories_of_one_name_and_of_other_languages(
    run: Path, memory: Path, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match="two memories are named cats"):
        Catalog([f"en-tr={run}"], memories=[memory, memory.with_suffix(".tsv")])
    with pytest.raises(UsageError, match="holds no unit from en to tr"):
        Catalog([f"en-tr={run}"], memories=[tmx(tmp_path / "m.tmx", ("de", "eins", "fr", "un"))])


def test_near_is_found_among_many_as_by_comparing_with_each() -> None:
    words = ["red", "blue", "house", "cat", "is", "old", "sold", "the"]
    pairs = [(" ".join(words[n % k] for k in range(2, 3 + n % 6)), f"{n}") for n in range(300)]
    text = "the old red cat"
    own = set(text.split())
    every = [(2 * len(own & set(source.split())) / (len(own) + len(set(source.split()))), n)
             for n, (source, _) in enumerate(pairs)]  # fmt: skip
    expected = sorted((-similarity, -n) for similarity, n in every if similarity >= 0.4)[:8]
    assert [(-item.similarity, -int(item.target)) for item in NearIndex(pairs).near(text)] == expected


GERMAN = """Der Zug nach Hamburg fährt heute leider zwanzig Minuten später ab.
Meine Schwester wohnt seit drei Jahren in einem kleinen Dorf am Fluss.
Könnten Sie mir bitte sagen, wo ich hier einen Schlüssel nachmachen lassen kann?
Die Kinder spielten im Garten, bis es dunkel wurde und zu regnen begann.
Für dieses Rezept braucht man frische Eier, Mehl und etwas Butter.
Nach dem langen Winter freuten sich alle über die ersten warmen Tage.
Der Arzt hat ihm geraten, weniger zu arbeiten und mehr zu schlafen.
Unsere Nachbarn haben gestern einen neuen Zaun gebaut.
Das Museum ist wegen Umbau bis zum Ende des Monats geschlossen.
Er schrieb ihr jeden Tag einen Brief, aber sie antwortete nicht.
Die Regierung hat beschlossen, die Steuern im nächsten Jahr zu senken.
Ich habe vergessen, das Fenster zuzumachen, bevor ich gegangen bin.
Am Wochenende gehen wir gerne im Wald spazieren und sammeln Pilze.
Dieses Buch erzählt die Geschichte eines Jungen, der zur See fährt.
Wenn du Zeit hast, kannst du mir beim Umzug helfen.
Auf dem Markt gibt es heute günstige Äpfel und Birnen zu kaufen.""".splitlines()
GERMAN += [f"{one} {other.lower()}" for one, other in zip(GERMAN[:8], GERMAN[8:], strict=True)]


@pytest.fixture(scope="module")
def catalog() -> list[tuple[str, str]]:
    """English messages of the runtime and what people wrote in Turkish for them."""
    path = Path(__file__).parents[2] / "runtime/src/dikkat_runtime/locale/tr/LC_MESSAGES/dikkat-runtime.po"
    found = re.findall(r'^msgid "([^{"\\]{30,150})"\nmsgstr "([^{"\\]+)"$', path.read_text("utf-8"), re.MULTILINE)
    assert len(found) >= 24
    return found[:24]


def in_german(catalog: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """The English messages with German sentences of about their lengths."""
    sources = sorted((source for source, _ in catalog), key=len)
    return list(zip(sources, (sentence[:-1] for sentence in sorted(GERMAN, key=len)), strict=True))


def as_table(path: Path, pairs: Iterable[tuple[str, str]]) -> Path:
    path.write_text("".join(f"{source}\t{target}\n" for source, target in pairs), "utf-8")
    return path


@pytest.fixture
def skilled(run: Path, catalog: list[tuple[str, str]]) -> Path:
    """A run that writes Turkish, by its corrections: of two messages one in other words, and Turkish as it is."""
    turkish = [target for _, target in catalog]
    written = [turkish[number - number % 2] for number in range(len(turkish))]
    Corrections(run).add_all([(source, text) for (source, _), text in zip(catalog, written, strict=True)])
    Corrections(run).add_all([(text, text) for text in turkish])
    return run


def test_a_memory_in_other_languages_is_refused_at_all_doors(
    skilled: Path, catalog: list[tuple[str, str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = tmp_path / "lines.txt"
    lines.write_text("One line.\n", encoding="utf-8")
    right = as_table(tmp_path / "right.tsv", catalog)
    swapped = as_table(tmp_path / "swapped.tsv", ((target, source) for source, target in catalog))
    foreign = as_table(tmp_path / "foreign.tsv", in_german(catalog))
    mislabelled = tmx(tmp_path / "mislabelled.tmx", *(("en", target, "tr", source) for source, target in catalog))
    command = ["translate", str(skilled), str(lines), "--precision", "float32", "--memory"]
    translator = Translator.load(skilled)

    assert run_dikkat([*command, str(right)]) == 0
    read_memory(right, ("en", "tr"), translator=translator)
    Catalog([f"en-tr={skilled}"], "float32", memories=[right])
    capsys.readouterr()
    for path in (swapped, foreign, mislabelled):
        expected = f"{path}: its translations do not read like this run's tr"
        assert run_dikkat([*command, str(path)]) == 65
        output = capsys.readouterr()
        assert expected in output.err.splitlines()[-1]
        assert "swap its sides, or give a memory from en to tr" in output.err
        assert not output.out
        with pytest.raises(DataError, match=re.escape(expected)):
            read_memory(path, ("en", "tr"), translator=translator)
        with pytest.raises(DataError, match=re.escape(expected)):
            Catalog([f"en-tr={skilled}"], "float32", memories=[path])
        known = (skilled / "corrections.json").read_bytes()
        assert run_dikkat(["correct", str(skilled), "--file", str(path)]) == 65
        assert expected in capsys.readouterr().err
        assert (skilled / "corrections.json").read_bytes() == known


def test_a_table_goes_to_the_translators_of_its_languages(
    skilled: Path, catalog: list[tuple[str, str]], tmp_path: Path
) -> None:
    german = translator_run(tmp_path / "german", languages=("en", "de"))
    Corrections(german).add_all(in_german(catalog))
    path = as_table(tmp_path / "m.tsv", in_german(catalog))
    models = Catalog([str(skilled), str(german)], "float32", memories=[path]).models
    assert [list(model.memories) for model in models] == [[], ["m"]]


def test_a_memory_that_says_too_little_of_its_languages_is_taken(
    skilled: Path, catalog: list[tuple[str, str]], tmp_path: Path
) -> None:
    translator = Translator.load(skilled)
    swapped = [(target, source) for source, target in catalog]
    codes = [(f"{number:05}", f"X-{number}") for number in range(200)]
    long = [(target * 10, source * 10) for source, target in catalog]
    for name, pairs in (("few", swapped[:23]), ("codes", codes), ("long", long)):
        path = as_table(tmp_path / f"{name}.tsv", pairs)
        assert len(read_memory(path, ("en", "tr"), translator=translator).kept) == len(pairs)


def test_a_translator_that_has_learned_nothing_refuses_no_memory(
    run: Path, catalog: list[tuple[str, str]], tmp_path: Path
) -> None:
    path = as_table(tmp_path / "m.tsv", catalog)
    assert read_memory(path, ("en", "tr"), translator=Translator.load(run)).kept == catalog


def test_an_unsure_translator_still_tells_swapped_sides(
    skilled: Path, catalog: list[tuple[str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dikkat_runtime.documents.memories.MIN_PROBABILITY", 2.0)
    path = as_table(tmp_path / "swapped.tsv", ((target, source) for source, target in catalog))
    with pytest.raises(DataError, match="do not read like this run's tr"):
        read_memory(path, ("en", "tr"), translator=Translator.load(skilled))
