#!/usr/bin/env python3
"""The job that came last goes first."""

from laneway import policy


class LatestFirst(policy.Policy):
    def rank(self, job, now):
        return -job.arrival


policy.main(LatestFirst)
