"""Measure how far an attention map can be trusted as an explanation."""

from dikkat.explain.head_analysis.alignment_head import caution

__all__ = ["caution"]
