"""The engine: what computes, behind one contract; ids and numpy arrays in and out."""
