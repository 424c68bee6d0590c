"""The engine computes with the weights of a model, behind one contract: ids and numpy arrays in, numpy arrays out."""
