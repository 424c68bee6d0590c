"""A run gives one answer at every door: both commands, both libraries, the server, a document and many files."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests.browser_engine import in_node
from tests.command_lines import run_without_dikkat as runtime_command
from tests.runtime.runs import SENTENCES, WRITTEN, finished, translator_run
from tests.runtime.server.asking import Served, served
from tests.unit.interop.checkpoints import gpt2_folder

import dikkat
import dikkat_runtime
from dikkat.web.opening import open_for_web
from dikkat_runtime.cli.main import run as dikkat_command
from dikkat_runtime.engine.contract import EngineName
from dikkat_runtime.engine.options import BeamOptions, DecodingOptions, GenerationOptions, SamplingOptions
from dikkat_runtime.errors import UsageError
from dikkat_runtime.server.models import Catalog
from dikkat_runtime.shards.models import open_model
from dikkat_runtime.shards.work import Job
from dikkat_runtime.tasks import reading
from dikkat_runtime.tasks.corrections import Corrections
from dikkat_runtime.tasks.generator import Generator
from dikkat_runtime.tasks.translator import Translator
from dikkat_runtime.text import normalizing, placeholders, recasing, sentences
from dikkat_runtime.text.glossary import Glossary

pytest.importorskip("starlette", reason="needs dikkat-runtime[serve]: pip install -e './runtime[serve]'")

LINES = [line for line in SENTENCES if line]
CORRECTED = {"Yes.": "Evet!", "The small dog is sleeping.": "Küçük köpek uyuyor."}
"""Of one text of `LINES`, and of one that is like another."""
TERMS = {"keys": "anahtar", "cat": ("kedi", "pisi"), "beach": "sahil"}
"""Turkish takes suffixes, which the target language alone says."""
COMMANDS: list[Callable[[list[str]], int]] = [dikkat_command, runtime_command]
ENGINES: list[EngineName] = ["auto", "native"]
"""The names by which the same engine is opened."""
TORCH: EngineName = "torch"


@dataclass(frozen=True)
class Question:
    """One way to ask for translations: the options of a command, and those of a library."""

    words: list[str] = field(default_factory=list)
    options: DecodingOptions = field(default_factory=BeamOptions)
    has_terms: bool = False
    prefixes: list[str] | None = None
    corrections: bool = True


QUESTIONS = {
    "usual": Question(),
    "greedy": Question(["--beam", "1"], BeamOptions(beam_size=1)),
    "length": Question(["--beam", "3", "--length-penalty", "0.1"], BeamOptions(beam_size=3, length_penalty=0.1)),
    "repetition": Question(["--no-repeat-ngram", "2"], BeamOptions(no_repeat_ngram=2)),
    "penalty": Question(["--repetition-penalty", "1.3"], BeamOptions(repetition_penalty=1.3)),
    "sampling": Question(["--sample", "--seed", "5", "--top-k", "9"], SamplingOptions(seed=5, top_k=9)),
    "glossary": Question(has_terms=True),
    "prefixes": Question(prefixes=["Küçük", "", "Bir", "", "E"]),
    "both": Question(has_terms=True, prefixes=["Küçük", "", "Bir", "", "E"]),
    "uncorrected": Question(["--no-corrections"], corrections=False),
}


AS_WRITTEN = [
    "The small cat is sleeping", "THE SMALL CAT IS SLEEPING.", "WHERE ARE MY KEYS?!",
    "WHERE ARE MY KEYS? A dog runs. 😀", "Where Are My Old Keys", "The Lord Of the Cats and a Dog",
    "The Big NASA Dog Runs", "DIE STRASSE IST GROSS.", "DIE KLEINE KATZE SCHLÄFT!",
    "Die Kleine Katze Schläft Heute", "straße STRASSE Straße", "KIRMIZI IŞIK İYİ Mİ?", "İSTANBUL'DA IŞIK VAR.",
    "Işık İyi Mi Acaba", "i İ ı I", "Iı iİ", "I", "A", "OK", "my  small   cat", "\tmy\tcat",
    "my\xa0small\u202fcat", "1\xa0000 cats and 12\xa03456 dogs", "my sm\xadall c\u200bat\ufeff",
    "\u202amy cat\u202c runs", "\u2066MY CAT\u2069", "cafe\u0301 und Mu\u0308ller", "A\u030a I\u0307 \u0345",
    "ﬁrst ＡＢＣ！ Ⅳ 𝐁𝐨𝐥𝐝", "my friend’s cat ‚so‘ – or — not… 1⁄2", "می\u200cخواهم", "the\u200ddog 👨\u200d",
    "Hello 😀", "😀 Hello", "Where is 😀 the dog?", "The dog 👩\u200d👩\u200d👧\u200d👦 sleeps. 🇫🇷",
    "The dog 👍🏽 sleeps ❤\ufe0f.", "1\ufe0f⃣ first", "🎉🎉 My cat! 🎉🎉", "★ ★ ★ Good dog", "Good dog ★★★★☆.",
    "✓ The dog → the cat ✗", "© the cat ™", "░▒ cat ▓", "№ 20, ½ cat", "• Where is the dog?",
    "– Where is the dog?", "- [x] Where is the dog?", "3. Where is the dog?", "(a) Where is the dog?",
    "12) the dog", "Er kam am 3. Mai. Er ging.", "“Where is the dog?”", "\"Where is the dog?\"",
    "« Where is the dog ? »", "\"Where is it?\" The dog sleeps.", "« Where is it? » The dog ( my dog ) sleeps.",
    "Is it?🎉 The cat sleeps.", "„WO IST DER HUND?“", "「犬です」", "He said “my cat” twice.", "“One.” “Two.”",
    "Where!!!", "Where?!?!", "Where ! ! !", "WHERE!!!", "Where…", "Hello. Where is the dog? I am here.",
    "Mr. Smith met J. R. Meier. He ran, e.g. home.", "all small. no capital here.", "one\u2028two",
    "日本語。これは犬です。", "「行こう！」と言った。", "— Hello, my friend.", "Hello, — said the cat.",
    "The dog, the cat, the keys, the beach, the park, the man and the old woman, who watches them all while "
    "it rains, and nobody plays, and nobody runs; two men, a dog: "
    "sleeping where the small cat, the big cat, the other cat is.",
    "Where is the cat slepeing?", "Wherre are my kyes?", "WHERE IS THE CTA SLEPING", "The cat is where Slepeing is.",
    "Where is my slee\u0301ping cat?", "The dog is “small”.", "The dog (a \"small\" dog) [sleeps].", "the ‘cat’ runs",
    "\"The dog\" sleeps", "He said: “The dog sleeps.”", "(The dog sleeps.)", "The dog (sleeps", "THE «DOG» IS 'SMALL'.",
    "The cat sleeps.The dog runs.", "Kedi uyuyor.Köpek koşuyor.", "the dog runs?!The cat (here) sleeps...No, it runs.",
    "See example.Com or the approx.The dog.", "「犬です」と言った。犬です。", "1.The cat and mr.Meier sleep",
    "- (the) dog 🎉 (sleeps)", "the (big) “dog” [is (my) cat]→(🎉)", "(a) the dog's (cat's) cat(s)",
    "", "   ", "!!!", "😀", " 😀 🇫🇷\xa0", "12345", "... ---", ">>tur<< MY CAT RUNS. My cat sleeps.",
]  # fmt: skip
"""Lines as people write them."""
IN_PAGE = """
const model = new engine.TranslatorModel(engine.readModelFile(bytes("./run.model")), core);
return input.map((line) => model.joined(finished(model.translate(model.reading.lines(line)))));
"""
"""What the page and the module write."""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished English to Turkish translator with corrections and a validation part. Look, do not touch."""
    path = translator_run(tmp_path_factory.mktemp("answers") / "run", separate=True, languages=("en", "tr"))
    (path / "held_out").mkdir()
    for side, texts in (("source", LINES), ("target", [*WRITTEN, "Evet."])):
        (path / "held_out" / f"validation.{side}.txt").write_text("\n".join([*texts * 4, ""]), encoding="utf-8")
    finished(path)
    corrections = Corrections(path)
    for source, target in CORRECTED.items():
        corrections.add(source, target)
    return path


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    path = tmp_path / "lines.txt"
    path.write_text("".join(f"{line}\n" for line in LINES), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def server(run: Path) -> Iterator[Served]:
    with served(Catalog([f"en-tr={run}"]), beam_size=BeamOptions().beam_size) as server:
        yield server


def of_command(command: Callable[[list[str]], int], words: list[str], capsys: pytest.CaptureFixture[str]) -> list[str]:
    assert command(words) == 0, capsys.readouterr().err
    return capsys.readouterr().out.split("\n")[:-1]


def of_library(run: Path, asked: Question, *, streams: bool, engine: EngineName = "auto") -> list[str]:
    translator = Translator.load(run, engine=engine)
    if not asked.corrections:
        translator.corrections = None
    more: dict[str, Any] = {"prefixes": asked.prefixes}
    if asked.has_terms:
        more["glossary"] = Glossary.of(TERMS, "en")
    ask = translator.stream if streams else translator.translate
    # what nobody asks for is left to each of them
    options = () if asked.options == BeamOptions() else (asked.options,)
    return [translation.text for translation in ask(LINES, *options, **more)]


def test_what_uses_a_model_is_one_class_on_both_sides() -> None:
    for name in ("Translator", "Translation", "Classifier", "Classification", "Embedder"):
        assert getattr(dikkat, name) is getattr(dikkat_runtime, name)
    assert dikkat.LanguageModel is dikkat_runtime.Generator
    assert dikkat.load.__module__ == "dikkat.tasks.kinds"


def test_all_doors_agree(
    run: Path, lines: Path, server: Served, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, asked = tmp_path / "exported", Question()
    assert dikkat_command(["export", str(run), "--to", "runtime", "--out", str(out), "--with-corrections"]) == 0
    capsys.readouterr()
    answers: dict[str, list[str]] = {
        "server": server.post("/translate", q=LINES, source="en", target="tr")["translatedText"]
    }
    for name, folder in (("run", run), ("export", out)):
        for command in COMMANDS:
            answers[f"{name}, {command.__module__}"] = of_command(
                command, ["translate", str(folder), str(lines)], capsys
            )
        for engine in ("auto", "native", "torch"):
            for streams in (False, True):
                answers[f"{name}, {engine}, {streams}"] = of_library(folder, asked, streams=streams, engine=engine)
        answers[f"{name}, load"] = [one.text for one in dikkat.load(folder).translate(LINES)]
        answers[f"{name}, rows"] = [
            str(text) for (text,) in open_model(Job(run=folder, task="translate")).answers(LINES)
        ]
    assert len(answers) == 21
    assert len({tuple(texts) for texts in answers.values()}) == 1, answers


@pytest.mark.usefixtures("without_dikkat")
def test_without_dikkat_the_torch_engine_is_one_line_and_the_native_one_runs(run: Path, tmp_path: Path) -> None:
    assert len(Translator.load(run).translate(LINES)) == len(LINES)
    absent = "the torch engine belongs to dikkat, which is not installed here: pip install dikkat"
    for ask in (lambda: Translator.load(run, engine="torch"), lambda: Translator.load(run).model):
        with pytest.raises(UsageError, match=f"^{absent}$"):
            ask()
    reason = "the native engine cannot run here: it does not compute model.positions = alibi"
    with pytest.raises(UsageError, match=f"^{reason}; {absent}$"):
        Translator.load(translator_run(tmp_path / "alibi", positions="alibi"))


@pytest.mark.parametrize("question", list(QUESTIONS))
def test_commands_and_libraries_give_one_answer(
    question: str, run: Path, lines: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = QUESTIONS[question]
    words = ["translate", str(run), str(lines), *asked.words]
    if asked.has_terms:
        forms = {term: "|".join((of,) if isinstance(of, str) else of) for term, of in TERMS.items()}
        (tmp_path / "terms.tsv").write_text("".join(f"{term}\t{of}\n" for term, of in forms.items()), encoding="utf-8")
        words += ["--glossary", str(tmp_path / "terms.tsv")]
    if asked.prefixes is not None:
        (tmp_path / "prefixes.txt").write_text("".join(f"{prefix}\n" for prefix in asked.prefixes), encoding="utf-8")
        words += ["--prefix", str(tmp_path / "prefixes.txt")]
    answers = {tuple(of_command(command, words, capsys)) for command in COMMANDS}
    answers |= {
        tuple(of_library(run, asked, streams=streams, engine=one)) for one in ENGINES for streams in (False, True)
    }
    assert len(answers) == 1, answers
    (texts,) = answers
    assert len(texts) == len(LINES)
    assert ("Evet!" in texts) == asked.corrections


def test_the_torch_engine_writes_what_the_native_one_does(run: Path) -> None:
    for name in ("usual", "glossary", "prefixes"):
        asked = QUESTIONS[name]
        native = of_library(run, asked, streams=False)
        assert of_library(run, asked, streams=False, engine="torch") == native, name


def test_the_server_gives_the_answer_of_the_libraries(run: Path, server: Served) -> None:
    usual = of_library(run, QUESTIONS["usual"], streams=False)
    answer = server.post("/translate", q=LINES, source="en", target="tr")
    assert answer["translatedText"] == usual
    deepl: dict[str, Any] = {"source_lang": "EN", "target_lang": "TR"}
    answer = server.post("/v2/translate", text=LINES, **deepl)
    assert [one["text"] for one in answer["translations"]] == usual
    terms = "\n".join(f"{term}\t{of if isinstance(of, str) else '|'.join(of)}" for term, of in TERMS.items())
    made = server.post("/v2/glossaries", status=201, name="g", entries=terms, entries_format="tsv", **deepl)
    answer = server.post("/v2/translate", text=LINES, glossary_id=made["glossary_id"], **deepl)
    held = of_library(run, QUESTIONS["glossary"], streams=True)
    assert [one["text"] for one in answer["translations"]] == held


def test_documents_and_many_files_give_the_answer_of_the_libraries(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    usual = of_library(run, QUESTIONS["usual"], streams=False)
    document = tmp_path / "in.po"
    entries = [f'msgid {json.dumps(line)}\nmsgstr ""\n' for line in LINES]
    header = 'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\n"\n'
    document.write_text("\n".join([header, *entries]), encoding="utf-8")
    written = set()
    for number, command in enumerate(COMMANDS):
        out = tmp_path / f"{number}.po"
        of_command(command, ["translate", str(run), str(document), "--out", str(out)], capsys)
        written.add(out.read_text(encoding="utf-8"))
    (content,) = written
    assert [json.loads(line.removeprefix("msgstr ")) for line in content.splitlines() if line.startswith("msgstr")][
        1:
    ] == usual
    assert [text for (text,) in open_model(Job(run=run, task="translate")).answers(LINES)] == usual


def test_confidence_is_the_same(run: Path, lines: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["translate", str(run), str(lines), "--json"]
    written = {tuple(of_command(command, words, capsys)) for command in COMMANDS}
    assert len(written) == 1
    values = set()
    for engine in ENGINES:
        translator = Translator.load(run, engine=engine)
        values.add(tuple(map(repr, translator.stream(LINES, confidence=translator.judge(run)))))
    assert len(values) == 1


@pytest.mark.parametrize("words", [["--sample", "--beam", "3"], ["--sample", "--n-best", "2"]])
def test_options_that_contradict_each_other_are_refused_alike(
    words: list[str], run: Path, lines: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = set()
    for command in COMMANDS:
        assert command(["translate", str(run), str(lines), *words]) == 2
        said.add(capsys.readouterr().err.split(": ", 1)[1])
    assert len(said) == 1


def test_an_imported_language_model_writes_and_reads_the_same_at_every_door(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    assert dikkat_command(["import", str(gpt2_folder(tmp_path / "theirs")), "--out", str(run)]) == 0
    capsys.readouterr()
    options = GenerationOptions(temperature=0.0, max_tokens=8)
    words = ["generate", str(run), "The cat", "--greedy", "--max-tokens", "8"]
    written = {"\n".join(of_command(command, words, capsys)) for command in COMMANDS}
    for model in (Generator.load(run), Generator.load(run, engine="torch")):
        ((continuation,),) = model.generate(["The cat"], options=options)
        written.add(f"The cat{continuation.text}")
    assert len(written) == 1


@pytest.fixture(
    scope="module",
    params=[(("en", "tr"), 0.0), (("tr", "de"), 0.5), (("de", "fr"), 0.0)],
    ids=lambda param: "-".join(param[0]),
)
def languages_and_run(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, str, Path]:
    """A run of two languages, whose training lines had several sentences, or one each."""
    languages, several = request.param
    return *languages, untold_run(tmp_path_factory.mktemp(languages[0]) / "run", languages, several)


def untold_run(path: Path, languages: tuple[str, str], several: float) -> Path:
    """A run without corrections, of whose training lines this share had several sentences."""
    run = translator_run(path, separate=True, languages=languages)
    config = json.loads((run / "config.json").read_text(encoding="utf-8"))
    config["data_source"] = {"source_lines": {"longest": 32, "usual": 24, "several_sentences": several}}
    config["data_source"]["words"] = "RuNS dOG the cat is where my keys sleeping"
    (run / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return finished(run)


def test_lines_as_people_write_them_are_read_alike_at_every_door(
    languages_and_run: tuple[str, str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, target, run = languages_and_run
    assert len(AS_WRITTEN) > 70
    greedy = BeamOptions(beam_size=1)
    file = tmp_path / "lines.txt"
    file.write_text("".join(f"{line}\n" for line in AS_WRITTEN), encoding="utf-8")
    words = ["translate", str(run), str(file), "--beam", "1", "--precision", "float32"]
    answers = {f"command {number}": of_command(command, words, capsys) for number, command in enumerate(COMMANDS)}
    translate = dikkat_runtime.Translator.load(run).translate
    answers["library"] = [translation.text for translation in dikkat.Translator.load(run).translate(AS_WRITTEN, greedy)]
    answers["page"] = in_page(run, AS_WRITTEN, tmp_path)
    expected = [translation.text for translation in translate(AS_WRITTEN, greedy)]
    for door, texts in answers.items():
        assert different(texts, expected) == [], door
    catalog = json.dumps({f"k{number}": line for number, line in enumerate(AS_WRITTEN)}).encode()
    document = tmp_path / "lines.arb"
    document.write_bytes(catalog)
    of_command(dikkat_command, [*words[:2], str(document), *words[3:], "--out", str(tmp_path / "out.arb")], capsys)
    written = {"document": (tmp_path / "out.arb").read_bytes()}
    with served(Catalog([f"{source}-{target}={run}"]), beam_size=1) as server:
        others = {"server": server.post("/translate", q=AS_WRITTEN, source=source, target=target)["translatedText"]}
        written["upload"] = upload(server, "lines.arb", catalog, source, target)
    others |= {door: list(json.loads(data).values()) for door, data in written.items()}
    for door, texts in others.items():
        # white space around a text, several spaces and line breaks in a document stay as they were
        pairs = zip(AS_WRITTEN, texts, expected, strict=True)
        both = [(text.split(), usual.split()) for line, text, usual in pairs if "\u2028" not in line]
        assert [pair for pair in both if pair[0] != pair[1]] == [], door


def upload(server: Served, name: str, data: bytes, source: str, target: str) -> bytes:
    """What the server makes of a file that is sent to it."""
    fields = {"source": source, "target": target}
    answer = server.client.post("/translate_file", files={"file": (name, data)}, data=fields)
    content: bytes = server.client.get(answer.json()["translatedFileUrl"]).content
    return content


def test_the_page_reads_by_the_tables_of_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = untold_run(tmp_path / "run", ("en", "tr"), 0.0)
    for number, (table, name, value, line) in enumerate(
        [
            (normalizing, "VARIANTS", {"¤": "cat"}, "my ¤"),
            (normalizing, "QUIET", "[x]", "my cät xx"),
            (normalizing, "CATEGORIES", ("Sc",), "my § § § cat runs"),
            (normalizing, "MARKER", re.compile(r"(see)(?=\s+\S)"), "see the cat"),
            (recasing, "MIN_TITLE_WORDS", 2, "Small Cat"),
            (recasing, "WORD", re.compile("(?!)"), "MY CAT RUNS."),
            (normalizing, "QUOTE_PAIRS", {"+": "+"}, "+my cat+"),
            (sentences, "NEVER_LAST", frozenset({"dog"}), "The dog. The cat sleeps."),
            (reading, "FINAL_MARKS", re.compile(r"(?P<marks>;;)$"), "my cat;;"),
            (placeholders, "ANY", "cat", "cat 5"),
        ]
    ):
        before = greedily(run, line)
        with monkeypatch.context() as patch:
            patch.setattr(table, name, value)
            after = greedily(run, line)
            (page,) = in_page(run, [line], tmp_path / str(number))
        assert page == after, (name, line)
        assert after != before, (name, line)


def greedily(run: Path, line: str) -> str:
    return dikkat_runtime.Translator.load(run).translate([line], beam_size=1)[0].text


def in_page(run: Path, lines: list[str], folder: Path) -> list[str]:
    """What the page writes, by the engine in Node."""
    written: list[str] = in_node(folder / "node", IN_PAGE, lines, run=open_for_web(run, "float32").encode())
    return written


def different(written: list[str], expected: list[str]) -> list[tuple[str, str]]:
    return [pair for pair in zip(written, expected, strict=True) if pair[0] != pair[1]]
