"""An image cut into patches."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from dikkat.nn.patches import PatchEmbedding


@pytest.mark.seed("E24")
def test_it_is_a_convolution_whose_stride_is_its_width() -> None:
    """As the paper puts it in practice: kernel and stride of one patch; row by row from the top."""
    patches, images = PatchEmbedding(2, channels=3, model_dim=5), torch.randn(4, 3, 6, 8)
    kernel = patches.projection.weight.view(5, 3, 2, 2)
    # (B, D, h, w) -> (B, h * w, D)
    expected = F.conv2d(images, kernel, patches.projection.bias, stride=2).flatten(2).transpose(1, 2)
    assert expected.shape == (4, 12, 5)
    torch.testing.assert_close(patches(images), expected)


@pytest.mark.seed("E24")
def test_every_pixel_counts_and_its_weight_is_learned() -> None:
    patches, images = PatchEmbedding(2, channels=3, model_dim=5), torch.randn(4, 3, 6, 8, requires_grad=True)
    patches(images).square().sum().backward()
    learned = patches.projection.weight.grad
    assert learned is not None
    assert learned.abs().min() > 0
    assert images.grad is not None
    assert images.grad.abs().min() > 0


def test_images_that_the_patches_do_not_divide_are_refused() -> None:
    with pytest.raises(ValueError, match="patches of 3 x 3 pixels do not divide images of 8 x 9"):
        PatchEmbedding(3, channels=1, model_dim=4)(torch.zeros(1, 1, 8, 9))
