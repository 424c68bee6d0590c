"""Our models in Keras 3, on TensorFlow, JAX or PyTorch; needs the extra `dikkat[keras]`."""
