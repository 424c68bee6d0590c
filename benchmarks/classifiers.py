"""How well dikkat classifies beside TF-IDF with logistic regression, a linear SVM and fastText, on twelve data sets.

Each side learns the same training part by its default command and answers the same test part, which nothing was chosen
on. The score is accuracy, or macro F1 where the classes are imbalanced, with --balance here and class weights there.
IMDB, Tatoeba and Shakespeare lie in ../shared/data, or --data; messages of programs are those of this system.
"""

from __future__ import annotations

import argparse
import gettext
import gzip
import json
import random
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

# a script has its own folder on the path, and the benchmarks are a package of the one above
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.harness import HERE, OWN_PYTHON, ROOT, child, make_environment, note, parser, provenance, require_files

Row = tuple[str, str]
LOCALE = Path("/usr/share/locale")
LANGUAGES = (
    "ca",
    "cs",
    "da",
    "de",
    "el",
    "es",
    "fi",
    "fr",
    "hu",
    "id",
    "it",
    "ja",
    "ko",
    "nl",
    "pl",
    "pt",
    "ru",
    "sv",
    "tr",
    "uk",
)
OF_THIS_SYSTEM = {"languages", "programs", "turkish", "scripts"}
"""Data sets that need no folder."""
MAX_MESSAGES = 300
"""Messages of a program in a language that are read."""


@dataclass(frozen=True, slots=True)
class DataSet:
    """Labelled texts, split."""

    name: str
    train: Sequence[Row]
    test: Sequence[Row]
    measure: str = "accuracy"


