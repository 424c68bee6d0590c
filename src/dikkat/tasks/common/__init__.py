"""What every kind of model shares: a training job from data to run directory, its settings, weights and notes."""
