"""Text in, results out: one file a kind of model."""
