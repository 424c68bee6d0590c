"""Text to ids and back: tokenizers and casing. Knows no torch."""
