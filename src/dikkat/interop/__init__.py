"""Read the checkpoints of other toolkits into our models, weight by weight, and write them back."""
