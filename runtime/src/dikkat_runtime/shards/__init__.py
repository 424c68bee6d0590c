"""Many files in, as many files out: each is written whole or not at all, by many workers."""
