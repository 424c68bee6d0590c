"""The largest numbers that options take."""

from __future__ import annotations

MOST_BEAMS = 1_000
"""Hypotheses that a beam search follows; more take hours and find nothing else."""
