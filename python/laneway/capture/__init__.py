"""Capture: one run of a step on fake tensors becomes a graph."""
