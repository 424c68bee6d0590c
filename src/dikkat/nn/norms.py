"""Normalisation over the last dimension, by name: layer norm and root-mean-square norm.

Both are PyTorch's own, over features only, never over positions (fault F34).
"""

from __future__ import annotations

from torch.nn import LayerNorm, RMSNorm

__all__ = ["LayerNorm", "RMSNorm", "named_norm"]

_NORMS: dict[str, type[LayerNorm] | type[RMSNorm]] = {"layer": LayerNorm, "rms": RMSNorm}


def named_norm(name: str, model_dim: int, eps: float) -> LayerNorm | RMSNorm:
    """ "layer" (Ba et al. 2016) subtracts the mean, divides by the deviation and has weight and bias; "rms" (Zhang and
    Sennrich 2019) only divides by the root of the mean square and has a weight. Raises `ValueError` for other names.
    """
    if name not in _NORMS:
        raise ValueError(f"norm must be one of {', '.join(_NORMS)}, not {name!r}")
    return _NORMS[name](model_dim, eps=eps)
