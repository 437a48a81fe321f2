"""The process that the capture bench starts afresh for every sample.

    python -m bench.capture_probe MODEL

imports torch, builds model, optimizer and one batch, then takes the time from `import laneway` to
the first loss, and prints one JSON object: "total_s", its parts in seconds by name, "cpu_s", what
the processor did in all of it, and "plan_s", what planning took behind the first result. Parts are
told apart by clocks around the functions that a step's first call goes through."""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Callable
from typing import Any

import torch

from .models import Workload, make
from .probe import run_probe

# part -> (module of laneway, name in it)
PARTS = {
    "compare": ("jobs.step_capture", "Likeness"),
    "capture": ("jobs.step_capture", "capture_train_step"),
    "encode": ("capture.capture", "encode_graph"),
    "admit": ("jobs.step", "create_job"),
    "place": ("jobs.calls.job", "Job.wait_until_placed"),
    "iteration": ("jobs.calls.graph_call", "GraphCall.run"),
}


def probe(work: Workload, batch: tuple[torch.Tensor, ...]) -> dict[str, float]:
    clock = time.perf_counter
    cpu_started = time.process_time()
    started = clock()
    import laneway
    import laneway.jobs.step  # names load when used: this is what using train_step loads

    imported = clock()
    spent = {part: _timed(*place) for part, place in PARTS.items()}
    from .models import pool_for

    pool = pool_for(work)
    begun = clock()
    service = laneway.embedded(pool=pool, lanes=1)
    opened = clock()
    step = laneway.train_step(
        work.model, work.loss_fn, work.optimizer, service=service, name=work.name
    )
    step(*batch).item()
    done = clock()
    cpu_s = time.process_time() - cpu_started
    parts = {"import": imported - started, "open": opened - begun}
    parts |= {part: sum(times) for part, times in spent.items()}
    idle = [part for part, times in spent.items() if not times]
    if idle:
        raise RuntimeError(f"the first call went past the clock of {idle[0]}: mend PARTS")
    total = (imported - started) + (done - begun)
    parts["rest"] = total - sum(parts.values())
    step(*batch).item()  # once it is done, what the first one learnt is in the report
    plan_s = step.report()["graphs"][0]["plan_s"]
    step.close()
    service.close()
    whole = {"total_s": total, "cpu_s": cpu_s, "plan_s": plan_s or 0.0}
    return whole | {f"{p}_s": s for p, s in parts.items()}


def _timed(module: str, name: str) -> list[float]:
    """Puts a clock around a function or method of laneway; the list gets the seconds of each
    call."""
    owner: Any = importlib.import_module(f"laneway.{module}")
    *path, last = name.split(".")
    for part in path:
        owner = getattr(owner, part)
    inner: Callable[..., Any] = getattr(owner, last)
    times: list[float] = []

    def timed(*args: Any, **kwargs: Any) -> Any:
        start = time.perf_counter()
        try:
            return inner(*args, **kwargs)
        finally:
            times.append(time.perf_counter() - start)

    setattr(owner, last, timed)
    return times


def main(arguments: list[str]) -> int:
    def found() -> dict[str, Any]:
        work = make(arguments[0])
        return probe(work, work.batch(0))

    return run_probe(found)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
