"""The language model: train, evaluate, continue a text, and the card."""
