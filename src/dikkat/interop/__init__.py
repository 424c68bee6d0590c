"""Models of other toolkits: their checkpoints read into ours, weight by weight and back."""
