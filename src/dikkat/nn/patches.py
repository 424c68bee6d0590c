"""An image as a sequence: square patches, each projected to a vector (Dosovitskiy et al. 2021, section 3.1)."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor, nn


class PatchEmbedding(nn.Module):
    """Cuts images into patches of `patch_size` pixels squared, row by row, and embeds each by one linear layer.

    Raises `ValueError` for images that the patches do not divide.
    """

    def __init__(self, patch_size: int, channels: int, model_dim: int) -> None:
        super().__init__()
        self.patch_size = patch_size
        self.projection = nn.Linear(channels * patch_size**2, model_dim)

    def forward(self, images: Float[Tensor, "B C height width"]) -> Float[Tensor, "B S D"]:
        size, (height, width) = self.patch_size, images.shape[-2:]
        if height % size or width % size:
            raise ValueError(f"patches of {size} x {size} pixels do not divide images of {height} x {width}")
        # (B, C, h * p, w * p) -> (B, C, h, p, w, p) -> (B, h, w, C, p, p) -> (B, h * w, C * p * p)
        cut = images.unflatten(-1, (-1, size)).unflatten(2, (-1, size))
        return self.projection(cut.permute(0, 2, 4, 1, 3, 5).flatten(3).flatten(1, 2))
