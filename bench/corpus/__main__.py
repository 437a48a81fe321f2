"""Runs a part of the corpus and prints what came of it: counts by class, then every case that is
not bit-equal, those of one name and message in one line."""

from __future__ import annotations

import argparse
import collections
import json
import re
import sys
import time
from pathlib import Path

from . import outcomes, parts, pool
from .outcomes import Row


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.corpus", description=__doc__)
    parser.add_argument("--part", required=True, choices=parts.PARTS)
    parser.add_argument("--only", metavar="REGEX", default="", help="names that have it")
    parser.add_argument("--samples", type=_samples, default=1, help="a number, or all (1)")
    parser.add_argument("--layouts", nargs="+", metavar="FORM", help="(all that the part has)")
    parser.add_argument("--dtypes", nargs="+", default=["float32"])
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--json", type=Path, metavar="OUT", help="writes all rows")
    parser.add_argument("--all", action="store_true", help="lists n/a and bit-equal ones as well")
    options = parser.parse_args()
    forms = tuple(options.layouts or parts.forms(options.part))
    unknown = sorted(set(forms) - set(parts.forms(options.part)))
    if unknown:
        parser.error(f"--layouts {unknown[0]}: there are {', '.join(parts.forms(options.part))}")
    units = [
        pool.Unit(options.part, name, dtype, options.samples, forms)
        for dtype in options.dtypes
        for name in parts.names(options.part, dtype)
        if re.search(options.only, name)
    ]
    begun = time.monotonic()
    rows = pool.judge(units, options.workers)
    seconds = time.monotonic() - begun
    print(summary(rows))
    print(
        f"{len(rows)} rows of {len(units)} names in {seconds:.0f} s: "
        f"{len(rows) / seconds:.1f} rows a second\n"
    )
    hidden = () if options.all else (outcomes.EQUAL, outcomes.NOT_APPLICABLE)
    for kind in outcomes.CLASSES:
        if kind not in hidden:
            for line in outcomes.listed(rows, kind):
                print(f"{kind}: {line}")
    if options.json:
        options.json.write_text(json.dumps([row.as_json() for row in rows]))
    return 1 if any(row.outcome.kind in outcomes.WRONG for row in rows) else 0


def summary(rows: list[Row]) -> str:
    """Counts by class, of cases and of names."""
    cases = collections.Counter(row.outcome.kind for row in rows)
    names = {kind: {r.case.name for r in rows if r.outcome.kind == kind} for kind in cases}
    lines = [
        f"{cases[kind]:6} {kind} ({len(names[kind])} names)"
        for kind in outcomes.CLASSES
        if cases[kind]
    ]
    noted = sum(bool(row.outcome.notes) for row in rows)
    return "\n".join([*lines, f"{noted:6} of them with notes"])


def _samples(text: str) -> int | None:
    return None if text == "all" else int(text)


if __name__ == "__main__":
    sys.exit(main())
