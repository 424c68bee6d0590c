"""The translator: prepare, train, evaluate, translate, and write the card."""
