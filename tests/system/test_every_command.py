"""Every command, whatever is wrong with its streams and its files: one line, the right exit code, no traceback."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.system.fork_server import Ended, ForkServer, Streams
from tests.system.toy import Command, settings, toy_sentences

GROUPS = ("", "train", "data", "draw")


@dataclass(frozen=True)
class Try:
    """One way to call a command; MT, CL, LM, PAIRS, LABELS and TEXT stand for what the fixture `made` makes."""

    words: str
    writes: bool = True
    """Whether it writes to standard output."""
    reads: bool = False
    """Whether it reads standard input."""
    code: int = 0
    is_slow: bool = False
    bad: int | None = None
    """The word that the bad files take the place of."""


TRIES = {
    "translate": Try("translate MT", reads=True),
    "translate a file": Try("translate MT TEXT", bad=2),
    "classify": Try("classify CL", reads=True),
    "classify a file": Try("classify CL TEXT", bad=2),
    "generate": Try("generate LM --max-tokens 3", reads=True),
    "embed": Try("embed MT", reads=True),
    "embed a file": Try("embed MT TEXT --nearest 1", bad=2),
    "evaluate": Try("evaluate MT PAIRS --samples 2", bad=2),
    "evaluate a classifier": Try("evaluate CL LABELS", bad=2),
    "evaluate a language model": Try("evaluate LM TEXT", bad=2),
    "attend": Try("attend MT - --out map.json", reads=True),
    "page": Try("page MT --out page.html", writes=False, bad=1),
    "page of a classifier": Try("page CL --out page.html", writes=False),
    "export": Try("export MT --to web --out module", writes=False, bad=1),
    "explain": Try("explain Hello --vectors VECTORS", bad=3),
    "heads": Try("heads MT PAIRS --sentences 2", is_slow=True, bad=2),
    "report": Try("report MT --out report.html", writes=False, is_slow=True, bad=1),
    "compare": Try("compare --lengths 4,8 --widths 4,8 --copy-lengths 2,3 --updates 1", is_slow=True),
    "doctor": Try("doctor MT", bad=1),
    "draw model": Try("draw model --config SETTINGS", bad=3),
    "draw positions": Try("draw positions --out table.svg --length 20 --dim 12"),
    "data diversify": Try("data diversify MT MT PAIRS --out more.tsv", is_slow=True, bad=4),
    "translate-files": Try("translate-files MT TEXT --out files --beam 1", writes=False, is_slow=True, bad=2),
    "data backtranslate": Try("data backtranslate MT TEXT --out back.tsv", is_slow=True, bad=3),
    "data distil": Try("data distil MT TEXT --out distilled.tsv --beam 1", is_slow=True, bad=3),
    "interpolate": Try("interpolate MT --out run", writes=False, code=2, bad=1),
    "import": Try("import TEXT --out run", writes=False, code=66, bad=1),
    "serve": Try("serve TEXT --port 0", writes=False, code=66, bad=1),
    "train translator": Try("train translator PAIRS --out run", writes=False, is_slow=True, bad=2),
    "train classifier": Try("train classifier LABELS --out run", writes=False, is_slow=True, bad=2),
    "train lm": Try("train lm TEXT --out run", writes=False, is_slow=True, bad=2),
    "quickstart": Try("quickstart --pair en-tlh", writes=False, code=2),
}
COMMANDS = sorted({" ".join(name.split()[: 2 if name.split()[0] in GROUPS else 1]) for name in TRIES})
BUSY_ALONE = ("quickstart", "compare")
"""What needs no argument, and takes a minute."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ForkServer]:
    server = ForkServer(tmp_path_factory.mktemp("commands"))
    yield server
    server.close()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, server: ForkServer) -> dict[str, str]:
    """What the words in capitals stand for."""
    folder = tmp_path_factory.mktemp("made")
    pairs = toy_sentences(80)
    contents = {
        "PAIRS": ("pairs.tsv", "".join(f"{source}\t{target}\n" for source, target in pairs)),
        "LABELS": ("labels.tsv", "".join(f"{'ab'[n % 2]}\t{source}\n" for n, (source, _) in enumerate(pairs))),
        "TEXT": ("text.txt", "".join(f"{source} çok\n" for source, _ in pairs[:3] * 80)),
        "VECTORS": ("vectors.tsv", "Hello\t1\t2\n"),
        "SETTINGS": ("settings.toml", "[model]\nmodel_dim = 16\n"),
        "INPUT": ("input.txt", "the dog sees\na çat\n"),
    }
    for name, content in contents.values():
        (folder / name).write_text(content, encoding="utf-8")
    values = {word: str(folder / name) for word, (name, _) in contents.items()}
    for kind, word, data in (("translator", "MT", "PAIRS"), ("classifier", "CL", "LABELS"), ("lm", "LM", "TEXT")):
        values[word] = str(folder / word)
        # a page cannot hold a word table
        table = {"classifier__word_table": False} if kind == "classifier" else {}
        options = settings(training__max_updates=2, training__validations=1, **table)
        trained = server("train", kind, values[data], "--out", values[word], *options)
        assert trained.code == 0, trained.stderr
    return values


