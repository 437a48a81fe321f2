"""The command line `laneway`: what an operator asks a running lanewayd, and tells it.

Starts without torch. Exit codes: 0 done, 1 failed, 2 wrong usage, 3 no service at that address,
4 refused by the service (the reason is on standard error).
"""

from laneway.cli.commands import main

__all__ = ["main"]