@dataclass(frozen=True, slots=True)
class Sources:
    """Where the texts come from, and of how many at most a data set is made."""

    data: Path
    most: int

    def imdb(self, part: str) -> list[Row]:
        """Return the reviews of a part, shuffled."""
        return _shuffled(_tsv(self.data / f"imdb/{part}.tsv.gz"))

    def cut(self, count: int) -> DataSet:
        """Return so many reviews of IMDB to train on."""
        train = self.imdb("train")[: min(count, self.most)]
        return DataSet(f"imdb, {count:,} texts", train, self.imdb("test")[: min(5_000, self.most)])

    def imbalanced(self) -> DataSet:
        """Return reviews of which one in fifty is negative."""

        def thinned(rows: Iterable[Row], count: int) -> list[Row]:
            rare, common = ([row for row in rows if row[0] == label] for label in ("neg", "pos"))
            return _shuffled([*rare[: count // 50], *common[: count - count // 50]])

        train, test = (thinned(self.imdb(part), min(5_000, self.most)) for part in ("train", "test"))
        return DataSet("imdb, 50:1", train, test, "macro_f1")

    def long_texts(self) -> DataSet:
        """Return texts of some 5,000 words: twenty reviews, twelve of them of the label."""

        def joined(rows: list[Row], count: int) -> list[Row]:
            generator, texts = (
                random.Random(5),
                {label: [t for own, t in rows if own == label] for label in ("neg", "pos")},
            )
            labels = [generator.choice(["neg", "pos"]) for _ in range(count)]
            return [
                (
                    label,
                    " ".join(
                        generator.sample(
                            [
                                *generator.sample(texts[label], 12),
                                *generator.sample(texts["neg" if label == "pos" else "pos"], 8),
                            ],
                            20,
                        )
                    ),
                )
                for label in labels
            ]

        count = min(400, self.most)
        return DataSet("imdb, 5,000 words", joined(self.imdb("train"), count), joined(self.imdb("test"), count))

    def tatoeba(self) -> DataSet:
        """Return short English sentences, and whether their French says tu or vous."""
        rows = []
        for line in _lines(self.data / "tatoeba/eng-fra.tsv.gz"):
            english, french = line.split("\t")[:2]
            found = {
                "tu" if word in ("tu", "te", "toi", "ton", "ta", "tes") else "vous"
                for word in re.findall(r"\w+", french.lower())
                if word in ("tu", "te", "toi", "ton", "ta", "tes", "vous", "votre", "vos")
            }
            if len(found) == 1:
                rows.append((found.pop(), english))
        return self.split("tatoeba, tu or vous", _without_copies(rows), 6_000)

    def speakers(self) -> DataSet:
        """Return what twenty characters of Shakespeare say."""
        text = "\n".join(_lines(self.data / "shakespeare/input.txt.gz"))
        speeches = [speech.partition(":\n") for speech in text.split("\n\n")]
        rows = [(speaker, " ".join(words.split())) for speaker, _, words in speeches if words]
        return self.split("shakespeare, 20 speakers", _commonest(rows, 20), 6_000)

    def verse(self) -> DataSet:
        """Return lines of Shakespeare, and the half of the book that each is of."""
        lines = _lines(self.data / "shakespeare/input.txt.gz")
        spoken = [line for line in lines if line.strip() and not line.endswith(":")]
        third = len(spoken) // 3 + 1
        rows = [(["first", "second", "third"][number // third], line.strip()) for number, line in enumerate(spoken)]
        return self.split("shakespeare, third of a line", _without_copies(rows), 8_000)

    def languages(self) -> DataSet:
        """Return messages of programs in twenty languages."""
        rows = [(language, text) for language, _, text in self.messages(languages=LANGUAGES)]
        return self.split("messages, 20 languages", _commonest(rows, 20), 6_000)

    def packages(self) -> DataSet:
        """Return English messages of the fifty programs that have most."""
        rows = _without_copies((program, key) for _, program, key in self.messages("key", ("de", "fr", "tr")))
        return self.split("messages, 50 programs", _commonest(rows, 50), 6_000)

    def turkish(self) -> DataSet:
        """Return Turkish messages of ten programs."""
        rows = [(program, text) for _, program, text in self.messages(languages=("tr",))]
        return self.split("messages in Turkish, 10 programs", _commonest(rows, 10), 4_000)

    def messages(self, side: str = "text", languages: Sequence[str] = ()) -> list[tuple[str, str, str]]:
        """Return language, program and text, or key, of messages of three words or more."""
        found = []
        for path in sorted(LOCALE.glob("*/LC_MESSAGES/*.mo")):
            if languages and path.parts[4] not in languages:
                continue
            try:
                with path.open("rb") as file:
                    catalog = vars(gettext.GNUTranslations(file))["_catalog"]
            except (UnicodeDecodeError, IndexError, OSError):
                continue
            pairs = [(key, text) for key, text in catalog.items() if isinstance(key, str) and key][:MAX_MESSAGES]
            for key, text in pairs:
                words = " ".join((key if side == "key" else text).split())
                if key != text and words.count(" ") >= 2:
                    found.append((path.parts[4], path.stem, words))
        return found

    def split(self, name: str, rows: list[Row], count: int) -> DataSet:
        """Return a data set of `count` rows at most, a third of them to test on."""
        rows = _shuffled(rows)[: min(count, 2 * self.most)]
        return DataSet(name, rows[len(rows) // 3 :], rows[: len(rows) // 3])


def data_sets(sources: Sources) -> dict[str, Callable[[], DataSet]]:
    """Return what makes each data set, by a short name."""
    return {
        "imdb-200": lambda: sources.cut(200),
        "imdb-1000": lambda: sources.cut(1_000),
        "imdb-5000": lambda: sources.cut(5_000),
        "imbalanced": sources.imbalanced,
        "long": sources.long_texts,
        "tatoeba": sources.tatoeba,
        "speakers": sources.speakers,
        "verse": sources.verse,
        "languages": sources.languages,
        "programs": sources.packages,
        "turkish": sources.turkish,
        "scripts": scripts(sources),
    }


def scripts(sources: Sources) -> Callable[[], DataSet]:
    """Return names of characters of Unicode, whose label is the general category: a few words, and rare classes."""
    import unicodedata

    def named() -> DataSet:
        rows = [(unicodedata.category(sign), unicodedata.name(sign, "")) for sign in map(chr, range(0x2FFFF))]
        rows = [row for row in rows if row[1] and not row[1].startswith(("CJK UNIFIED", "HANGUL SYLLABLE"))]
        return sources.split("names of characters, 20 classes", _commonest(rows, 20), 6_000)

    return named


def _lines(path: Path) -> list[str]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return file.read().split("\n")[:-1]


def _tsv(path: Path) -> list[Row]:
    return [(label, text) for label, _, text in (line.partition("\t") for line in _lines(path))]


def _shuffled(rows: Iterable[Row]) -> list[Row]:
    shuffled = list(rows)
    random.Random(7).shuffle(shuffled)
    return shuffled


def _without_copies(rows: Iterable[Row]) -> list[Row]:
    """Each text once, with its first label."""
    return [(label, text) for text, label in {text: label for label, text in reversed(list(rows))}.items()]


def _commonest(rows: Sequence[Row], count: int) -> list[Row]:
    kept = {label for label, _ in Counter(label for label, _ in rows).most_common(count)}
    return _without_copies(row for row in rows if row[0] in kept)


Answers = tuple[list[str], float]


def linear(kind: str, data: DataSet) -> Answers:
    """Return the answers of a linear model of scikit-learn on TF-IDF of words and pairs, and its processor time."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.svm import LinearSVC

    started = time.process_time()
    weight = "balanced" if data.measure == "macro_f1" else None
    model = (
        LinearSVC(class_weight=weight) if kind == "svm" else LogisticRegression(C=10, max_iter=300, class_weight=weight)
    )
    pipeline = make_pipeline(TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True), model)
    pipeline.fit([text for _, text in data.train], [label for label, _ in data.train])
    answers = [str(label) for label in pipeline.predict([text for _, text in data.test])]
    return answers, time.process_time() - started


def fasttext(python: Path, data: DataSet, folder: Path) -> Answers:
    """Return the answers of fastText."""
    found = child(
        python,
        "fasttext_classifier",
        {"train": str(folder / "train.tsv"), "test": str(folder / "test.txt"), "folder": str(folder)},
        1,
    )
    return found["answers"], found["seconds"]


def dikkat(folder: Path, options: Sequence[str]) -> Answers:
    """Return the answers of the default command."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    program, run = [str(OWN_PYTHON), "-m", "dikkat"], folder / "run"
    trained = [*program, "train", "classifier", str(folder / "train.tsv"), "--out", str(run), *options]
    subprocess.run(trained, check=True, capture_output=True)
    classified = [*program, "classify", str(run), str(folder / "test.txt")]
    done = subprocess.run(classified, check=True, capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return [line.partition("\t")[0] for line in done.stdout.split("\n")[:-1]], seconds


def score(data: DataSet, answers: Sequence[str]) -> float:
    """Return accuracy or macro F1 in percent."""
    from sklearn.metrics import f1_score

    wanted = [label for label, _ in data.test]
    if data.measure == "macro_f1":
        return 100 * float(f1_score(wanted, answers, average="macro"))
    return 100 * sum(map(str.__eq__, wanted, answers)) / len(wanted)


def compare(data: DataSet, python: Path | None, options: Sequence[str]) -> dict[str, object]:
    """Return the score and the processor seconds of each side."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "train.tsv").write_text("".join(f"{label}\t{text}\n" for label, text in data.train), encoding="utf-8")
        (folder / "test.txt").write_text("".join(f"{text}\n" for _, text in data.test), encoding="utf-8")
        asked = [*options, *(("--balance",) if data.measure == "macro_f1" else ())]
        found = {
            "dikkat": dikkat(folder, asked),
            "tf-idf + LR": linear("lr", data),
            "tf-idf + SVM": linear("svm", data),
        }
        if python is not None:
            found["fastText"] = fasttext(python, data, folder)
    scores = {side: round(score(data, answers), 2) for side, (answers, _) in found.items()}
    best = max(value for side, value in scores.items() if side != "dikkat")
    return {
        "data": data.name,
        "train": len(data.train),
        "classes": len({label for label, _ in data.train}),
        "measure": data.measure,
        "scores": scores,
        "seconds": {side: round(seconds, 1) for side, (_, seconds) in found.items()},
        "lead": round(scores["dikkat"] - best, 2),
    }


def main() -> None:
    """Compare on each data set, and print a table and a line of JSON."""
    arguments = _arguments()
    sources = Sources(arguments.data, arguments.most)
    makers = data_sets(sources)
    if not {*(arguments.sets or makers)} <= OF_THIS_SYSTEM:
        advice = "name the folder of imdb, tatoeba and shakespeare with --data"
        require_files([arguments.data / "imdb/train.tsv.gz"], advice)
    python = None
    if not arguments.without_fasttext:
        python = make_environment(arguments.env, HERE / "requirements-fasttext.txt")
    rows = []
    for name in arguments.sets or makers:
        rows.append(row := compare(makers[name](), python, arguments.option))
        note(f"{row['data']:34} {row['train']:6} texts {row['classes']:3} classes  {row['scores']}  {row['seconds']}")
    leads = [float(str(row["lead"])) for row in rows]
    held = sum(lead >= 0 for lead in leads)
    note(f"at least the best of the others in {held} of {len(leads)}; lowest {min(leads):+.2f}")
    print(json.dumps({**provenance("classifiers beside the obvious baselines"), "rows": rows}))


def _arguments() -> argparse.Namespace:
    options = parser(__doc__)
    options.add_argument("--data", type=Path, default=ROOT.parent / "shared/data", help="folder of the public data")
    options.add_argument("--sets", nargs="*", help="short names of the data sets; all twelve if absent")
    options.add_argument("--most", type=int, default=1_000_000, help="texts of a part at most")
    options.add_argument("--option", action="append", default=[], help="an option more for dikkat train classifier")
    options.add_argument("--without-fasttext", action="store_true", help="leave out fastText, which pip installs")
    options.add_argument("--env", type=Path, default=HERE / ".venv-fasttext", help="environment of fastText")
    return options.parse_args()


if __name__ == "__main__":
    main()
