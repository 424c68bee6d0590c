"""Vectors of lines and tokens by any trained model."""
