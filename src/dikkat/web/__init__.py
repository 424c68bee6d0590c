"""Models in a browser: a model file, an engine in JavaScript that computes it, a page and a module around both."""
