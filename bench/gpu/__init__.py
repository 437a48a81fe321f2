"""The benches of the CUDA device; with its tests, the sections of ./dev gpu-check."""
