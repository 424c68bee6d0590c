"""Draw a model with its sizes, the position table, curves and small maps as self-contained SVG."""
