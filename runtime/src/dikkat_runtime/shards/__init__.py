"""Translate, classify or embed many files by many workers, each output whole or absent."""
