"""Write models as functional models of Keras 3, made of its own layers and operations alone."""
