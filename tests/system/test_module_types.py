"""The types of the module for JavaScript, checked by TypeScript's compiler, and what is compiled, run by Node."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.runtime.runs import classifier_run, language_model_run, translator_run

from dikkat import Translator
from dikkat.web.module import write_module
from dikkat.web.opening import open_for_web
from dikkat_runtime.engine.options import BeamOptions
from dikkat_runtime.tasks.classifier import Classifier

pytestmark = pytest.mark.nightly
EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "translate.ts"
PACKAGES = ("typescript@5.9.3", "@types/node@20.19.0")
TEXT = "The small cat is sleeping."
EVERY_CALL = """
import { Classifier, Generator, Translator } from "./module/dikkat.js";
import type { Attention, AttentionMap, Classification } from "./module/dikkat.js";
import type { HeadName, SamplingOptions, Translation } from "./module/dikkat.js";

const text = "The small cat is sleeping.";
const at = (folder: string): URL => new URL(`./${folder}/model.dikkat`, import.meta.url);
const translator = await Translator.load(at("module"), { simd: false });
const headsOff: HeadName[] = [["cross", 0, 1]];
const translation: Translation = translator.translate(text, { beamSize: 2, headsOff });
let written: string = "";
for (const part of translator.stream(text)) written = part;
const maps: Attention = translator.attend(text, translation.text, { headsOff });
const first: AttentionMap | undefined = maps.encoder[0];
const shape: [number, number, number] = first?.shape ?? [0, 0, 0];
const classifier = await Classifier.load(at("classifier"));
const answer: Classification = classifier.classify(text);
const shares: number[] = classifier.labels.map((label) => answer.probabilities[label] ?? NaN);
const generator = await Generator.load(at("lm"));
const sampling: SamplingOptions = { temperature: 0, topK: 3, topP: 0.9, random: () => 0.5 };
const next: { token: string; probability: number }[] = generator.next(text, { ...sampling, count: 1 });
const continued: string = generator.generate(text, { ...sampling, maxTokens: 3 });
console.log(JSON.stringify({
  engines: [translator.engine, classifier.engine, generator.engine], written, tokens: translation.tokens.length,
  shape, values: first?.values.length, label: answer.label, sum: shares.reduce((a, b) => a + b),
  next: next.length, continued,
}));
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with TypeScript, and the modules of three models that nobody trained."""
    if shutil.which("npm") is None:
        pytest.skip("needs npm: apt-get install npm")
    path = tmp_path_factory.mktemp("types")
    install = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", str(path)]
    done = subprocess.run([*install, *PACKAGES], capture_output=True, text=True, check=False, timeout=300)
    if done.returncode:
        pytest.skip(f"npm installs no {PACKAGES} here: {(done.stderr or done.stdout).strip()[-300:]}")
    (path / "package.json").write_text('{"type": "module"}', encoding="utf-8")
    for name, make in (("module", translator_run), ("classifier", classifier_run), ("lm", language_model_run)):
        write_module(open_for_web(make(path / f"{name}-run"), "float32"), path / name)
    return path


def compiled(folder: Path, source: str) -> tuple[int, str]:
    """The exit code and the messages of the compiler, which checks the types of the module as well."""
    (folder / "program.ts").write_text(source, encoding="utf-8")
    options = ("--strict", "--noUncheckedIndexedAccess", "--exactOptionalPropertyTypes")
    command = ["node_modules/.bin/tsc", *options, "--target", "es2022", "--module", "nodenext", "program.ts"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=300)
    return done.returncode, done.stdout


def printed(folder: Path, *arguments: str) -> str:
    command = ["node", "program.js", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def searched(translator: Translator, beam_size: int) -> str:
    """What the native engine finds for TEXT, without the second try that a text of loops gets."""
    memory = translator.engine.encode(translator.tokenizer.encode_batch([TEXT]))
    ((best, *_),) = translator.engine.search(memory, BeamOptions(beam_size=beam_size))
    return translator.target_tokenizer.decode(best.tokens)


def test_every_call_has_the_type_that_it_returns(folder: Path) -> None:
    assert compiled(folder, EVERY_CALL) == (0, "")
    found = json.loads(printed(folder))
    assert found["engines"] == ["JavaScript", "WebAssembly SIMD", "WebAssembly SIMD"]
    translator = Translator.load(folder / "module-run", engine="native")
    assert found["written"] == searched(translator, 1)
    heads, queries, keys = found["shape"]
    assert queries == keys == len(translator.tokenizer.encode(TEXT)) + 1
    assert found["values"] == heads * queries * keys
    (answer,) = Classifier.load(folder / "classifier-run").classify([TEXT])
    assert found["label"] == answer.label
    assert found["sum"] == pytest.approx(1, abs=1e-5)
    assert found["next"] == 1


def test_the_example_compiles_and_translates(folder: Path) -> None:
    assert compiled(folder, EXAMPLE.read_text(encoding="utf-8")) == (0, "")
    first, *looks = printed(folder, TEXT).rstrip("\n").split("\n")
    assert first.split("\t")[0] == searched(Translator.load(folder / "module-run", engine="native"), 5)
    assert looks
    assert all(" ← " in line for line in looks)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("model.translate(3);", "TS2345"),
        ('model.translate("a", { beam: 5 });', "TS2353"),
        ('const text: string = model.translate("a");', "TS2322"),
        ('model.translate("a", { headsOff: [["memory", 0, 0]] });', "TS2322"),
        ("model.engine = 'mine';", "TS2540"),
    ],
)
def test_a_wrong_call_is_refused(folder: Path, wrong: str, message: str) -> None:
    source = f'import {{ Translator }} from "./module/dikkat.js";\ndeclare const model: Translator;\n{wrong}\n'
    code, messages = compiled(folder, source)
    assert code != 0
    assert message in messages
