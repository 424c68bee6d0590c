"""The translator: prepare, train, evaluate, translate, and the card."""
