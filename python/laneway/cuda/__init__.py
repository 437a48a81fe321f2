"""How eager PyTorch runs a step on CUDA, where that differs from the CPU."""
