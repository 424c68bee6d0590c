"""Map the names of weights between another toolkit's checkpoints and our models, with one table for both directions."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from dikkat_runtime.errors import DataError, msg
from dikkat_runtime.notices import counted
from dikkat_runtime.text.foreign_json import shown

Weights = Mapping[str, Tensor]


@dataclass(frozen=True, slots=True)
class Row:
    """Map one of our weights to the other toolkit's names."""

    ours: str
    theirs: tuple[str, ...]
    """Parts that make our weight when they are stacked on each other; without any it is zero."""
    transposed: bool = False
    """Whether they store the matrix as (inputs, outputs)."""
    compute: Callable[[Sequence[Tensor]], Tensor] | None = None
    """Returns our weight from those parts, where it is another one than they are; it has no way back."""

    def within(self, ours: str, theirs: str) -> "Row":
        """Return the row with a prefix to the names of both sides."""
        return replace(self, ours=ours + self.ours, theirs=tuple(theirs + name for name in self.theirs))


def layer(ours: str, *theirs: str, transposed: bool = False) -> tuple[Row, Row]:
    """Return the rows of a module that has a weight and a bias, such as a linear layer or a norm."""
    weight = Row(f"{ours}.weight", tuple(f"{name}.weight" for name in theirs), transposed)
    return weight, Row(f"{ours}.bias", tuple(f"{name}.bias" for name in theirs))


def stacked(block: Sequence[Row], ours: str, theirs: str, layers: int) -> Iterator[Row]:
    """Yield the rows of `block` for each of `layers` blocks, numbered from 0 in lists called `ours` and `theirs`."""
    for number in range(layers):
        for row in block:
            yield row.within(f"{ours}.{number}.", f"{theirs}.{number}.")


def to_ours(
    rows: Sequence[Row],
    theirs: Weights,
    shapes: Mapping[str, torch.Size],
    where: str,
    described_by: str = "its config.json",
) -> dict[str, Tensor]:
    """Return our weights, of the given `shapes` and in float32, from all of theirs.

    Raises `DataError` naming the first weight that is missing, left over, or of another shape.
    """
    _check_complete(rows, theirs.keys(), where)
    _check_types(theirs, where)
    ours = {
        row.ours: _join(row, theirs, shapes[row.ours], where).float() for row in counted(rows, msg("weights converted"))
    }
    for row in rows:
        if row.theirs and ours[row.ours].shape != shapes[row.ours]:
            raise DataError(
                "{where}: the weight {name} does not fit {source}: its shape is {shape}, not {expected}"
            ).fill(where, row.theirs[0], described_by, _sizes(ours[row.ours].shape), _sizes(shapes[row.ours]))
    return ours


def to_theirs(rows: Sequence[Row], ours: Weights) -> dict[str, Tensor]:
    """Return their weights from all of ours: the input of `to_ours`, bit for bit, if it was float32.

    Parts must have equal sizes, and none may be computed.
    """
    theirs: dict[str, Tensor] = {}
    for row in rows:
        if not row.theirs:
            continue
        theirs |= {
            name: (part.T if row.transposed else part).contiguous()
            for name, part in zip(row.theirs, ours[row.ours].chunk(len(row.theirs)), strict=True)
        }
    return theirs


def _check_complete(rows: Sequence[Row], names: Collection[str], where: str) -> None:
    wanted = [name for row in rows for name in row.theirs]
    if missing := [name for name in wanted if name not in names]:
        raise DataError("{where}: the weight {name} is missing{more}", where, shown(missing[0]), _more(missing))
    if left := sorted(set(names) - set(wanted)):
        raise DataError("{where}: this model has no weight {name}{more}", where, shown(left[0]), _more(left))


def _check_types(theirs: Weights, where: str) -> None:
    for name, tensor in theirs.items():
        if not tensor.is_floating_point():
            raise DataError(
                "{where}: the weight {name} is of the type {kind}, but weights are floating-point numbers"
            ).fill(where, name, str(tensor.dtype).removeprefix("torch."))


def _join(row: Row, theirs: Weights, shape: torch.Size, where: str) -> Tensor:
    if not row.theirs and row.compute is None:
        return torch.zeros(shape)
    if row.compute is not None:
        try:
            return row.compute([theirs[name].float() for name in row.theirs])
        except (RuntimeError, IndexError):
            kinds = ", ".join(_sizes(theirs[name].shape) for name in row.theirs)
            raise DataError(
                "{where}: the weights {names} do not fit together: {kinds}", where, ", ".join(row.theirs), kinds
            ) from None
    parts = [theirs[name].movedim(0, -1) if row.transposed else theirs[name] for name in row.theirs]
    if len({part.shape[1:] for part in parts}) > 1 or any(part.dim() == 0 for part in parts):
        kinds = ", ".join(_sizes(part.shape) or "a single number" for part in parts)
        raise DataError(
            "{where}: the weights {names} cannot be one matrix: {kinds}", where, ", ".join(row.theirs), kinds
        )
    return torch.cat(parts)


def _sizes(shape: torch.Size) -> str:
    return " x ".join(map(str, shape))


def _more(names: Sequence[str]) -> str:
    return f", and {len(names) - 1} more" if len(names) > 1 else ""
