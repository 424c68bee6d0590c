"""Drawings: a model with its sizes, the position table, curves and small maps, as SVG that needs nothing else."""
