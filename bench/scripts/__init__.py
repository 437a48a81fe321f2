"""Training scripts as people write them: NAME.py in plain PyTorch, NAME_laneway.py ported."""
