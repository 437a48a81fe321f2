"""operators: are PyTorch's own databases of operators, modules and optimizers bit-equal?

Every operator of op_db through laneway.inference and torch.compile (float32, all samples, five
layouts of the inputs) and through laneway.train_step, every module of module_db and every set of
options of optim_db trained: what came of each case (bench/corpus). A case that eager does not do
twice the same, or refuses, counts nowhere. The share of what is bit-equal as a job leaves out what
torch tags dynamic_output_shape or data_dependent_output, a named list (corpus/exclusions.py), and
for torch.compile what draws random numbers, which a second row counts. One sample of an operator
with --quick, N at most with --samples N."""

from __future__ import annotations

import collections
import os

from .corpus import exclusions, outcomes, parts, pool
from .corpus.outcomes import Row
from .harness import Options, progress
from .report import Report, at_least, at_most

WORKERS = 2
SHARE = 0.97
# What must not be, by part.
_NEVER = {
    "inference": (outcomes.DIFFERENT, outcomes.UNCLEAR),
    "compile": (outcomes.DIFFERENT, outcomes.EAGER_SILENT, outcomes.RAISED),
    "gradients": (outcomes.DIFFERENT, outcomes.UNCLEAR),
    "modules": (outcomes.DIFFERENT, outcomes.UNCLEAR),
    "optimizers": (outcomes.DIFFERENT, outcomes.UNCLEAR),
}
_OF_OPERATORS = ("inference", "compile", "gradients")
_ALSO_NEVER = (outcomes.CRASH, outcomes.HANG)


def cases() -> list[str]:
    return list(parts.PARTS)


def run(options: Options) -> Report:
    report = Report("operators")
    for part in parts.PARTS:
        if options.wants(part):
            judged = units(part, options.quick, options.samples)
            if options.samples is not None and part in _OF_OPERATORS:
                report.add(part, "samples of an operator, at most", float(options.samples), "")
            report_part(
                part,
                pool.judge(judged, _workers(options), on_unit=_say),
                report,
            )
    return report


def units(part: str, quick: bool, most: int | None = None) -> list[pool.Unit]:
    """What is judged of a part; of an operator at most so many samples."""
    samples = 1 if quick and part != "optimizers" else None
    if most is not None and part in _OF_OPERATORS:
        samples = most
    forms = tuple(parts.forms(part))
    listed = [pool.Unit(part, name, "float32", samples, forms) for name in parts.names(part)]
    if part == "optimizers":
        names = parts.names(part)
        listed += [pool.Unit(part, name, "bfloat16", samples, ("default",)) for name in names]
    return listed


def report_part(part: str, rows: list[Row], report: Report) -> None:
    """Figures of a part's rows; of what is not bit-equal also the cases, by class."""
    kinds = collections.Counter(row.outcome.kind for row in rows)
    for kind in (*_NEVER[part], *_ALSO_NEVER):
        report.add(part, kind, float(kinds[kind]), "", at_most(0))
    for kind in outcomes.CLASSES:
        if kind not in (*_NEVER[part], *_ALSO_NEVER) and kinds[kind]:
            names = len({row.case.name for row in rows if row.outcome.kind == kind})
            report.add(part, kind, float(kinds[kind]), "", note=f"{names} names")
    noted = [row for row in rows if row.outcome.kind == outcomes.EQUAL and row.outcome.notes]
    if noted:
        report.add(part, "of them strides not eager's", float(len(noted)), "")
    counted = [row for row in rows if _counts(part, row)]
    if part == "compile":
        _report_share(part, "share_with_random", counted, report, target=False)
        counted = [row for row in counted if not row.outcome.draws]
    _report_share(part, "bit_equal_share", counted, report, target=True)
    for kind in kinds:
        if kind != outcomes.EQUAL:
            report.samples[f"{part}/{kind}"] = outcomes.listed(rows, kind)


def _workers(options: Options) -> int:
    return min(WORKERS, len(options.cores or os.sched_getaffinity(0)))


def _say(unit: pool.Unit, rows: list[Row]) -> None:
    wrong = [row for row in rows if row.outcome.kind in outcomes.WRONG]
    if wrong:
        progress(f"operators: {unit.part}: {wrong[0].line()[:150]}")


def _counts(part: str, row: Row) -> bool:
    if row.outcome.kind == outcomes.NOT_APPLICABLE or row.outcome.dynamic:
        return False
    if part == "optimizers":
        return row.case.name not in exclusions.OPTIMIZERS
    return row.case.name not in exclusions.EXCLUDED


def _report_share(part: str, metric: str, rows: list[Row], report: Report, target: bool) -> None:
    goal = at_least(SHARE) if target else None
    if not rows:
        report.add(part, metric, None, "ratio", goal, note="no case counts")
        return
    equal = sum(row.outcome.kind == outcomes.EQUAL for row in rows)
    note = f"{equal} of {len(rows)}"
    report.add(part, metric, equal / len(rows), "ratio", goal, note=note)
