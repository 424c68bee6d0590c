"""Show what a model does; importing this package loads neither torch nor matplotlib."""

from __future__ import annotations

from dikkat.explain.attention_map import AttentionMap

__all__ = ["AttentionMap"]
