"""loops: does a training script as people write it do the same with a few changed lines, and is it
as fast?

Each loop is a pair of scripts of bench/scripts/: NAME.py in plain PyTorch and NAME_laneway.py, its
port. Both run in processes of their own, an epoch at a time in interleaved rounds; eager also with
a malloc that keeps what was freed, and the faster eager counts. Compared are all losses, metrics,
models, optimizers, the generator's state and the checkpoints, bit for bit.

The time of a step is the wall time of an epoch's iterations, data loading included, over their
number. Evaluation and checkpoints are not in it. The first epoch, in which a port captures its
steps, does not count. `lines_changed` are the lines that the port added or edited: lines that were
removed, moved or indented otherwise do not count. The cases `*_threads` have torch's own number of
threads, and their medians are held to the targets.

`sync_on_read`: what it costs that a model shows its trained weights when it is read, over a call of
sync_to before each evaluation (every 100 steps, resnet18). `shared_generator`: what a call costs
more when the step draws from torch's generator instead of its job's (mlp with dropout; and mlp,
which draws nothing)."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from . import stats
from .harness import Calibration, Options, interleaved, progress
from .overhead import BASELINES, KEEPING_MALLOC
from .paced import PacedScript
from .report import ROOT, Report, Target, at_least, at_most
from .worker import WorkerFailed

SCRIPTS = ROOT / "bench/scripts"
COMPARED = ("losses", "metrics", "model", "optimizer", "generator", "checkpoints")
WARM_UP = 1  # epochs
SPEED = at_least(0.95)
SPEED_MEDIAN = at_least(1.1)
SPEED_MEDIAN_THREADS = at_least(1.0)
EVERY = 100  # steps between two evaluations of sync_on_read
CHUNKS = 25  # in which each step runs its steps, so that drift hits both steps alike
CALLS = 200  # of an epoch of shared_generator
SYNC_COST = at_most(1.01)
GENERATOR_COST_US = at_most(10)


@dataclass(frozen=True)
class Loop:
    name: str
    batches: int  # of an epoch, so that it takes about a quarter of a second
    lines: int = 3  # that the port may change at most


LOOPS = (
    Loop("mnist", 40),
    Loop("vae", 80),
    Loop("dcgan", 80),
    Loop("word_lm_lstm", 120),
    Loop("word_lm_transformer", 60),
    Loop("super_resolution", 150),
    Loop("siamese", 100),
    Loop("gat", 120),
    Loop("forward_forward", 150),
    Loop("nanogpt", 40),
    Loop("imagenet", 6),
    Loop("trainer", 40, lines=1),
    Loop("lightning", 150, lines=1),
)


def cases() -> list[str]:
    names = [loop.name for loop in LOOPS]
    return [*names, *(f"{name}_threads" for name in names), "sync_on_read", "shared_generator"]


def run(options: Options) -> Report:
    report = Report("loops")
    calibration = Calibration()
    for suffix, threads in (("", options.threads), ("_threads", None)):
        timed = []
        for loop in LOOPS:
            case = loop.name + suffix
            if options.wants(case):
                progress(f"loops: {case}")
                if threads is not None:
                    report_lines(loop, report)
                means = _measure(case, loop, threads, options, report, calibration)
                timed += [means] if means else []
        report_median(f"all{suffix}", timed, threads is None, report)
    _measure_costs(options, report, calibration)
    calibration.add_to(report)
    return report


def changed_lines(script: str, port: str) -> list[str]:
    """The lines of `port` that it added or edited, without their indentation. A line of `script`
    that stands elsewhere in `port` was moved."""
    left = Counter(line.strip() for line in script.splitlines())
    changed = []
    for line in filter(None, map(str.strip, port.splitlines())):
        if left[line] > 0:
            left[line] -= 1
        else:
            changed.append(line)
    return changed


def lines_of_port(name: str) -> list[str]:
    """The changed lines of the port of the script `name`."""
    script, port = (SCRIPTS / f"{name}{end}.py" for end in ("", "_laneway"))
    return changed_lines(script.read_text(), port.read_text())


def report_lines(loop: Loop, report: Report) -> None:
    lines = lines_of_port(loop.name)
    note = " | ".join(lines)
    report.add(loop.name, "lines_changed", len(lines), "lines", at_most(loop.lines), note=note)


Means = dict[str, list[float]]  # of each variant: the mean time of a step in each trial, in ns


def _measure(
    case: str,
    loop: Loop,
    threads: int | None,
    options: Options,
    report: Report,
    calibration: Calibration,
) -> Means | None:
    module = f"bench.scripts.{loop.name}"
    variants = {
        "eager": (module, {}, {}),
        "eager_keep": (module, {}, KEEPING_MALLOC),
        "ported": (f"{module}_laneway", {}, {}),
    }
    try:
        means, left = run_interleaved(variants, loop.batches, threads, options, calibration)
    except WorkerFailed as error:
        for what in COMPARED:
            report.add(case, f"{what}_equal", 0.0, "bool", at_least(1), note=str(error))
        report.add(case, "ported_over_eager", None, "ratio", SPEED, note=str(error))
        return None
    report_equality(case, left, report)
    report_speed(case, means, threads is None, report)
    return means


def run_interleaved(
    variants: dict[str, tuple[str, dict[str, Any], dict[str, str]]],
    batches: int,
    threads: int | None,
    options: Options,
    calibration: Calibration,
) -> tuple[Means, dict[str, dict[str, Any]]]:
    """Runs modules, each (module, options of its main, environment), in interleaved rounds of an
    epoch. Returns times, and what each variant left. A WorkerFailed names the variant."""
    rounds = rounds_of(options)
    make = {"epochs": WARM_UP + rounds, "batches": batches, "threads": threads}
    make["cores"] = list(options.cores)
    means: Means = {name: [] for name in variants}
    left = {}
    with ExitStack() as stack:
        scripts = {}
        name = ""
        try:
            for name, (module, chosen, environment) in variants.items():
                started = PacedScript(make | {"module": module, "options": chosen}, environment)
                scripts[name] = stack.enter_context(started)
                started.wait_until_ready()
            for order in interleaved(list(variants), WARM_UP + rounds):
                calibration.sample()
                for name in order:
                    means[name].append(scripts[name].epoch())
            for name, script in scripts.items():
                left[name] = script.end()
        except WorkerFailed as error:
            raise WorkerFailed(f"{name}: {error}") from error
    return {name: trials[WARM_UP:] for name, trials in means.items()}, left


def rounds_of(options: Options) -> int:
    """Rounds of a comparison of whole epochs, which take long."""
    return max(3, options.trials // 3)


def report_equality(case: str, left: dict[str, dict[str, Any]], report: Report) -> None:
    theirs, ours = left["eager"]["digests"], left["ported"]["digests"]
    for what in COMPARED:
        same = float(theirs[what] == ours[what])
        report.add(case, f"{what}_equal", same, "bool", at_least(1))
    report.add(case, "captures", left["ported"]["captures"], "")


def report_speed(case: str, means: Means, threaded: bool, report: Report) -> None:
    for name, trials in means.items():
        us = [mean / 1e3 for mean in trials]
        report.add(case, f"{name}_us", stats.median(us), "us", samples=us)
    ratio = stats.bootstrap_ratio([means[name] for name in BASELINES], means["ported"])
    _add_ratio(case, "ported_over_eager", ratio, SPEED, threaded, report)


def report_median(case: str, timed: list[Means], threaded: bool, report: Report) -> None:
    """The median over the loops that were timed."""
    if not timed:
        return
    ratio = stats.bootstrap_median_ratio(
        [([means[name] for name in BASELINES], means["ported"]) for means in timed]
    )
    target = SPEED_MEDIAN_THREADS if threaded else SPEED_MEDIAN
    _add_ratio(case, "ported_over_eager_median", ratio, target, threaded, report)


def _add_ratio(
    case: str, metric: str, ratio: stats.Interval, target: Target, threaded: bool, report: Report
) -> None:
    """With one thread the lower end counts, with torch's own number of threads the median."""
    if threaded:
        value, note = ratio.median, f"median; 95 % from {ratio.low:.3f} to {ratio.high:.3f}"
    else:
        value, note = ratio.low, f"lower end of 95 %; median {ratio.median:.3f}"
    more = {"low": ratio.low, "median": ratio.median, "high": ratio.high}
    report.add(case, metric, value, "ratio", target, note=note, **more)