def words_of(tried: Try, made: dict[str, str], instead: Path | None = None) -> list[str]:
    words = [made.get(word, word) for word in tried.words.split()]
    if instead is not None:
        assert tried.bad is not None
        words[tried.bad] = str(instead)
    if words[0] == "train":
        words += settings(training__max_updates=1, training__validations=1)
    return words


def check(ended: Ended, code: int) -> None:
    """The exit code, and one line about a failure: the last on standard error, after what was told of the progress."""
    assert "Traceback" not in ended.stderr, ended.stderr
    assert ended.code == code, ended.stderr
    complaints = [line for line in ended.stderr.split("\n") if line.startswith("dikkat: ")]
    assert len(complaints) == (0 if code in (0, 141) else 1), ended.stderr
    if complaints:
        assert ended.stderr.endswith(f"{complaints[0]}\n")


BRIEF_DAILY = ("attend", "doctor", "draw positions", "evaluate")
"""By day tried as little as the slow ones."""


@pytest.mark.parametrize(
    ("name", "is_brief"),
    [
        *((name, tried.is_slow or name in BRIEF_DAILY) for name, tried in TRIES.items()),
        *(pytest.param(name, False, marks=pytest.mark.nightly) for name in BRIEF_DAILY),
    ],
)
def test_streams(name: str, is_brief: bool, server: ForkServer, made: dict[str, str]) -> None:
    tried = TRIES[name]
    words, text = words_of(tried, made), made["INPUT"]
    # nobody to hear a message, and a locale that knows no letter beyond ASCII
    odd = server(*words, streams=Streams(stdin=text if tried.reads else None, stderr=None, encoding="ascii"))
    assert (odd.code, bool(odd.stdout)) == (tried.code, tried.writes)
    if not is_brief:
        usual = server(*words, streams=Streams(stdin=text))
        check(usual, tried.code)
        assert without_times(odd.stdout) == without_times(usual.stdout)
    if tried.reads:
        unread = server(*words, streams=Streams(stdin=None))
        check(unread, 66)
        assert unread.stderr.endswith("dikkat: standard input: is closed\n")
    if tried.writes:
        unwritten = server(*words, streams=Streams(stdin=text, stdout="/dev/full"))
        check(unwritten, 74)
        assert unwritten.stderr.endswith("dikkat: standard output: writing failed: No space left on device\n")
    if tried.writes and not is_brief:
        check(server(*words, streams=Streams(stdin=text, stdout="gone")), 141)
    if not is_brief:
        closed = server(*words, streams=Streams(stdin=text, stdout=None))
        check(closed, 74 if tried.writes else tried.code)
        assert closed.stderr.endswith("dikkat: standard output: is closed\n") == tried.writes


def without_times(text: bytes) -> bytes:
    return re.sub(rb"[0-9.]+ s\n", b"", text)


@pytest.mark.parametrize("name", [name for name, tried in TRIES.items() if tried.bad is not None])
def test_bad_files(name: str, server: ForkServer, made: dict[str, str], tmp_path: Path) -> None:
    tried = TRIES[name]
    assert tried.bad is not None
    suffix = Path(made.get(tried.words.split()[tried.bad], "")).suffix
    empty, binary, folder, missing = (tmp_path / f"{item}{suffix}" for item in ("empty", "binary", "folder", "missing"))
    empty.write_bytes(b"")
    binary.write_bytes(bytes(range(256)) * 12)
    folder.mkdir()
    is_of_run = tried.words.split()[tried.bad] == "MT" or name in ("import", "serve")
    codes = {empty: 65, binary: 65, folder: 66, missing: 66}
    if is_of_run:  # a folder is asked for
        codes = {empty: 66, binary: 66, folder: 66, missing: 66}
    if name == "draw model":  # an empty file sets nothing
        codes[empty] = 0
    if name == "translate-files":  # one of many files may be empty, and lines that are no text are counted
        codes |= {empty: 0, binary: 0}
    for path, code in codes.items():
        ended = server(*words_of(tried, made, path), streams=Streams(stdin=made["INPUT"]))
        check(ended, code)
        assert code == 0 or path.name in ended.stderr


