"""Linear layers whose result at a position does not depend on the length of the sequence."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor, nn

from dikkat.kernels.linear import Products, linear

_ATTRIBUTE = "products"


class Linear(nn.Linear):
    """`nn.Linear` by the kernels of `dikkat.kernels.linear`, in training with the `products` that it was set to."""

    products: Products = "exact"

    def forward(
        self, x: Float[Tensor, "*rows D"], *, rows: slice | None = None, relu: bool = False
    ) -> Float[Tensor, "*rows E"]:
        """Compute `x weight^T + bias`, and with `relu` its ReLU; `rows` takes these outputs alone."""
        return linear(x, self.weight, self.bias, rows=rows, relu=relu, products=training_products(self))


def output_layer(inputs: int, outputs: int, projects: bool, bias: bool) -> Linear | nn.Identity:
    """Return a linear layer, or nothing. Raises `ValueError` for two widths with nothing between them."""
    if projects:
        return Linear(inputs, outputs, bias=bias)
    if inputs != outputs:
        raise ValueError(
            f"without an output projection num_heads x head_dim must be model_dim = {outputs}, not {inputs}"
        )
    return nn.Identity()


def set_products(model: nn.Module, products: Products) -> None:
    """Set how `model` computes its matrix products in training: exactly, or of factors rounded to eight bits."""
    for module in model.modules():
        if hasattr(module, _ATTRIBUTE):
            setattr(module, _ATTRIBUTE, products)


def training_products(module: nn.Module) -> Products:
    """Return how a module that has `products` multiplies now: rounding is for training alone, as dropout is."""
    products: Products = getattr(module, _ATTRIBUTE, "exact")
    return products if module.training else "exact"
