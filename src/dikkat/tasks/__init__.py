"""Train, load and use models from text to text; one folder for each kind of model."""
