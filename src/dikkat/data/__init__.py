"""Turn files of text into clean, split and aligned pairs, and pairs into batches of ids; knows numpy, not torch."""
