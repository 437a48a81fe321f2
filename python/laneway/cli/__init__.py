"""The command line `laneway`: shows the state of a running lanewayd and controls it.

The command line does not import torch. Exit codes: 0 done, 1 failed, 2 wrong usage, 3 no service at
the address, 4 refused by the service (the reason is on standard error).
"""

from laneway.cli.commands import main

__all__ = ["main"]
