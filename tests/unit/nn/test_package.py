"""What `dikkat.nn` gives under the names that users import."""

from __future__ import annotations

import importlib
import pkgutil

import torch

import dikkat.nn


def test_attention_is_the_function() -> None:
    query, key, value = torch.randn(2, 3, 4), torch.randn(2, 5, 4), torch.randn(2, 5, 6)
    output, weights = dikkat.nn.attention(query, key, value)
    assert output.shape == (2, 3, 6)
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 3))


def test_no_module_takes_the_name_of_something_else() -> None:
    """Importing a module sets its name in the package, over whatever stood there."""
    before = {name: getattr(dikkat.nn, name) for name in dikkat.nn.__all__}
    modules = [module.name for module in pkgutil.iter_modules(dikkat.nn.__path__)]
    assert len(modules) > 15
    for name in modules:
        importlib.import_module(f"dikkat.nn.{name}")
    assert not before.keys() & set(modules)
    assert {name: getattr(dikkat.nn, name) for name in before} == before
