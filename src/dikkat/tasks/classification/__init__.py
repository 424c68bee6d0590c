"""The classifier of texts: prepare, train, evaluate, classify, and the card."""
