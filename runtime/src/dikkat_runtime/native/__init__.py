"""The C kernels: what the processor can do, the library for it, and the structures that its functions take."""