def _measure_costs(options: Options, report: Report, calibration: Calibration) -> None:
    if options.wants("sync_on_read"):
        progress("loops: sync_on_read")
        _measure_sync(options, report, calibration)
    if options.wants("shared_generator"):
        progress("loops: shared_generator")
        for dropout, model, target in (
            (True, "mlp_dropout", GENERATOR_COST_US),
            (False, "mlp", None),
        ):
            _measure_generator(dropout, model, target, options, report, calibration)


def _measure_sync(options: Options, report: Report, calibration: Calibration) -> None:
    case, metric = "sync_on_read", "on_read_over_manual"
    try:
        pairs = CHUNKS * (1 + rounds_of(options))
        times = run_pairs({"case": case}, EVERY // CHUNKS, pairs, options, calibration)
    except WorkerFailed as error:
        report.add(case, metric, None, "ratio", SYNC_COST, note=str(error))
        return
    manual, on_read = (sums(chunks[CHUNKS:], CHUNKS) for chunks in times)
    for name, trials in (("manual", manual), ("on_read", on_read)):
        ms = [trial / 1e6 for trial in trials]
        report.add(case, f"{name}_ms", stats.median(ms), "ms", samples=ms)
    cost = stats.bootstrap_ratio([on_read], manual)
    note = f"upper end of 95 %; median {cost.median:.4f}; {EVERY} steps and an evaluation"
    more = {"low": cost.low, "median": cost.median}
    report.add(case, metric, cost.high, "ratio", SYNC_COST, note=note, **more)


def _measure_generator(
    dropout: bool,
    model: str,
    target: Target | None,
    options: Options,
    report: Report,
    calibration: Calibration,
) -> None:
    case, metric = "shared_generator", f"{model}_shared_more_us"
    chosen = {"case": case, "dropout": dropout}
    try:
        pairs = WARM_UP + 2 * options.trials
        own, shared = run_pairs(chosen, CALLS, pairs, options, calibration)
    except WorkerFailed as error:
        report.add(case, metric, None, "us", target, note=str(error))
        return
    report.add(case, f"{model}_own_us", stats.median(own) / 1e3, "us")
    more = [(b - a) / 1e3 for a, b in zip(own[WARM_UP:], shared[WARM_UP:])]
    cost = stats.bootstrap_median(more)
    note = f"upper end of 95 %; median {cost.median:.2f}"
    report.add(case, metric, cost.high, "us", target, samples=more, note=note)


def run_pairs(
    chosen: dict[str, Any], batches: int, pairs: int, options: Options, calibration: Calibration
) -> tuple[list[float], list[float]]:
    """Runs bench/loop_costs.py with the options `chosen`: the times of the first step's epochs, in
    nanoseconds an iteration, and of the second's; the i-th of both follow each other."""
    make = {"module": "bench.loop_costs", "options": chosen, "epochs": 2 * pairs}
    make |= {"batches": batches, "threads": options.threads, "cores": list(options.cores)}
    times: dict[bool, list[float]] = {True: [], False: []}
    with PacedScript(make) as script:
        script.wait_until_ready()
        for epoch in range(2 * pairs):
            calibration.sample()
            times[is_first(epoch)].append(script.epoch())
        script.end()
    return times[True], times[False]


def sums(values: list[float], count: int) -> list[float]:
    """The sums of `count` values each, in order."""
    return [sum(values[i : i + count]) for i in range(0, len(values), count)]


def is_first(epoch: int) -> bool:
    """Whether the epoch of this number, from 0, is the first step's: A B B A …"""
    return epoch % 4 in (0, 3)
