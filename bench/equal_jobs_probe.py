"""The process that the capture bench starts for its case equal_jobs.

    python -m bench.equal_jobs_probe MODEL JOBS

makes JOBS steps of one model, each with weights, a learning rate and an optimizer of its own, and
takes the time of each one's first call: of steps that capture for themselves, and of steps that are
made like the first. Prints one JSON object: "first_s", the lists "captured_s" and "like_s" of all
others, and "probes", how many iterations of all these jobs were measured."""

from __future__ import annotations

import sys
import time
from typing import Any

from .models import make, pool_for
from .probe import run_probe


def probe(model: str, jobs: int) -> dict[str, Any]:
    import laneway

    works = [make(model) for _ in range(2 * jobs - 1)]
    batch = works[0].batch(0)
    pool = 2 * len(works) * pool_for(works[0])
    probes = 0
    with laneway.embedded(pool=pool, lanes=1) as service:

        def first_call(number: int, like: Any) -> tuple[Any, float]:
            work = works[number]
            for group in work.optimizer.param_groups:
                group["lr"] *= 1 + number / 10
            started = time.perf_counter()
            step = laneway.train_step(
                work.model, work.loss_fn, work.optimizer, service=service, like=like
            )
            step(*batch).item()
            took = time.perf_counter() - started
            step(*batch).item()  # what the first one learnt is known to the next step
            return step, took

        first, first_s = first_call(0, None)
        steps, times = [first], {"captured_s": [], "like_s": []}
        for number in range(1, jobs):
            # In turn, so that neither has the quieter machine.
            for name, like, offset in (("captured_s", None, 0), ("like_s", first, jobs - 1)):
                step, took = first_call(number + offset, like)
                steps.append(step)
                times[name].append(took)
        probes = sum(graph["probes"] for step in steps for graph in step.report()["graphs"])
        for step in steps:
            step.close()
    return {"first_s": first_s, "probes": probes, **times}


def main(arguments: list[str]) -> int:
    return run_probe(lambda: probe(arguments[0], int(arguments[1])))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
