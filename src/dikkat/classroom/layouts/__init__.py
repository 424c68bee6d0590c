"""Where the classes of the source documents keep their weights, as reversible tables."""
