"""The run directory as whoever uses it reads it: what may lie in it, its manifest, settings, scores and weights."""
