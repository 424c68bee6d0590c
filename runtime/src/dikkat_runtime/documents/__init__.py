"""Translate documents of many formats: the same files with translated text."""
