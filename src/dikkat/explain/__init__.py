"""Seeing what a model does. Importing this package loads neither torch nor matplotlib."""

from __future__ import annotations

from dikkat.explain.attention_map import AttentionMap

__all__ = ["AttentionMap"]
