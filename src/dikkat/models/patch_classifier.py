"""The Vision Transformer: an image in, logits of its classes out, by the encoder that reads text."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor, nn

from dikkat.models.encoder import Encoder
from dikkat.nn.dropout import Dropout
from dikkat.nn.named_positions import Positions
from dikkat.nn.patches import PatchEmbedding


class PatchClassifier(nn.Module):
    """Patches, positions, encoder, mean over the patches, linear layer (Dosovitskiy et al. 2021, figure 1).

    The mean stands in for the extra token of the paper, which does no better (its appendix D.3).
    """

    def __init__(
        self,
        patches: PatchEmbedding,
        positions: Positions,
        encoder: Encoder,
        output: nn.Linear,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.patches = patches
        self.positions = positions
        self.encoder = encoder
        self.output = output
        self.dropout = Dropout(dropout)

    def forward(self, images: Float[Tensor, "B C height width"]) -> Float[Tensor, "B classes"]:
        hidden = self.encoder(self.dropout(self.positions(self.patches(images))))
        # (B, S, D) -> (B, D): every patch is real, so no mask
        return self.output(hidden.mean(dim=1))
