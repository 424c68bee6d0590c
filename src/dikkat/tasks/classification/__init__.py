"""The classifier of texts: prepare, train, evaluate, classify, and write the card."""
