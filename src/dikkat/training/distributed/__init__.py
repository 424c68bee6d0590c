"""Training by several processes, called ranks, which torchrun starts and restarts."""
