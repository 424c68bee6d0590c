"""Convolution, recurrence and self-attention side by side: counted, measured, differentiated and trained."""
