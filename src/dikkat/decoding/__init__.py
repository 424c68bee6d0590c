"""From a model and source ids to target ids: greedy, beam search and sampling, a batch or an endless stream at a time.

Decoding knows ids and tensors, never text. `R` is the number of decoder rows: sentences times rows per sentence.
"""
