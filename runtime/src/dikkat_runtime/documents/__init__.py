"""Documents: files of many formats in, the same files with translated text out."""
