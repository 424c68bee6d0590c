"""Claim: how many target tokens a second one GPU trains, which share of its peak that is, and what it writes a second.

Nothing is fetched: ids are drawn at random, with lengths like those of news text. A share of the peak (MFU) counts six
operations for every weight of a matrix and every real token that passes it, none for padding, attention or what is
computed twice, over the rate of one large bfloat16 product measured in the same process. With --peer Hugging Face's
MarianMT is trained on the same batches, under bfloat16 autocast and with fused AdamW. --dry-run does all of it with a
tiny model on the processor, where there is no GPU, so that its numbers say nothing. One JSON line on standard output.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

# a script has its own folder on the path, and the benchmarks are a package of the one above
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from dikkat.kernels.environment import set_environment

# as the command does, before torch is loaded
set_environment()

import numpy as np  # noqa: E402
import torch  # noqa: E402
from benchmarks.contenders.no_validator import NoValidator  # noqa: E402

from dikkat.config import ModelConfig, TrainingConfig  # noqa: E402
from dikkat.data.batching import BatchPlan, collate  # noqa: E402
from dikkat.data.corpus import Corpus  # noqa: E402
from dikkat.models.factory import build_model  # noqa: E402
from dikkat.run_directory import RunDirectory  # noqa: E402
from dikkat.tasks.common.device import device_name  # noqa: E402
from dikkat.training.budget import UpdateBudget  # noqa: E402
from dikkat.training.loop import Trainer  # noqa: E402
from dikkat.training.precision import precision_of  # noqa: E402
from dikkat.training.task import StepReport, Validation  # noqa: E402
from dikkat.training.translation import TranslationTask  # noqa: E402

VOCABULARY = 32_000
BASE = {"model_dim": 512, "feed_forward_dim": 2048, "num_heads": 8, "encoder_layers": 6, "decoder_layers": 6}
BIG = {**BASE, "model_dim": 1024, "feed_forward_dim": 4096, "num_heads": 16}
TINY = {"model_dim": 32, "feed_forward_dim": 64, "num_heads": 2, "encoder_layers": 1, "decoder_layers": 1}
SIZES = {"base": BASE, "big": BIG, "tiny": TINY}
FAR_AWAY = 1_000_000
"""Updates of the planned run: no validation falls into the measurement."""
PAIRS = 60_000
"""Of random ids."""


class Stopwatch:
    """Keeps what the trainer reports of each update, and when."""

    def __init__(self) -> None:
        self.reports: list[StepReport] = []
        self.times: list[float] = []

    def step(self, report: StepReport) -> None:
        self.reports.append(report)
        self.times.append(time.perf_counter())

    def note(self, text: str) -> None:
        print(text, file=sys.stderr)

    def validation(self, row: dict[str, float], found: Validation, is_best: bool) -> None:
        raise RuntimeError("a validation fell into the measurement")


def random_corpus(folder: Path) -> Corpus:
    """Return pairs of random ids; a target has about the length of its source, the median is 24 pieces."""
    generator = np.random.default_rng(7)
    sources = np.clip(np.exp(generator.normal(np.log(24), 0.55, PAIRS)), 2, 120).astype(int)
    targets = np.clip(sources * np.exp(generator.normal(0, 0.15, PAIRS)), 2, 120).astype(int)
    lengths = zip(sources, targets, strict=True)
    rows = [tuple(generator.integers(4, VOCABULARY, size=length).tolist() for length in pair) for pair in lengths]
    return Corpus.build(folder, "train", rows)


def matrix_entries(parts: Iterable[torch.nn.Module]) -> int:
    """Count the entries of the matrices of these modules."""
    return sum(weight.numel() for part in parts for weight in part.parameters() if weight.dim() == 2)


def wait(device: str) -> None:
    """Wait until a GPU has done what it was given."""
    if device == "cuda":
        torch.cuda.synchronize()


def peak_bytes(device: str) -> int:
    """Return the most memory that tensors on a GPU took; 0 on a processor, which does not count it."""
    return torch.cuda.max_memory_allocated() if device == "cuda" else 0


def peak_flops(device: str) -> float:
    """Return operations a second of a large bfloat16 product, the best of five rounds."""
    size, times = (8192, 10) if device == "cuda" else (256, 1)
    left, right = (torch.randn(size, size, device=device, dtype=torch.bfloat16) for _ in range(2))
    best = 0.0
    for _ in range(5):
        wait(device)
        began = time.perf_counter()
        for _ in range(times):
            left @ right
        wait(device)
        best = max(best, 2 * size**3 * times / (time.perf_counter() - began))
    return best


def train(options: argparse.Namespace) -> dict[str, Any]:
    """Train on random ids, and return the rate of the timed updates."""
    config = TrainingConfig(tokens_per_batch=options.tokens, precision="bfloat16", optimizer=options.optimizer)
    model = build_model(ModelConfig(vocab_size=VOCABULARY, dropout=0.1, **SIZES[options.size]), 1).to(options.device)
    with tempfile.TemporaryDirectory(prefix="dikkat-gpu-") as folder:
        task = TranslationTask(model, random_corpus(Path(folder)), NoValidator(), config)
        run = RunDirectory.create(Path(folder) / "run")
        run.write_config({"task": "test"})
        precision = precision_of(config, model, torch.device(options.device))
        trainer = Trainer(task, run, config, UpdateBudget(FAR_AWAY), precision)
        watch, count = Stopwatch(), options.warm + options.updates
        if options.profile:
            trainer.train(watch, should_stop=lambda: len(watch.reports) == options.warm)
            return {"profile": profile(trainer)}
        trainer.train(watch, should_stop=lambda: len(watch.reports) == count)
        batches = [task.plan.at(position)[1] for position in range(options.warm, count)]
        lengths = [(np.asarray(task.corpus.source_lengths)[batch] + 1).sum() for batch in batches]
    seconds = watch.times[-1] - watch.times[options.warm - 1]
    targets = sum(report.count for report in watch.reports[options.warm :])
    sources = int(sum(lengths))
    encoder = matrix_entries([model.encoder])
    decoder = matrix_entries([model.decoder]) + model.output_weight.numel()
    # keys and values of cross-attention are computed of source tokens; that the counts differ by a tenth is left out
    operations = 6 * (encoder * sources + decoder * targets)
    peak = peak_flops(options.device)
    return {
        "target_tokens_per_second": targets / seconds,
        "source_tokens_per_second": sources / seconds,
        "milliseconds_per_update": 1e3 * seconds / options.updates,
        "flop_per_second": operations / seconds,
        "peak_flop_per_second": peak,
        "mfu": operations / seconds / peak,
        "peak_bytes": peak_bytes(options.device),
        "losses": [watch.reports[0].loss, watch.reports[-1].loss],
    }


def train_peer(options: argparse.Namespace) -> dict[str, Any]:
    """Train MarianMT of Hugging Face on the same ids, with what is usual and fast there: autocast and fused AdamW."""
    from benchmarks.contenders.huggingface_marian import PAD_ID, build
    from torch.nn import functional as F

    config = TrainingConfig(tokens_per_batch=options.tokens)
    shape = {**SIZES[options.size], "vocab_size": VOCABULARY, "dropout": 0.1, "activation": "relu"}
    model = build(shape, "sdpa").to(options.device).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.9, 0.98), weight_decay=0.0, fused=True)
    with tempfile.TemporaryDirectory(prefix="dikkat-gpu-") as folder:
        corpus = random_corpus(Path(folder))
        plan = BatchPlan(corpus.source_lengths, corpus.target_lengths, config.tokens_per_batch, config.seed)
        batches = [collate(corpus, plan.at(position)[1]) for position in range(options.warm + options.updates)]
    losses = []
    for number, batch in enumerate(batches):
        if number == options.warm:
            wait(options.device)
            began = time.perf_counter()
        source, inputs, outputs = (
            torch.from_numpy(ids).to(options.device) for ids in (batch.source, batch.target_input, batch.target_output)
        )
        optimizer.zero_grad()
        with torch.autocast(options.device, torch.bfloat16):
            logits = model(
                input_ids=source,
                attention_mask=(source != PAD_ID).long(),
                decoder_input_ids=inputs,
                use_cache=False,
            ).logits
        rows, wanted = logits.flatten(0, 1).float(), outputs.flatten()
        loss = F.cross_entropy(rows, wanted, ignore_index=PAD_ID, label_smoothing=config.label_smoothing)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), config.clip_norm)
        optimizer.step()
        losses.append(float(loss.detach()))
    seconds = time.perf_counter() - began
    targets = sum(batch.num_tokens for batch in batches[options.warm :])
    return {
        "target_tokens_per_second": targets / seconds,
        "milliseconds_per_update": 1e3 * seconds / options.updates,
        "peak_bytes": peak_bytes(options.device),
        "losses": [losses[0], losses[-1]],
    }


def profile(trainer: Trainer) -> str:
    """Tell on standard error where the time of three updates goes: by kernel, then what keeps the host busy."""
    from torch.profiler import ProfilerActivity
    from torch.profiler import profile as record

    device = trainer.parameters.master.device.type
    wait(device)
    with record(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as found:
        for _ in range(3):
            trainer.launch(0.5)
        wait(device)
    for key in (f"self_{device}_time_total", "self_cpu_time_total"):
        table = found.key_averages().table(sort_by=key, row_limit=40, max_name_column_width=70)
        print(f"sorted by {key}\n{table}", file=sys.stderr)
    return "on standard error"


def parse() -> argparse.Namespace:
    known = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    known.add_argument("--size", choices=SIZES, default="base", help="of the model")
    known.add_argument("--tokens", type=int, default=32_768, help="padded tokens of a batch, on either side")
    known.add_argument("--optimizer", choices=["adamw", "muon"], default="muon")
    known.add_argument(
        "--warm",
        type=int,
        default=60,
        help="updates before the clock starts: an epoch",
    )
    known.add_argument("--updates", type=int, default=40, help="timed updates")
    known.add_argument("--peer", action="store_true", help="train MarianMT of Hugging Face instead")
    known.add_argument("--dry-run", action="store_true", help="on the processor, with a tiny model")
    known.add_argument("--profile", action="store_true", help="tell where the time goes instead")
    options = known.parse_args()
    options.device = "cuda"
    if options.dry_run:
        options.device, options.size, options.tokens, options.warm, options.updates = "cpu", "tiny", 400, 1, 2
    return options


def main() -> None:
    options = parse()
    if not options.dry_run and not torch.cuda.is_available():
        sys.exit("this needs a GPU that PyTorch sees; --dry-run does without")
    began = time.perf_counter()
    found = train_peer(options) if options.peer else train(options)
    where = {"device": device_name(torch.device(options.device)), "torch": torch.__version__, "options": vars(options)}
    print(json.dumps({**where, **found, "wall": round(time.perf_counter() - began, 1)}))


if __name__ == "__main__":
    main()
