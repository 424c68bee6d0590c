"""The engine that computes with PyTorch, on processors and GPUs: the readable reference of the native one."""
