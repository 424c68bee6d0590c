"""Vectors of lines and of tokens from any trained model."""
