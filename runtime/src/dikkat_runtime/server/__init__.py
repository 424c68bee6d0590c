"""Serve the models of several runs behind the interfaces that translation and language clients speak."""
