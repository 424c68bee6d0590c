"""Checks that find, count, show and leave out the faults of parallel text. Knows numpy, not torch."""
