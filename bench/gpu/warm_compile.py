"""Fills torch.compile's caches for the models of the overhead section, side by side, while sections
run that time nothing: compiling them one after another would take longer than the whole check."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

from ..worker import Worker, WorkerFailed
from . import overhead
from .section import Section
from .trials import order_of

CORES_EACH = 4  # a process that compiles and its helpers


def at_a_time() -> int:
    """Of the compiling processes: the tests beside them start programs of their own and wait."""
    return max(2, len(os.sched_getaffinity(0)) // CORES_EACH)


def run(section: Section) -> None:
    if not set(overhead.COMPILED) & set(overhead.variants_of(section)):
        why = overhead.why_not_compiled() if section.settings.cuda else None
        section.leave_out(why or "torch.compile: not measured in this run")
        return
    models = [case.name for case in overhead.CASES]
    jobs = [(model, variant) for model in models for variant in overhead.COMPILED]
    with ExitStack() as stack:
        workers = {}
        for model, variant in jobs:
            worker = Worker(order_of(section, model, variant), timeout_s=section.left())
            workers[model, variant] = stack.enter_context(worker)

        def compile_one(job: tuple[str, str]) -> tuple[float | None, str | None]:
            try:
                workers[job].make()
            except WorkerFailed as error:
                return None, str(error)
            return workers[job].about["setup_s"], None

        with ThreadPoolExecutor(at_a_time()) as pool:
            for (model, variant), (seconds, why) in zip(jobs, pool.map(compile_one, jobs)):
                section.add(model, f"{variant}_cold_s", seconds, "s", note=why)
