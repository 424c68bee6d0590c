"""Compare convolution, recurrence and self-attention: counted, measured, differentiated and trained."""
