"""Decode source ids to target ids with a model: greedy, beam search and sampling, for a batch.

Decoding knows ids and tensors, never text. `R` is the number of decoder rows: sentences times rows per sentence.
"""
