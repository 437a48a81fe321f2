"""The runs of the benches policies_real and fidelity, which both report on: predicted from a
calibration before any of them, and kept in OUT/real_runs.json after each.

Whoever is interrupted, or wants the other bench, or more runs (`--trials`), goes on with what is
missing. Runs of another commit, machine or form (`--quick`) are replaced: remove the file to
measure anew.
In a turn each case and policy runs once, and the next turn runs them in reverse order."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from . import report
from .harness import Options, calibration_loop, operator_threads, progress
from .real_jobs import (
    STORE,
    Job,
    Live,
    Plain,
    Ran,
    jobs_of,
    load,
    measure_here,
    pool_bytes,
    write_trace,
)
from .simulate import simulate

POLICIES = ("fifo:age=off", "sjf:age=off", "srtf:age=off")
SEEDS, REPEATS = 3, 3
QUICK_TURNS = 2
CALIBRATE_S, QUICK_CALIBRATE_S = 3.0, 0.4
QUICK_JOBS, QUICK_FASTER = 10, 700
# width and threads
PLAIN = {"one_by_one": (1, 1), "one_by_one_2_threads": (1, 2), "two": (2, 1), "all": (1000, 1)}
STATES_OF = "one_by_one"  # of each seed it runs, whatever is asked for: its states count
FILE = "real_runs.json"


@dataclass(frozen=True)
class Case:
    lanes: int
    part: float = 1.0  # of all images, that the pool has room for


CASES = {
    "1_lane": Case(1),
    "2_lanes": Case(2),
    "1_lane_third": Case(1, 1 / 3),
    "2_lanes_third": Case(2, 1 / 3),
}
QUICK_CASES = ("1_lane", "2_lanes")


@dataclass(frozen=True)
class Predicted:
    """The jobs, and by case and policy what was simulated before any of them ran."""

    jobs: list[Job]
    calibration: dict[str, Any]
    summaries: dict[str, dict[str, dict[str, Any]]]


@dataclass(frozen=True)
class Run:
    """One that is to be made, or was: of a case under a policy, or in plain PyTorch."""

    case: str  # or "plain"
    variant: str  # a policy, or a name of PLAIN
    seed: int
    turn: int


@dataclass(frozen=True)
class Made:
    ran: Ran
    loop_ms: float  # the harness's calibration loop, before it


@dataclass
class RealRuns:
    """`head` says what the runs are of."""

    path: Path
    head: dict[str, Any]
    predicted: Predicted
    made: dict[Run, Made] = field(default_factory=dict)

    def live(self, case: str) -> dict[str, list[tuple[int, Ran]]]:
        """Of a case: by policy seeds and runs."""
        found: dict[str, list[tuple[int, Ran]]] = {policy: [] for policy in POLICIES}
        for run, made in self.made.items():
            if run.case == case:
                found[run.variant].append((run.seed, made.ran))
        return found

    def plain(self) -> dict[str, dict[int, Ran]]:
        """By variant and seed."""
        found: dict[str, dict[int, Ran]] = {}
        for run, made in self.made.items():
            if run.case == "plain":
                found.setdefault(run.variant, {})[run.seed] = made.ran
        return found

    def loops_ms(self) -> list[float]:
        return [made.loop_ms for made in self.made.values()]

    def takes_s(self, run: Run) -> float:
        """What the jobs of a run should take, as simulated; of plain PyTorch, one by one."""
        if run.case == "plain":
            return self.predicted.summaries["1_lane"][POLICIES[0]]["makespan_s"]
        return self.predicted.summaries[run.case][run.variant]["makespan_s"]

    def write(self) -> None:
        """Whole or not at all."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        document = {
            "head": self.head,
            "jobs": [asdict(job) for job in self.predicted.jobs],
            "calibration": self.predicted.calibration,
            "predicted": self.predicted.summaries,
            "runs": [
                {"run": asdict(run), "ran": asdict(made.ran), "loop_ms": made.loop_ms}
                for run, made in self.made.items()
            ],
        }
        partial = self.path.with_suffix(".json.partial")
        partial.write_text(json.dumps(document, allow_nan=False) + "\n")
        partial.replace(self.path)


def read(path: Path) -> RealRuns:
    document = json.loads(path.read_text())
    predicted = Predicted(
        [Job(**job) for job in document["jobs"]], document["calibration"], document["predicted"]
    )
    made = {
        Run(**line["run"]): Made(Ran(**line["ran"]), line["loop_ms"]) for line in document["runs"]
    }
    return RealRuns(path, document["head"], predicted, made)


