"""For how long a command waits for an answer of the service, which may be stopped."""

from __future__ import annotations

import argparse

# Longer than it takes until a broker that hangs is replaced.
ANSWER_S = 60.0


def answer_timeout(arguments: argparse.Namespace) -> float:
    """For how many seconds one request waits for its answer: what was said, or the usual where
    nothing was, or the command has no such option; of `wait`, whose timeout is of the whole, at
    most the usual."""
    said = getattr(arguments, "timeout", None)
    if said is None:
        return ANSWER_S
    return min(said, ANSWER_S) if arguments.command == "wait" else said
