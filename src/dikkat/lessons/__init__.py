"""Lessons teach with the toolkit: generated pairs, the classes of books, and what attention costs.

The core imports nothing from here: commands do, and the rest is found by the entry points of `dikkat.lessons`.
"""