@pytest.mark.parametrize("command", [*GROUPS, *COMMANDS])
def test_help_and_no_arguments(command: str, dikkat: Command) -> None:
    words = command.split()
    code, asked, complaint = dikkat(*words, "--help")
    assert (code, complaint) == (0, "")
    assert asked.startswith(" ".join(["Usage:", "dikkat", *words]))
    assert asked.count("\n") > 8
    assert dikkat(*words, "-h") == (0, asked, "")
    if not command:
        code, greeted, _ = dikkat()
        assert (code, "All commands: dikkat --help" in greeted) == (0, True)
    elif command in GROUPS:
        assert dikkat(*words) == (0, asked, "")
    elif command == "doctor":
        # alone it says what a report of a fault should say of this computer
        code, told, _ = dikkat(*words)
        assert (code, told.startswith("dikkat ")) == (0, True)
    elif command not in BUSY_ALONE:
        code, output, complaint = dikkat(*words)
        check(Ended(code, b"", complaint, Path()), 2)
        assert output == ""
    dikkat.fails(2, *words, "--no-such-option")


@pytest.mark.parametrize("group", GROUPS)
def test_help_is_written_to_the_stream_of_the_process(group: str, server: ForkServer, dikkat: Command) -> None:
    words = (*group.split(), "--help")
    asked = server(*words)
    assert (asked.code, asked.stdout.decode(), asked.stderr) == dikkat(*words)
    check(server(*words, streams=Streams(stdout="/dev/full")), 74)


def test_a_terminal_is_shown_control_characters_and_a_pipe_gets_them(
    server: ForkServer, made: dict[str, str], tmp_path: Path
) -> None:
    words = ("generate", made["LM"], "a\x1b[31m\x9b7m\tb\nc\r", "--greedy", "--max-tokens", "1")
    assert server(*words).stdout.startswith("a\x1b[31m\x9b7m\tb\nc\r".encode())
    terminal, end = os.openpty()
    assert server(*words, streams=Streams(stdout=os.ttyname(end))).code == 0
    assert os.read(terminal, 1000).startswith(b"a\\x1b[31m\\x9b7m\tb\r\nc\\r")
    os.close(end)
    os.close(terminal)
    labelled = tmp_path / "labelled.tsv"
    labelled.write_text("a\tthe \x1b]0;title\x07 dog\n", encoding="utf-8")
    scored = server("evaluate", made["CL"], labelled, "--samples", "3")
    assert b"\x1b" not in scored.stdout + scored.stderr.encode()
    check(missing := server("translate", made["MT"], "a\x1b[2J\nb"), 66)
    assert missing.stderr.split("\n")[1:] == ["dikkat: a\\x1b[2J\\nb: there is no such file", ""]


@pytest.mark.parametrize("words", ["classify CL", "embed MT", "classify CL --words 1"])
def test_the_lines_before_a_bad_one_are_answered(
    words: str, server: ForkServer, made: dict[str, str], tmp_path: Path
) -> None:
    text = tmp_path / "text"
    text.write_bytes(b"the dog\nthe cat\nthe \xff\nthe king\n")
    ended = server(*(made.get(word, word) for word in words.split()), streams=Streams(stdin=str(text)))
    check(ended, 65)
    assert ended.stdout.count(b"\n") == 2
    last = ended.stderr.removesuffix("\n").split("\n")[-1]
    assert last.startswith("dikkat: standard input:3:5: byte 0xFF is not valid UTF-8")


def test_what_a_finished_training_tells_to_try_is_done_by_a_shell(
    server: ForkServer, made: dict[str, str], tmp_path: Path
) -> None:
    out = tmp_path / "it's {my} run; $(touch no)"
    message = server("train", "lm", made["TEXT"], "--out", out, *settings(training__max_updates=1))
    # one update teaches nothing, so it is told how to train for longer
    line = message.stderr.rstrip("\n").partition("for a better model: ")[2]
    program = "dikkat() { printf '%s\\0' \"$@\"; }; " + line
    words = subprocess.run(["bash", "-c", program], capture_output=True, check=True, cwd=tmp_path).stdout
    split = words.decode().split("\0")[:-1]
    assert split[:2] == ["train", "lm"]
    assert split[split.index("--out") + 1] == f"{out}-2"
    assert not (tmp_path / "no").exists()
    check(server(*split, "--set", "training.max_updates=1"), 0)
