"""PyTorch's own databases of operators, modules and optimizers as the judge of Laneway.

`python -m bench.corpus --part PART` runs a part of them; `bench/operators.py` is the bench.
"""
