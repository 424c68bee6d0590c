"""Parts that every kind of model shares: the training job, settings, weights and notes."""