def head_of(options: Options) -> dict[str, Any]:
    """What must be equal for runs to be gone on with."""
    return {
        "commit": report.commit(),
        "machine": report.machine(),
        "quick": options.quick,
    }


def cases_of(options: Options) -> list[str]:
    of_kind = QUICK_CASES if options.quick else CASES
    return [name for name in of_kind if options.wants(name)]


def turns_of(options: Options) -> int:
    return min(options.trials, QUICK_TURNS if options.quick else SEEDS * REPEATS)


def wanted(options: Options, plain: bool) -> list[Run]:
    """All runs of these options, in their order; `plain`: those in plain PyTorch too."""
    runs: list[Run] = []
    cases = cases_of(options)
    variants = [name for name in PLAIN if name == STATES_OF or options.wants("plain")]
    for turn in range(turns_of(options)):
        seed = turn % SEEDS
        if plain and turn < SEEDS:
            runs += [Run("plain", name, seed, turn) for name in variants]
        ours = [Run(case, policy, seed, turn) for case in cases for policy in POLICIES]
        runs += ours if turn % 2 == 0 else ours[::-1]
    return runs


def runs_of(bench: str, options: Options, plain: bool) -> RealRuns:
    """What the options want, made or kept from before."""
    with operator_threads(1):
        runs = begin(bench, options)
        all_ = wanted(options, plain)
        make(bench, runs, [run for run in all_ if run not in runs.made])
    return replace(runs, made={run: runs.made[run] for run in all_})


def begin(bench: str, options: Options) -> RealRuns:
    """What is kept, or a new calibration and what is predicted from it."""
    path, head = options.out / FILE, head_of(options)
    if path.exists():
        kept = read(path)
        if kept.head == head:
            progress(f"{bench}: goes on from {len(kept.made)} runs in {path}")
            return kept
        progress(f"{bench}: {path} is of another commit, machine or form, and is replaced")
    runs = RealRuns(path, head, predict(options.quick))
    runs.write()
    return runs


def predict(quick: bool) -> Predicted:
    """Calibrates the machine and simulates every case."""
    with tempfile.TemporaryDirectory(prefix="laneway-real-") as name:
        folder = Path(name)
        file, found = measure_here(folder, QUICK_CALIBRATE_S if quick else CALIBRATE_S)
        jobs = jobs_of(found, QUICK_JOBS, QUICK_FASTER) if quick else jobs_of(found)
        trace = folder / "jobs.csv"
        write_trace(jobs, found, trace)
        summaries: dict[str, dict[str, dict[str, Any]]] = {}
        for case in QUICK_CASES if quick else CASES:
            lanes = CASES[case].lanes
            pool = pool_bytes(jobs, found, lanes, CASES[case].part)
            flags = ("--calibration", str(file), "--lanes", str(lanes), "--memory", str(pool))
            flags += ("--store", str(STORE))
            summaries[case] = {
                policy: simulate(trace, policy, *flags).summary for policy in POLICIES
            }
        return Predicted(jobs, found, summaries)


def make(bench: str, runs: RealRuns, missing: Sequence[Run]) -> None:
    """Makes these runs, and keeps each."""
    if not missing:
        return
    left_s = sum(map(runs.takes_s, missing))
    progress(
        f"{bench}: {len(missing)} runs, their jobs take about {left_s / 60:.0f} min as simulated, "
        "and each run some time to start; --trials N has fewer"
    )
    began, done_s = time.monotonic(), 0.0
    for number, run in enumerate(missing, 1):
        progress(
            f"{bench}: run {number} of {len(missing)}: {run.case} {run.variant}, seed {run.seed}; "
            f"{load()}"
        )
        start_ns = time.perf_counter_ns()
        calibration_loop()
        loop_ms = (time.perf_counter_ns() - start_ns) / 1e6
        runs.made[run] = Made(one(runs.predicted, run), loop_ms)
        runs.write()
        done_s += runs.takes_s(run)
        left_s -= runs.takes_s(run)
        minutes = (time.monotonic() - began) / done_s * left_s / 60
        progress(f"{bench}: kept in {runs.path}; about {minutes:.0f} min left")


def one(predicted: Predicted, run: Run) -> Ran:
    jobs = predicted.jobs
    if run.case == "plain":
        with Plain(jobs, run.seed, *PLAIN[run.variant]) as plain:
            return plain.run()
    lanes = CASES[run.case].lanes
    pool = pool_bytes(jobs, predicted.calibration, lanes, CASES[run.case].part)
    words = ("--policy", run.variant, "--lanes", str(lanes))
    with Live(jobs, run.seed, words, pool) as live:
        return live.run()
