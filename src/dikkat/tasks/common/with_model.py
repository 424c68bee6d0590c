"""Objects that compute with an engine and keep the module of PyTorch beside it, made where it is asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar, cast

from torch import nn

ModelT = TypeVar("ModelT", bound=nn.Module)


class WithModel(Generic[ModelT]):
    """Holds a model in evaluation mode, or what makes it when it is first wanted."""

    _model: ModelT | Callable[[], ModelT]

    @property
    def model(self) -> ModelT:
        """The model as a module of PyTorch, in evaluation mode."""
        if not isinstance(self._model, nn.Module):
            self._model = self._model()
        model = cast(ModelT, self._model)
        model.eval()
        return model
