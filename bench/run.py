#!/usr/bin/env python3
"""Runs benches, prints what they found and writes it to build/bench/NAME.json."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parent.parent
if __name__ == "__main__":
    # Run as a file: this folder's modules must not shadow others, the packages must be found.
    sys.path[0:1] = [str(ROOT), str(ROOT / "python")]

from bench.harness import Options, pin  # noqa: E402
from bench.report import Report  # noqa: E402
from laneway.native.torch_versions import found_torch, minor_of  # noqa: E402

BENCHES = {
    "overhead": "does a training step cost less through Laneway than in the eager loop?",
    "phases": "do two trainings with work on the host take turns in a pool for one and a half?",
    "plan": "how close to the optimum are memory plans, and what does an allocation cost?",
    "height": "how far above its live bytes does a plan for low heights keep an iteration?",
    "early": "how much less memory does a step take that updates parameters early?",
    "predict": "how well does capture know the memory of an iteration before the first one?",
    "capture": "how long does the first call of a training step take?",
    "checks": "what is compared before each call of a step, and how long does that take?",
    "scheduler": "how many events a second does the core handle, and how long does one take?",
    "order": "does the core serve in the policy's order when memory is short?",
    "policies": "is each policy in short memory the server that its name promises, on any trace?",
    "philly": "does the core serve tens of thousands of real jobs as ideal servers would?",
    "policies_real": "does the simulated order of policies hold in a service?",
    "fidelity": "does the simulator say beforehand how long jobs take in a service?",
    "plugin": "do policies from outside the tree order as they say, and what does it take?",
    "coverage": "do the networks that people train work, bit-equal to eager, and how fast?",
    "latency": "what does the service add to an iteration, in round trips of the machine?",
    "throughput": "how many requests a second does the service answer, at what cost to the broker?",
    "start": "how long until the service, a connection and a first result are there?",
    "status": "what does a status cost the broker, with 1, 100 and 1,000 jobs?",
    "page": "what does `laneway web` take, with 20 pages open, and for a scrape?",
    "gateway": "what does `laneway serve` add to a request, and what do batches gain?",
    "many_models": "is each of many rarely used models answered as if it were alone?",
    "pause": "for how long does a training stand still when its worker is killed?",
    "memory": "do a job's bytes lie in the pool, and nowhere else?",
    "device_memory": "what does a service take of a device beside its pool, as jobs come and go?",
    "replay_fake": "which part of a step is replayed on CUDA, and how many calls does it save?",
    "against": "is a training step as fast as in another checkout (--other DIR)?",
    "operators": "are PyTorch's own databases of operators, modules and optimizers bit-equal?",
    "recovery_cost": "what does it cost that a job's state outlives a worker that dies?",
    "failover": "is anything lost when a worker is killed, wherever it stands?",
    "soak": "is anything lost or leaked when processes die and stop for an hour?",
    "exchange": "are all models answered when pool and store are nearly full of their images?",
    "eviction": "how fast do images leave the pool and come back?",
    "crowd": "do jobs with several times the pool's bytes keep every bit, and leave nothing?",
    "consolidation": "can one device hold 42 inference models, and what does a request wait?",
    "hyperparameter": "how long does a search of learning rates take, and how much memory?",
    "switching": "how long does a request wait for a model that is away?",
    "preemption": "how soon does a more urgent request run beside a training, at what cost?",
    "schedules": "which schedule of copying and computing answers first?",
    "residency": "what does a model that is resident, or a part of it, save of a switch?",
    "neighbours": "what do other jobs notice while images are copied into the pool?",
    "pairs": "is who computes beside whom chosen well, by speeds measured on GPUs?",
    "lanes": "does the number of lanes by measure do as much as the best number?",
    "fairness": "is a lane's device time shared by weight, whatever iterations take?",
    "starvation": "does anybody wait for ever, under any policy?",
    "after_pause": "what does an iteration on all threads take after a pause?",
    "turns": "how long does a lane stand still between the turns of two jobs?",
    "link": "does the host's link carry what it is set to, in however many pieces?",
    "loops": "do training scripts as people write them stay the same, and how fast are they?",
}
# With --device: bench/gpu. The same names where the question is the same.
DEVICE_BENCHES = {
    "overhead": "does a training step cost less than plain PyTorch, eager and compiled?",
    "service": "what does the service add to a synchronous iteration?",
    "sharing": "are four jobs in four lanes faster than one after another, or as processes?",
    "link": "how fast are copies, and ours against the link?",
    "launch": "what do an operator, a context and a first step cost?",
    "partition": "what do partitions of multiprocessors change for a small job beside a large one?",
    "placing": "how fast do images come into the pool?",
    "switching": "what does a request cost whose weights are away?",
}


def parse(arguments: list[str]) -> tuple[argparse.Namespace, argparse.ArgumentParser]:
    parser = argparse.ArgumentParser(prog="./dev bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(BENCHES)}")
    parser.add_argument(
        "--device", metavar="D", help=f"cuda:N, with a NAME of {', '.join(DEVICE_BENCHES)}"
    )
    parser.add_argument("--trials", type=int, metavar="N", help="rounds of each comparison (30)")
    parser.add_argument("--quick", action="store_true", help="short trials, 5 rounds")
    parser.add_argument("--only", action="append", default=[], metavar="CASE", help="repeatable")
    parser.add_argument("--out", type=Path, default=ROOT / "build/bench", help="(build/bench)")
    parser.add_argument("--threads", type=int, default=1, help="of each measured process (1)")
    parser.add_argument(
        "--cores", type=_cores, default=(), metavar="N,N", help="pin all that is measured"
    )
    parser.add_argument(
        "--samples", type=int, metavar="N", help="of an operator, at most: for the bench operators"
    )
    parser.add_argument(
        "--other", type=Path, metavar="DIR", help="another checkout, built: for the bench against"
    )
    parser.add_argument(
        "--traces", type=Path, metavar="DIR", help="public traces that are not in the repository"
    )
    parser.add_argument(
        "--torch", metavar="MINOR", help="with this torch: ./dev makes its environment and builds"
    )
    parser.add_argument("--check", action="store_true", help="exit 1 when a target is missed")
    parser.add_argument("--list", action="store_true", help="names the benches and their cases")
    return parser.parse_args(arguments), parser


def _cores(text: str) -> tuple[int, ...]:
    cores = tuple(int(core) for core in text.split(","))
    if not set(cores) <= os.sched_getaffinity(0):
        there_are = sorted(os.sched_getaffinity(0))
        raise argparse.ArgumentTypeError(f"{text}: this process may use cores {there_are}")
    return cores


def options_of(args: argparse.Namespace) -> Options:
    return Options(
        trials=args.trials or (5 if args.quick else 30),
        quick=args.quick,
        only=tuple(args.only),
        out=args.out,
        threads=args.threads,
        samples=args.samples,
        traces=args.traces.resolve() if args.traces else None,
        other=args.other.resolve() if args.other else None,
        cores=args.cores,
    )


def torch_version() -> str:
    found = found_torch()
    return found.version if found else "no torch"


def list_benches() -> None:
    for name, question in BENCHES.items():
        cases = importlib.import_module(f"bench.{name}").cases()
        print(f"{name}: {question}\n    {' '.join(cases)}")
    for name, question in DEVICE_BENCHES.items():
        print(f"{name} --device cuda:0: {question}")


def main(arguments: list[str]) -> int:
    args, parser = parse(arguments)
    if args.list or not arguments:
        list_benches()
        return 0
    benches = DEVICE_BENCHES if args.device else BENCHES
    unknown = [name for name in args.names if name not in benches]
    if unknown or not args.names:
        given = f"no bench {unknown[0]!r}" if unknown else "no bench named"
        parser.error(f"{given}; there are {', '.join(benches)}")
    if args.trials is not None and args.trials < 1:
        parser.error(f"--trials {args.trials}: at least 1")
    if args.samples is not None and args.samples < 1:
        parser.error(f"--samples {args.samples}: at least 1")
    if args.torch and args.torch != minor_of(torch_version()):
        parser.error(f"--torch {args.torch}: this Python has {torch_version()}; run ./dev bench")
    options = options_of(args)
    modules = {name: module_of(name, args.device) for name in args.names}
    known = {case for module in modules.values() for case in module.cases()}
    strange = [case for case in options.only if case not in known]
    if strange:
        parser.error(f"no case {strange[0]!r} in {', '.join(args.names)}; see --list")
    pin(options.cores)
    missed = []
    for name, module in modules.items():
        report = run_on_device(name, args) if args.device else module.run(options)
        path = report.write(options.out)
        print(f"{name}: {benches[name]}\n{report.table()}\nwritten to {_shown(path)}\n")
        missed += report.missed()
    return 1 if args.check and missed else 0


def module_of(name: str, device: str | None) -> ModuleType:
    if not device:
        return importlib.import_module(f"bench.{name}")
    from bench.gpu.section import MODULES

    return importlib.import_module(f"bench.gpu.{MODULES[name]}")


def run_on_device(name: str, args: argparse.Namespace) -> Report:
    """A section of gpu-check as a bench: all its cases, without a limit that it would notice."""
    import torch

    from bench.gpu.section import Section, Settings

    settings = Settings(args.device, args.quick, torch.cuda.is_available())
    section = Section(f"{name}_on_device", settings=settings)
    more = {"trials": args.trials} if args.trials else {}
    module_of(name, args.device).run(section, tuple(args.only), **more)
    section.add_calibration()
    return section


def _shown(path: Path) -> str:
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        print("bench: interrupted", file=sys.stderr)
        sys.exit(130)
