"""What the server imports of which children are forked. It captures once, so that what a first
capture imports and builds is there in every child."""

import torch

from laneway.capture.capture import capture_inference
from laneway.serve import maker

_threads = torch.get_num_threads()
torch.set_num_threads(1)  # a pool of OpenMP does not survive a fork
capture_inference(torch.nn.Linear(1, 1), (torch.zeros(1, 1),))
torch.set_num_threads(_threads)

__all__ = ["maker"]
