"""Weights between a translator and the base that it began with, and adapters, which are what it adds."""

import shutil
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from dikkat.run_directory import RunDirectory
from dikkat.run_directory.data_source import data_source
from dikkat.run_directory.tensor_files import read_header, read_metadata, read_tensors
from dikkat.tasks.common.settings import run_config
from dikkat_runtime.engine.precision import read_record
from dikkat_runtime.errors import DataError, UsageError, msg
from dikkat_runtime.files import write_atomically
from dikkat_runtime.run.config import read_config
from dikkat_runtime.run.parts import WEIGHTS
from dikkat_runtime.run.weights import ADAPTS, BASE, DOWN, UP, read_checksum

# Interpolate the weights of an adapted translator with those that it began with (Wortsman et al. 2022, WiSE-FT).


def interpolated_weights(run: RunDirectory, share: float) -> dict[str, Tensor]:
    """Return `(1 - share) * before + share * after` for each weight of `run`, computed in float64 and kept in float32.

    "Before" are the weights that the run began with, "after" those that it learned (Wortsman et al. 2022,
    arxiv.org/abs/2109.01903, equation 1). Raises `UsageError` for a run that did not begin with another one,
    `MissingInputError` for one without weights, and `DataError` for a damaged file or where the two do not fit.
    """
    if not run.initial.exists():
        raise UsageError(
            "{run}: did not start from another translator; name one that was trained with --from", run.path
        )
    before, after = read_tensors(run.initial), run.load_weights()
    for path, own, other in ((run.initial, before, after), (run.weights, after, before)):
        for name, tensor in own.items():
            if name not in other or other[name].shape != tensor.shape:
                raise DataError(
                    "{path}: the weight {name} has no match among those after or before; restore the file", path, name
                )
            if not torch.isfinite(tensor).all():
                raise DataError(
                    "{file}: damaged: {name} holds numbers that are not finite; restore the file", path, name
                )
    mixed = {name: torch.lerp(before[name].double(), after[name].double(), share) for name in after}
    return {name: tensor.float() for name, tensor in mixed.items()}


def write_interpolated(path: Path, share: float, out: Path, command: str) -> None:
    """Write the run `out`: all of the adapted translator at `path` that translates, with interpolated weights.

    Its held-out text goes along, its training pairs and metrics do not. Raises as `interpolated_weights`, and
    `CannotCreateError` or `DiskError`.
    """
    adapted = RunDirectory.open(path)
    settings = read_config(adapted.path, "translator")
    weights = interpolated_weights(adapted, share)
    base = data_source(settings, adapted.config).get("adapted", {}).get("run", msg("its base"))
    parts = [
        adapted.held_out(part, side) for part in ("validation", "general", "test") for side in ("source", "target")
    ]
    files = [adapted.tokenizer, *filter(Path.exists, (adapted.target_tokenizer, *parts))]
    run = RunDirectory.create(out)
    with run.alone():
        run.make_folder("held_out")
        for file in files:
            write_atomically(run.path / file.relative_to(path), file.read_bytes())
        run.write_config({**settings, "interpolated": {"run": str(path), "share": share}, "command": command})
        run.save_weights(weights, {"interpolated_from": str(path), "share": str(share)})
        run.write_card(
            f"# {out.resolve().name}\n\nA translator whose weights are {share:g} times those of `{path}` and"
            f" {1.0 - share:g} times those of `{base}`, with which it began. It was not trained itself.\n\n"
            f"```\n{command}\n```\n"
        )


# Keep of an adaptation what it adds to its base: low-rank factors of each changed matrix.

MAX_ADAPTER_SIZE, MAX_RANK = 3 << 20, 16
"""Bytes of an adapter's weights, and the most that one needs of ranks, where no other rank is asked for."""


def adapter_rank(base: Path) -> int:
    """Return the rank with which an adapter of the run `base` keeps to its size. Raises as `read_header`."""
    shapes = [one.shape for name, one in read_header(base / WEIGHTS).items() if ".blocks." in name]
    a_rank = 4 * sum(sum(shape) for shape in shapes if len(shape) == 2)
    return max(1, min(MAX_RANK, MAX_ADAPTER_SIZE // max(1, a_rank)))


def keep_adapter(path: Path) -> str:
    """Keep of the finished run at `path` only what it adds to its base, and return a note of its size.

    The factors of a change are its singular vectors, and of no more ranks than were trained. Raises `UsageError` for a
    run that did not start from another one, as `offer_base`, `CannotCreateError` and `DiskError`.
    """
    run = RunDirectory.open(path)
    config, after = run_config(run.read_config(), str(run.config)), run.load_weights()
    base = Path(data_source(run.read_config(), run.config)["adapted"]["run"]).resolve()
    before, factors = read_tensors(run.initial), dict[str, Tensor]()
    for name, tensor in after.items():
        change = (tensor - before[name]).double()
        if change.any():
            left, sizes, right = torch.linalg.svd(change, full_matrices=False)
            rank = config.training.low_rank
            factors |= {name + UP: (left * sizes)[:, :rank].float(), name + DOWN: right[:rank].float()}
    record, origin = read_record(path), {ADAPTS: read_checksum(base / WEIGHTS), BASE: str(base)}
    run.save_weights(factors, {**read_metadata(run.weights), **origin})
    if record is not None:
        run.write_text(run.precision.name, replace(record, weights=read_checksum(run.weights)).json())
    run.initial.unlink()
    for folder in (run.checkpoints, path / "corpus"):
        shutil.rmtree(folder)
    run.write_card(run.card.read_text(encoding="utf-8"))
    size = run.weights.stat().st_size / 2**20
    return msg("kept as an adapter of {base}: rank {rank}, {size:.1f} MB", base, config.training.low_rank, size)
