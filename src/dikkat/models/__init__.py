"""Models as visible expressions of bricks; they know ids and tensors, no optimizer, tokenizer or file."""
