"""Kernels for a GPU, written in Triton with fixed block sizes, so that a run that is resumed gets the same bits."""
