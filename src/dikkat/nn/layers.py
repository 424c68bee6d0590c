"""The layers of a block next to attention: linear, norm, dropout, embedding, feed-forward, table of n-grams."""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import RMSNorm as RMSNorm

from dikkat.kernels import dropout as kernel
from dikkat.kernels.activation import activate
from dikkat.kernels.embedding import embedding_rows
from dikkat.kernels.int8_linear import int8_linear_relu_linear
from dikkat.kernels.layer_norm import branched_layer_norm
from dikkat.kernels.linear import Products, linear


def dropout(x: Tensor, probability: float) -> Tensor:
    """Drop entries of `x` with `probability` and scale the rest to keep the mean (Srivastava et al. 2014).

    Raises `ValueError` for a probability outside [0, 1).
    """
    return kernel.dropout(x, checked_probability(probability))


def checked_probability(probability: float) -> float:
    """Return the probability. Raises `ValueError` if it lies outside [0, 1): at 1 nothing could keep the mean."""
    if not 0.0 <= probability < 1.0:
        raise ValueError(f"dropout probability must lie in [0, 1), not {probability}")
    return probability


class Dropout(nn.Module):
    """Dropout of tensors of any shape in training, identity in evaluation (Srivastava et al. 2014).

    Raises `ValueError` for a probability outside [0, 1).
    """

    def __init__(self, probability: float) -> None:
        super().__init__()
        self.probability = checked_probability(probability)

    def forward(self, x: Tensor) -> Tensor:
        """Drop entries of `x`."""
        return kernel.dropout(x, self.probability if self.training else 0.0)

    def add_to(self, residual: Tensor, x: Tensor) -> Tensor:
        """Compute `residual + dropout(x)` in one pass over memory."""
        return kernel.dropout(x, self.probability if self.training else 0.0, residual)

    def extra_repr(self) -> str:
        """Show the probability in the module's text."""
        return f"probability={self.probability}"


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


class TokenEmbedding(nn.Module):
    """An embedding whose rows are multiplied by sqrt(D) (Vaswani et al. 2017, section 3.4), unless not `scaled`.

    A `zero_row` is zero, and training leaves it so.
    """

    def __init__(self, vocab_size: int, model_dim: int, *, scaled: bool = True, zero_row: int | None = None) -> None:
        super().__init__()
        self.zero_row = zero_row
        self.scale = math.sqrt(model_dim) if scaled else 1.0
        self.weight = nn.Parameter(torch.empty(vocab_size, model_dim))
        nn.init.normal_(self.weight, std=model_dim**-0.5)
        if zero_row is not None:
            nn.init.zeros_(self.weight[zero_row])

    def forward(self, tokens: Int[Tensor, "*rows"]) -> Float[Tensor, "*rows D"]:
        """Look up the rows of tokens."""
        rows = embedding_rows(self.weight, tokens)
        return rows * self.scale

    def project(self, hidden: Float[Tensor, "*rows D"]) -> Float[Tensor, "*rows V"]:
        """Compute logits by the same matrix (Press and Wolf 2017), unscaled."""
        return linear(hidden, self.weight)


class LayerNorm(nn.LayerNorm):
    """Layer norm (Ba et al. 2016): `nn.LayerNorm` computed by the kernel of `dikkat.kernels.layer_norm`."""

    def forward(self, x: Float[Tensor, "*rows D"]) -> Float[Tensor, "*rows D"]:
        """Normalise the last dimension of `x`."""
        return self.branched(x)[1]

    def branched(self, x: Float[Tensor, "*rows D"]) -> tuple[Float[Tensor, "*rows D"], Float[Tensor, "*rows D"]]:
        """Return `x`, for a residual sum, and the same normalised."""
        return branched_layer_norm(x, self.weight, self.bias, self.eps)


_NORMS: dict[str, type[LayerNorm] | type[RMSNorm]] = {"layer": LayerNorm, "rms": RMSNorm}


def named_norm(name: str, model_dim: int, eps: float) -> LayerNorm | RMSNorm:
    """Build the norm of a name over the last dimension.

    "layer" (Ba et al. 2016) subtracts the mean, divides by the deviation and has weight and bias; "rms" (Zhang and
    Sennrich 2019) only divides by the root of the mean square and has a weight. Raises `ValueError` for other names.
    """
    if name not in _NORMS:
        raise ValueError(f"norm must be one of {', '.join(_NORMS)}, not {name!r}")
    return _NORMS[name](model_dim, eps=eps)


# The gated feed-forward network, in which one half of the hidden layer opens and closes the other.

GATES = {"geglu": "gelu", "geglu_tanh": "gelu_tanh", "swiglu": "silu"}


class GatedFeedForward(nn.Module):
    """A network `outer(gate(W x + b) * (V x + c))` (Shazeer 2020), by the `gate` of its activation.

    That is GELU ("geglu"), its approximation ("geglu_tanh") or SiLU ("swiglu"). W and V are the two halves of one
    packed matrix. At the same F it has half as many weights again as `FeedForward`. Raises `ValueError` for another
    activation.
    """

    def __init__(self, model_dim: int, feed_forward_dim: int, *, activation: str = "swiglu") -> None:
        super().__init__()
        if activation not in GATES:
            raise ValueError(f"activation must be one of {', '.join(GATES)}, not {activation!r}")
        self.activation = activation
        self.inner = Linear(model_dim, 2 * feed_forward_dim)
        self.outer = Linear(feed_forward_dim, model_dim)

    def forward(self, x: Float[Tensor, "*rows D"]) -> Float[Tensor, "*rows D"]:
        """Apply the network to every position."""
        # (*rows, 2 F) -> 2 x (*rows, F)
        gate, content = self.inner(x).chunk(2, dim=-1)
        return self.outer(activate(GATES[self.activation], gate) * content)


# The position-wise feed-forward network: the same two layers at every position.

_PLAIN = ("relu", "gelu", "gelu_tanh", "silu")


class FeedForward(nn.Module):
    """A feed-forward network: linear, activation, linear (Vaswani et al. 2017, section 3.3).

    "gelu" is exact, "gelu_tanh" its approximation by a tanh (Hendrycks and Gimpel 2016, section 2), as in GPT-2;
    "silu" is `x sigmoid(x)` (section 2 there), which Marian calls swish.
    Raises `ValueError` for another activation.
    """

    def __init__(
        self, model_dim: int, feed_forward_dim: int, *, activation: str = "relu", output_dim: int | None = None
    ) -> None:
        super().__init__()
        if activation not in _PLAIN:
            raise ValueError(f"activation must be one of {', '.join(_PLAIN)}, not {activation!r}")
        self.activation = activation
        self.inner = Linear(model_dim, feed_forward_dim)
        self.outer = Linear(feed_forward_dim, model_dim if output_dim is None else output_dim)

    def forward(self, x: Float[Tensor, "*rows D"]) -> Float[Tensor, "*rows E"]:
        """Apply the network to every position."""
        if self.activation != "relu":
            return self.outer(activate(self.activation, self.inner(x)))
        if training_products(self.inner) == "int8":
            inner, outer = ((layer.weight, layer.bias) for layer in (self.inner, self.outer))
            return int8_linear_relu_linear(x, inner, outer)
        return self.outer(self.inner(x, relu=True))
