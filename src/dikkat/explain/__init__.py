"""Show what a model does; importing this package loads neither torch nor matplotlib."""

from dikkat.explain.attention_map import AttentionMap

__all__ = ["AttentionMap"]
