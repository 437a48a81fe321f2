"""The demo: trainings and an inference share one memory pool, each a process of its own (or all in
one), and end with the same bits as plain PyTorch. `python -m laneway.demo` or `./dev demo`."""
