"""Models as visible expressions of modules; they know ids and tensors, no optimizer, tokenizer or file."""
