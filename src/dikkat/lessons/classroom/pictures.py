"""The book's pictures: heat maps of attention weights, and the columns of the positions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def show_heatmaps(
    matrices: Tensor,
    xlabel: str,
    ylabel: str,
    titles: Sequence[str] | None = None,
    figsize: tuple[float, float] = (2.5, 2.5),
    cmap: str = "Reds",
) -> Figure:
    """Draw a grid of heat maps of (rows, columns, queries, keys).

    Each map has its own colour scale, as in the book's helper. Show it by naming it at the end of a notebook's cell,
    keep it with `.savefig("maps.png")`. Raises `ValueError` for matrices of another number of dimensions.
    """
    if matrices.dim() != 4:
        raise ValueError(f"matrices must be (rows, columns, queries, keys), but have {matrices.dim()} dimensions")
    figure = _new_figure(figsize)
    rows, columns = matrices.shape[:2]
    cells: Any = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    image: Any = None
    for row, column in np.ndindex(rows, columns):
        axes = cells[row, column]
        image = axes.imshow(matrices[row, column].detach().cpu().float().numpy(), cmap=cmap)
        if row == rows - 1:
            axes.set_xlabel(xlabel)
        if column == 0:
            axes.set_ylabel(ylabel)
        if titles:
            axes.set_title(titles[column])
    figure.colorbar(image, ax=cells, shrink=0.6)
    return figure


def plot_positions(P: Tensor, columns: Sequence[int] = (6, 7, 8, 9), figsize: tuple[float, float] = (6, 2.5)) -> Figure:
    """Some columns of the table P (1, positions, num_hiddens) over the positions."""
    figure = _new_figure(figsize)
    axes = figure.subplots()
    for column in columns:
        axes.plot(P[0, :, column].detach().cpu().numpy(), label=f"Col {column}")
    axes.set_xlabel("Row (position)")
    axes.legend()
    return figure


def _new_figure(figsize: tuple[float, float]) -> Figure:
    from matplotlib.figure import Figure

    return Figure(figsize=figsize, layout="constrained")
