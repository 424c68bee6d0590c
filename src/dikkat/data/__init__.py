"""From files of text to clean, split and aligned pairs, and from pairs to batches of ids. Knows numpy, not torch."""
