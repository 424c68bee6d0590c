"""Turn text into ids and ids into text."""
