"""Iterations in eager execution, on copies, beside those of a job."""
