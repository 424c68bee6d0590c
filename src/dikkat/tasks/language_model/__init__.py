"""The language model: prepare, train, evaluate, continue a text, and write the card."""
