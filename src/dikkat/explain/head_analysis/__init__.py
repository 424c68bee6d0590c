"""Measure how far an attention map can be trusted as an explanation."""

from __future__ import annotations

from dikkat.explain.head_analysis.alignment_head import caution
from dikkat.explain.head_analysis.importance import HeadName, head_names, without_heads
from dikkat.explain.head_analysis.saliency import Influence, attention_rollout, gradient_times_input, occlusion

__all__ = [
    "HeadName",
    "Influence",
    "attention_rollout",
    "caution",
    "gradient_times_input",
    "head_names",
    "occlusion",
    "without_heads",
]
