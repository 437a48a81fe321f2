"""overhead on a device: does a training step cost less through Laneway than in plain PyTorch at its
best, eager and compiled, with and without the replay of a recorded iteration?

Each variant runs in a process of its own, in interleaved trials (bench/gpu/trials.py). A ratio is
how many times as fast Laneway is, and what counts is the lower end of its 95 % interval."""

from __future__ import annotations

import importlib.util
import os
import shutil
from dataclasses import dataclass

from .. import stats
from ..report import Target, at_least
from ..worker import WorkerFailed
from . import laneway_device
from .runners import LANEWAY
from .section import Section
from .trials import Trials, ready

VARIANTS = (
    "eager",
    "eager_ahead",
    "compiled",
    "graphs",
    "embedded",
    "embedded_plain",
    "embedded_replay",
    "embedded_inflight2",
    "embedded_inflight2_plain",
)
FEW_VARIANTS = ("eager", "compiled", "graphs", "embedded", "embedded_inflight2")
COMPILED = ("compiled", "graphs")
# Without torch's CUDA there is one plain variant that means something: that it runs.
REHEARSED = ("eager", "embedded", "embedded_plain", "embedded_replay", "embedded_inflight2")
SAME_BITS = ("embedded_plain", "embedded_replay", "embedded_inflight2")


@dataclass(frozen=True)
class Case:
    name: str
    over_eager: Target | None = None
    replay_over_eager: Target | None = None
    share: float = 1.0  # of the section's time, against the others'
    variants: tuple[str, ...] = VARIANTS


NO_SLOWER = at_least(1.0)
BY_REPLAY = at_least(1.5)  # where launching a step's kernels takes longer than running them

CASES = (
    Case("mlp", NO_SLOWER, BY_REPLAY),
    Case("cnn", NO_SLOWER, BY_REPLAY),
    Case("gpt", NO_SLOWER, BY_REPLAY),
    Case("lstm", NO_SLOWER, BY_REPLAY),
    Case("resnet18", NO_SLOWER, BY_REPLAY),
    # Keeps the device busy; all variants at once would not fit into its memory.
    Case("gpt_large", share=1.5, variants=FEW_VARIANTS),
)
QUICK_CASES = ("mlp", "cnn")


def cases() -> list[str]:
    return [case.name for case in CASES]


def variants_of(section: Section) -> tuple[str, ...]:
    if not section.settings.cuda:
        return REHEARSED
    without = COMPILED if section.settings.quick or why_not_compiled() else ()
    return tuple(v for v in VARIANTS if v not in without)


def why_not_compiled() -> str | None:
    """What torch.compile needs for a GPU and this machine lacks."""
    if importlib.util.find_spec("triton") is None:
        return "torch.compile needs triton, which is not installed"
    if "CC" in os.environ or shutil.which("gcc") or shutil.which("clang"):
        return None
    return "torch.compile needs a C compiler (gcc or clang), and there is none"


def run(section: Section, only: tuple[str, ...] = (), trials: int = 15) -> None:
    quick = section.settings.quick
    variants = variants_of(section)
    if variants != VARIANTS:
        missing = ", ".join(v for v in VARIANTS if v not in variants)
        why = why_not_compiled() if section.settings.cuda else None
        section.leave_out(f"variants {missing}{f': {why}' if why else ''}")
    wanted = [case for case in CASES if not only or case.name in only]
    for index, case in enumerate(wanted):
        if quick and not only and case.name not in QUICK_CASES:
            section.leave_out(f"{case.name}: not with --quick")
            continue
        share = case.share / sum(later.share for later in wanted[index:])
        seconds = min(section.left() * share * 1.3, section.left())
        if not section.fits(8 if section.settings.cuda else 0, case.name):
            continue
        try:
            chosen = tuple(v for v in variants if v in case.variants)
            _measure(section, case, chosen, 3 if quick else trials, seconds)
        except WorkerFailed as error:  # died between trials: the other models still count
            section.add(
                case.name, "embedded_over_eager", None, "ratio", case.over_eager, note=str(error)
            )


def _measure(
    section: Section, case: Case, variants: tuple[str, ...], rounds: int, seconds: float
) -> None:
    """One model, in about `seconds`, most of which setting up may take."""
    before = section.left()
    timeout_s = min(max(15.0, seconds * 0.85), 300.0) if section.settings.cuda else 300.0
    with ready(section, case.name, variants, timeout_s) as trials:
        used = before - section.left()
        trial_s = 0.02 if section.settings.quick else 0.12
        if trials.workers:
            trials.run(section, rounds, trial_s, max(1.0, seconds - used))
        trials.report(section, case.name)
        _report_ratios(section, case, trials)
        _report_replay(section, case.name, trials)
        for variant in SAME_BITS:
            same = trials.state_equals("embedded", variant)
            if same is not None:
                section.add(case.name, f"{variant}_state_equals_embedded", float(same), "bool")


def _report_replay(section: Section, case: str, trials: Trials) -> None:
    """How much of each of our variants was replayed, and why what was not."""
    for variant in (name for name in trials.workers if name in LANEWAY):
        report = trials.workers[variant].report()
        replayed, refused = laneway_device.replay_of(report)
        iterations = sum(graph["iterations"] for graph in report["graphs"])
        share = replayed / iterations if iterations else 0.0
        section.add(case, f"{variant}_replayed_share", share, "", note=refused or None)


def _report_ratios(section: Section, case: Case, trials: Trials) -> None:
    compare(section, case.name, "embedded_over_eager", trials, case.over_eager)
    compare(section, case.name, "embedded_plain_over_eager", trials)
    compare(section, case.name, "embedded_replay_over_eager", trials, case.replay_over_eager)
    compare(section, case.name, "embedded_inflight2_over_eager_ahead", trials)
    compare(section, case.name, "embedded_inflight2_plain_over_eager_ahead", trials)
    for other in COMPILED:
        compare(section, case.name, f"embedded_over_{other}", trials)


def compare(
    section: Section, case: str, metric: str, trials: Trials, target: Target | None = None
) -> None:
    """The row `metric`, A_over_B: how many times as fast A is as B."""
    ours, _, theirs = metric.partition("_over_")
    for name in (ours, theirs):
        if name not in trials.times_ns:
            if target is not None or name in trials.failed:
                why = trials.failed.get(name, "not run")
                section.add(case, metric, None, "ratio", target, note=f"{name}: {why}")
            return
    ratio = stats.bootstrap_ratio([trials.means_us(theirs)], trials.means_us(ours))
    note = f"lower end of 95 %; median {ratio.median:.3f}"
    more = {"median": ratio.median, "high": ratio.high}
    section.add(case, metric, ratio.low, "ratio", target, note=note, **more)
