"""Compare convolution, recurrence and self-attention: counted, measured and differentiated."""
