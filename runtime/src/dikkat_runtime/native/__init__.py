"""The C kernels: the features of the processor, the library for it, and the structures that its functions take."""
