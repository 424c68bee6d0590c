"""Models over an engine, one file a kind: text in, results out."""
