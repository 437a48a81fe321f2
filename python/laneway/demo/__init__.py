"""The demo: two training jobs and an inference graph share one memory pool, and end with the same
bits as plain PyTorch. Run it with `python -m laneway.demo` or `./dev demo`."""
