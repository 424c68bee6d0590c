"""Show what a model does; importing this package loads neither torch nor matplotlib."""

from typing import TYPE_CHECKING, Any

from dikkat.explain.attention_map import AttentionMap, SentenceMaps

if TYPE_CHECKING:
    from dikkat.explain.notebook import attention_maps, page

__all__ = ["AttentionMap", "SentenceMaps", "attention_maps", "page"]


def __getattr__(name: str) -> Any:
    # on first use: what they share with the rest of the toolkit loads torch
    if name in __all__:
        from dikkat.explain import notebook

        return getattr(notebook, name)
    raise AttributeError(f"module 'dikkat.explain' has no attribute {name!r}")
