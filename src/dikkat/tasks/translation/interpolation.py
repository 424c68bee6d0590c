"""Interpolate the weights of an adapted translator with those that it began with (Wortsman et al. 2022, WiSE-FT)."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from dikkat.run_directory import RunDirectory
from dikkat.run_directory.data_source import data_source
from dikkat.run_directory.tensor_files import read_tensors
from dikkat_runtime.errors import DataError, UsageError, msg
from dikkat_runtime.files import write_atomically
from dikkat_runtime.run.config import read_config
from dikkat_runtime.run.parts import TARGET_TOKENIZER


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
    files = [adapted.tokenizer]
    if (adapted.path / TARGET_TOKENIZER).exists():
        files.append(adapted.target_tokenizer)
    parts = [adapted.held_out(part, side) for part in ("validation", "test") for side in ("source", "target")]
    run = RunDirectory.create(out)
    with run.alone():
        run.make_folder("held_out")
        for file in (*files, *(part for part in parts if part.exists())):
            write_atomically(run.path / file.relative_to(path), file.read_bytes())
        origin = {"run": str(path), "share": share}
        run.write_config({**settings, "interpolated": origin, "command": command})
        run.save_weights(weights, {"interpolated_from": str(path), "share": str(share)})
        run.write_card(_card(out.resolve().name, base, path, share, command))


def _card(name: str, base: str, path: Path, share: float, command: str) -> str:
    return (
        f"# {name}\n\nA translator whose weights are {share:g} times those of `{path}` and {1.0 - share:g} times those"
        f" of `{base}`, with which it began. It was not trained itself.\n\n```\n{command}\n```\n"
    )
