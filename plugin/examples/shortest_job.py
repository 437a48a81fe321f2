#!/usr/bin/env python3
"""The shortest job goes first, by the time that the whole of it takes, what was done included, and
takes the place of a longer one that runs. Jobs that do not say how long they are come last."""

from laneway import policy

LAST = 1e18


class ShortestJob(policy.Policy):
    def rank(self, job, now):
        if job.total_iterations is None or job.iteration_s == 0:
            return LAST
        return job.total_iterations * job.iteration_s


policy.main(ShortestJob)
