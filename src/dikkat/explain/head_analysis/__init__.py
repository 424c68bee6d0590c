"""Measure how far an attention map can be trusted as an explanation."""

from dikkat.explain.head_analysis.alignment_head import caution
from dikkat.explain.head_analysis.importance import (
    HeadName,
    Influence,
    attention_rollout,
    gradient_times_input,
    head_names,
    occlusion,
    without_heads,
)

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
